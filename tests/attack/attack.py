#!/usr/bin/env python3
"""Attacks the `weft` command: damaged files, wrong words, signals at any moment.

  attack.py --weft PROGRAM [--minutes N] [--seed S] [--kinds a,b] [--cases N]   draws cases while there is time
  attack.py --weft PROGRAM --case KIND:NUMBER [--keep FOLDER]                   repeats one
  attack.py --prove                                                            checks the judge

Every case is refused with one clear error, or works, or goes on after it was killed as if it had not been.
Without --seed WEFT_TEST_SEED is the seed, or 0. A case begins only if the longest one of its kind so far would
end in time. It ends with a table and with a command that repeats each bad case; exit code 1 if there is one.
"""
import argparse
import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from types import SimpleNamespace
from xml.etree import ElementTree

sys.dont_write_bytecode = True

import bombs
import checkpoints
import configurations
import full
import jobs
import links
import mutate
import plugins
import process
import signals
import stopped
import verdict
import words
from bench import Bench
from case import Case

KINDS = {"kill": jobs.run_kill, "resume": jobs.run_resume, "checkpoint": checkpoints.run, "config": configurations.run,
         "plugin": plugins.run, "words": words.run, "signals": signals.run, "bombs": bombs.run, "links": links.run,
         "full": full.run, "stopped": stopped.run}
TURNS = ["words", "checkpoint", "config", "links", "bombs", "full", "plugin", "signals", "checkpoint", "kill", "words",
         "config", "links", "bombs", "full", "plugin", "words", "checkpoint", "resume", "stopped"]


# Of the first case of a kind; later ones use its measured time.
EXPECTED_SECONDS = {"kill": 15.0, "resume": 40.0, "signals": 15.0, "stopped": 25.0}
USUAL_SECONDS = 8.0  # of the first case of any other kind


def try_case(kind, number, bench, repeat):
    case, begin = Case(kind, number, bench), time.monotonic()
    try:
        case.make_folder()
        KINDS[kind](case)
    except Exception as error:  # a fault of the attack is one bad case, and the others are still tried
        traceback.print_exc(limit=-4)
        case.judge([f"the attack failed: {type(error).__name__}: {str(error)[:150]}"])
    finally:
        process.kill_unfinished()
    case.seconds = time.monotonic() - begin
    if case.bad:
        print(f"bad: {case.what}: {'; '.join(case.bad)}\n  repeat: {repeat} --case {case.name}", flush=True)
        shown = [case.shown.command()[:600]] + case.shown.error.splitlines()[-12:] if case.shown else []
        for line in shown:
            print("  | " + line[:300], flush=True)
    return case


def lacking_strategies(weft):
    """The strategies of the cases that were not built beside the command."""
    built = {os.path.basename(os.path.dirname(place)) for place in plugins.shipped(os.path.abspath(weft))}
    wanted = {words[words.index("--strategy") + 1] for _, words in jobs.LAYOUTS} - {"none"}
    return sorted(wanted - built)


def next_kind(turns, tried, left):
    """The first kind in turn of which a case ends within `left` seconds, or None."""
    for turn in range(len(turns)):
        kind = turns[(len(tried) + turn) % len(turns)]
        own = [case.seconds for case in tried if case.kind == kind]
        if max(own, default=EXPECTED_SECONDS.get(kind, USUAL_SECONDS)) <= left:
            return kind
    return None


def write_junit(path, tried, repeat):
    """One test for each kind, as packaging/test-summary.py reads it."""
    root = ElementTree.Element("testsuite", name="attack")
    for kind in KINDS:
        own = [case for case in tried if case.kind == kind]
        if not own:
            continue
        bad = [f"{repeat} --case {case.name}" for case in own if case.bad]
        test = ElementTree.SubElement(root, "testcase", name=kind, status="fail" if bad else "run",
                                      time=f"{sum(case.seconds for case in own):.1f}")
        if bad:
            ElementTree.SubElement(test, "failure", message=f"{len(bad)} of {len(own)}").text = "; ".join(bad)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def table(tried, repeat):
    print(f"{'kind':12} {'tried':>6} {'ok':>6} {'bad':>6}")
    for kind in KINDS:
        own = [case for case in tried if case.kind == kind]
        bad = sum(bool(case.bad) for case in own)
        print(f"{kind:12} {len(own):6} {len(own) - bad:6} {bad:6}")
    for case in tried:
        if case.bad:
            print(f"{repeat} --case {case.name}\n    {case.what[:150]}: {'; '.join(case.bad)[:200]}")


def prove():
    """Cases begin in turn while there is time for them."""
    done = [SimpleNamespace(kind="words", seconds=50.0)]
    expected = [(TURNS, [], 200, "words"), (TURNS, done, 200, "checkpoint"), (["resume", "words"], [], 30, "words"),
                (["words", "words"], done, 40, None), (["words"], [], 0, None)]
    wrong = [case for case in expected if next_kind(*case[:3]) != case[3]]
    print(f"{len(expected) - len(wrong)} of {len(expected)} cases begin in turn and in time")
    return not wrong and prove_build_tree() and prove_summary() and prove_faults()


def prove_build_tree():
    """A build tree without a strategy is no bad case of a strategy."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("torch_ddp", "torch_fsdp", "low_level_zero", "gemini", "hybrid_parallel"):
            place = os.path.join(folder, "lib", "weft", "0", "plugins", name, "0.1.0")
            os.makedirs(place)
            if name != "gemini":
                mutate.write(os.path.join(place, "plugin.json"), b"{}")
        lacking = lacking_strategies(os.path.join(folder, "bin", "weft"))
    print(f"a build tree without gemini lacks {', '.join(lacking) or 'nothing'}")
    return lacking == ["gemini"]


def prove_summary():
    """packaging/test-summary.py counts each kind, and repeats the command of a bad case."""
    summary = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "packaging", "test-summary.py")
    tried = [SimpleNamespace(kind=kind, name=f"{kind}:{number}", seconds=1.0, bad=["an orphan"] * (number == 1))
             for number, kind in enumerate(["words", "kill", "words", "kill"])]
    with tempfile.TemporaryDirectory() as folder:
        write_junit(os.path.join(folder, "attack.xml"), tried, "packaging/attack")
        output = subprocess.run([sys.executable, summary, folder], input="", capture_output=True, text=True,
                                check=False)
    expected = ["FAILED attack: kill; to repeat: packaging/attack --case kill:1\n", "\n1 passed, 1 failed, 0 skipped\n"]
    right = output.returncode == 1 and all(text in output.stdout for text in expected)
    print("the summary of packaging/check counts the attack" if right else output.stdout + output.stderr)
    return right


def prove_faults():
    """A fault of the attack is a bad case of its kind with a command that repeats it, its processes are killed, and
    the next case of the kind is tried."""
    def fail(case):
        case.start(["-c", "sleep 1000 & sleep 1000"])
        if case.number == 0:
            mutate.json.loads("[" * 200000)

    with tempfile.TemporaryDirectory() as folder:
        bench = SimpleNamespace(weft="/bin/sh", folder=folder)
        mutate.write(os.path.join(folder, "words-2"), b"a file where the folder of a case should be")
        before, KINDS["words"], errors, texts = KINDS["words"], fail, io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(texts):
                tried = [try_case("words", number, bench, "packaging/attack") for number in range(3)]
                table(tried, "packaging/attack")
        finally:
            KINDS["words"] = before
    left = process.processes(lambda variable: variable.startswith(f"{process.MARK}={os.getpid()}-".encode()))
    counted = f"{'words':12} {3:6} {1:6} {2:6}\n" in texts.getvalue()
    repeated = all(texts.getvalue().count(f"packaging/attack --case words:{number}\n") == 2 for number in (0, 2))
    named = "RecursionError" in tried[0].bad[0] and "FileExistsError" in tried[2].bad[0]
    right = counted and repeated and named and not left
    print("a fault of the attack is a bad case, and the next one is tried" if right
          else f"{texts.getvalue()}{errors.getvalue()}left: {sorted(left)}")
    return right


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
    parser.add_argument("--junit", help="a file for the results, in the format of JUnit")
    parser.add_argument("--prove", action="store_true")
    given = parser.parse_args()
    if given.prove:
        return 0 if all([verdict.prove(), mutate.prove(), jobs.prove(), words.prove(), full.prove(), prove()]) else 1
    if not given.weft or not os.access(given.weft, os.X_OK):
        parser.error(f"--weft is {given.weft}: there is no such program")
    kinds = given.kinds.split(",")
    for name in kinds + [name.split(":")[0] for name in given.case]:
        if name not in KINDS:
            parser.error(f"there is no kind {name}; kinds: {', '.join(KINDS)}")

    lacking = lacking_strategies(given.weft)
    if lacking:
        print(f"attack: the build tree of {given.weft} lacks the strategies {', '.join(lacking)}; build all of it: "
              "cmake --build --preset release", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    until = time.monotonic() + 60 * given.minutes
    folder = given.keep or tempfile.mkdtemp(prefix="weft-attack-")
    tried, interrupted = [], False
    try:
        bench = Bench(given.weft, folder)
        if given.case:
            for name in given.case:
                kind, number = name.split(":")
                tried.append(try_case(kind, int(number), bench, given.repeat))
        else:
            print(f"attack: seed {given.seed} (--seed or WEFT_TEST_SEED), {given.minutes:g} minutes; to repeat a "
                  f"case: {given.repeat} --case KIND:NUMBER", flush=True)
            turns = [kind for kind in TURNS if kind in kinds]
            while len(tried) < given.cases:
                kind = next_kind(turns, tried, until - time.monotonic())
                if kind is None:
                    break
                tried.append(try_case(kind, given.seed * 1000003 + len(tried), bench, given.repeat))
                if not given.keep:
                    shutil.rmtree(tried[-1].folder, ignore_errors=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        interrupted = True
    finally:
        process.kill_unfinished()
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    table(tried, given.repeat)
    if given.junit:
        write_junit(given.junit, tried, given.repeat)
    if interrupted:
        return 130
    return 1 if any(case.bad for case in tried) else 0


if __name__ == "__main__":
    sys.exit(main())
