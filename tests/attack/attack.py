#!/usr/bin/env python3
"""Attacks the `weft` command: damaged files, wrong words, signals at any moment.

  attack.py --weft PROGRAM [--minutes N] [--seed S] [--kinds a,b] [--cases N]   draws cases until the time is up
  attack.py --weft PROGRAM --case KIND:NUMBER [--keep FOLDER]                   repeats one
  attack.py --prove                                                            checks the judge

Every case is refused with one clear error, or works, or goes on after it was killed as if it had not been.
Without --seed WEFT_TEST_SEED is the seed, or 0. It ends with a table and with a command that repeats each bad
case; exit code 1 if there is one.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import checkpoints
import configurations
import jobs
import mutate
import plugins
import verdict
import words
from bench import Bench
from case import Case

KINDS = {"kill": jobs.run_kill, "resume": jobs.run_resume, "checkpoint": checkpoints.run, "config": configurations.run,
         "plugin": plugins.run, "words": words.run}
TURNS = ["words", "checkpoint", "config", "plugin", "words", "checkpoint", "kill", "config", "words", "plugin",
         "checkpoint", "resume"]


def try_case(kind, number, bench, repeat):
    case = Case(kind, number, bench)
    KINDS[kind](case)
    if case.bad:
        print(f"bad: {case.what}: {'; '.join(case.bad)}\n  repeat: {repeat} --case {case.name}", flush=True)
        for line in [case.shown.command()[:600]] + case.shown.error.splitlines()[-12:]:
            print("  | " + line[:300], flush=True)
    return case


def table(tried, repeat):
    print(f"{'kind':12} {'tried':>6} {'ok':>6} {'bad':>6}")
    for kind in KINDS:
        own = [case for case in tried if case.kind == kind]
        bad = sum(bool(case.bad) for case in own)
        print(f"{kind:12} {len(own):6} {len(own) - bad:6} {bad:6}")
    for case in tried:
        if case.bad:
            print(f"{repeat} --case {case.name}\n    {case.what[:150]}: {'; '.join(case.bad)[:200]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("WEFT_TEST_SEED") or 0))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--cases", type=int, default=10**9, help="at most so many")
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--keep", help="where files go, and stay")
    parser.add_argument("--repeat", default=f"python3 {sys.argv[0]} --weft WEFT", help=argparse.SUPPRESS)
    parser.add_argument("--prove", action="store_true")
    given = parser.parse_args()
    if given.prove:
        return 0 if verdict.prove() and mutate.prove() else 1
    if not given.weft or not os.access(given.weft, os.X_OK):
        parser.error(f"--weft is {given.weft}: there is no such program")
    kinds = given.kinds.split(",")
    for name in kinds + [name.split(":")[0] for name in given.case]:
        if name not in KINDS:
            parser.error(f"there is no kind {name}; kinds: {', '.join(KINDS)}")

    folder = given.keep or tempfile.mkdtemp(prefix="weft-attack-")
    tried = []
    try:
        bench = Bench(given.weft, folder)
        if given.case:
            for name in given.case:
                kind, number = name.split(":")
                tried.append(try_case(kind, int(number), bench, given.repeat))
        else:
            print(f"attack: seed {given.seed} (--seed or WEFT_TEST_SEED), {given.minutes:g} minutes", flush=True)
            until, turns = time.monotonic() + 60 * given.minutes, [kind for kind in TURNS if kind in kinds]
            while time.monotonic() < until and len(tried) < given.cases:
                number = given.seed * 1000003 + len(tried)
                tried.append(try_case(turns[len(tried) % len(turns)], number, bench, given.repeat))
                if not given.keep:
                    shutil.rmtree(tried[-1].folder, ignore_errors=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    table(tried, given.repeat)
    return 1 if any(case.bad for case in tried) else 0


if __name__ == "__main__":
    sys.exit(main())
