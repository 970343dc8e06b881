#!/usr/bin/env python3
"""The C API in Python, through ctypes: a training that signals interrupt saves the bits of one of as many steps.

  stop_signals.py LIBWEFT CONFIG TEXT FOLDER
"""
import ctypes as c
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Str(c.Structure):
    _fields_ = [("data", c.c_char_p), ("size", c.c_uint64)]


class StepResult(c.Structure):
    _fields_ = [("struct_size", c.c_uint64), ("index", c.c_int64), ("loss", c.c_double), ("grad_norm", c.c_double),
                ("lr", c.c_double), ("seconds", c.c_double), ("tokens_per_second", c.c_double),
                ("auxiliary_loss", c.c_double), ("stop", c.c_uint32), ("reserved", c.c_uint32)]


class BoostArguments(c.Structure):
    _fields_ = [("struct_size", c.c_uint64)] + [
        (name, c.c_void_p) for name in ("model", "optimizer", "data", "scheduler", "criterion")]


def text(value):
    data = value.encode()
    return Str(data, len(data))


class Weft:
    def __init__(self, path):
        self.library = c.CDLL(path)
        self.library.weft_error_create.restype = c.c_void_p
        self.library.weft_error_text.restype = Str
        self.error = c.c_void_p(self.library.weft_error_create())

    def __call__(self, name, *arguments):
        """Calls a function whose last parameter is the error."""
        if getattr(self.library, name)(*arguments, self.error) != 0:
            found = self.library.weft_error_text(self.error)
            raise RuntimeError(c.string_at(found.data, found.size).decode())

    def make(self, name, *arguments):
        own = c.c_void_p()
        self(name, *arguments, c.byref(own))
        return own


def step(weft, job, result):
    """Trains on the next batch, also after the end of an epoch."""
    try:
        weft("weft_job_next", job, c.byref(result))
    except RuntimeError as end:
        assert str(end) == "the end of the epoch", end
        weft("weft_job_next", job, c.byref(result))


def facts():
    """What the process does with signals."""
    lines = open("/proc/self/status", encoding="ascii").read().splitlines()
    caught = [line for line in lines if line.startswith(("SigCgt", "SigIgn", "SigBlk"))]
    return caught, [signal.getsignal(number) for number in STOPS], signal.pthread_sigmask(signal.SIG_BLOCK, [])


def train(weft, config, data, folder, steps):
    """Trains `steps` steps, or until a signal if there is no number. Returns the step of the end."""
    runtime = weft.make("weft_runtime_create", text(""))
    booster = weft.make("weft_booster_create", runtime, text('{"strategy": "none"}'))
    model = weft.make("weft_model_open", runtime, text(config), text(""))
    optimizer = weft.make("weft_optimizer_create", runtime, model, text("adamw"), text('{"lr": 0.001}'))
    loader = weft.make("weft_data_open", runtime, model, text(data), text('{"sequence_length": 64, "num_workers": 1}'))
    arguments = BoostArguments(struct_size=c.sizeof(BoostArguments), model=model, optimizer=optimizer, data=loader)
    job = weft.make("weft_booster_boost", booster, c.byref(arguments))
    result = StepResult(struct_size=c.sizeof(StepResult))
    before = facts()
    step(weft, job, result)
    assert facts() == before, f"a step has changed {before} to {facts()}"
    if steps is None:
        until_a_signal(weft, job, result)
        assert facts() == before, f"the stop signals have changed {before} to {facts()}"
    while steps is not None and result.index < steps:
        step(weft, job, result)
    weft("weft_booster_save_training", booster, job, text(folder), text(""))
    return result.index


def until_a_signal(weft, job, result):
    """Signals rain from a random moment on. Only the first counts: a second SIGHUP changes nothing."""
    signals = weft.make("weft_stop_signals_create", job)
    stopped = threading.Event()

    def rain():
        time.sleep(random.random() / 4)
        while not stopped.is_set():
            os.kill(os.getpid(), signal.SIGHUP)
            stopped.wait(0.0002)

    sender = threading.Thread(target=rain)
    sender.start()
    try:
        while not result.stop:
            step(weft, job, result)
    finally:
        stopped.set()
        sender.join()
    number = c.c_int32()
    weft("weft_stop_signals_agree", signals, c.byref(number))
    assert number.value == signal.SIGHUP, number
    weft.library.weft_stop_signals_destroy(signals)


def saved(folder):
    names = [os.path.relpath(os.path.join(place, name), folder) for place, _, files in os.walk(folder) for name in files]
    return sorted(names)


def compare(one, other):
    assert saved(one) == saved(other) and len(saved(one)) >= 5, (saved(one), saved(other))
    for name in saved(one):
        paths = [os.path.join(folder, name) for folder in (one, other)]
        if name.endswith("state.json"):
            states = [json.load(open(path, encoding="utf-8")) for path in paths]
            for state in states:
                state.pop("saved_at")
            assert states[0] == states[1], name
        else:
            assert filecmp.cmp(*paths, shallow=False), f"{name} is not the same after a signal"


def main():
    if len(sys.argv) > 5:  # one training of its own, because a process joins one job
        library, config, data, folder, steps = sys.argv[1:]
        print(train(Weft(library), config, data, folder, int(steps) or None))
        return
    library, config, data, folder = sys.argv[1:]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for number in range(2):
        paths = [os.path.join(folder, f"{name}-{number}") for name in ("stopped", "whole")]
        steps = "0"
        for path in paths:
            words = [sys.executable, __file__, library, config, data, path, steps]
            steps = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout.strip()
        compare(*paths)
        print(f"stopped after step {steps}: the same bits")


if __name__ == "__main__":
    main()
