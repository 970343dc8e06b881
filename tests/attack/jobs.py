"""Kinds "kill" and "resume": jobs that are stopped at any moment."""
import json
import os
import re
import signal
import time

import mutate
from case import metrics

LAYOUTS = [
    (1, ["--strategy", "none"]), (1, ["--strategy", "torch_ddp"]), (2, ["--strategy", "torch_ddp"]),
    (2, ["--strategy", "torch_fsdp"]), (2, ["--strategy", "low_level_zero", "-o", "stage=1"]),
    (2, ["--strategy", "low_level_zero", "-o", "stage=2"]),
    (2, ["--strategy", "gemini", "-o", "enable_gradient_accumulation=true"]),
    (2, ["--strategy", "hybrid_parallel", "-o", "tp_size=2"]),
    (2, ["--strategy", "hybrid_parallel", "-o", "zero_stage=1"]),
    (3, ["--strategy", "torch_fsdp"]), (4, ["--strategy", "hybrid_parallel", "-o", "tp_size=2"]),
]
FOREVER = "1000000"
PATIENCE = 60.0  # for a job that must end: a step, a save, and the launcher's 10 s for ranks that do not


def drawn_job(rng):
    ranks, strategy = rng.choice(LAYOUTS)
    words = (["-n", str(ranks)] if ranks > 1 else []) + strategy
    words += ["--optimizer", rng.choice(["adamw", "sgd", "lamb", "adafactor", "lion", "hybrid_adam"]), "--lr", "0.003"]
    words += rng.choice([[], ["--accumulate", "2"], ["--max-grad-norm", "0.5"], ["--recompute", "all"],
                         ["--lr-scheduler", "constant", "--warmup-steps", "2"]]) if ranks < 3 else []
    return ranks, words


def wait_for_step(run, path, step, limit):
    until = time.monotonic() + limit
    while time.monotonic() < until and not run.ended():
        if max(metrics(path), default=0) >= step:
            return True
        time.sleep(0.01)
    return False


def newest(folder):
    """Folders of `folder` that hold a training state."""
    names = [folder] + [os.path.join(folder, name) for name in (os.listdir(folder) if os.path.isdir(folder) else [])]
    return [name for name in names if os.path.exists(os.path.join(name, "training_state", "state.json"))
            and not os.path.basename(name).startswith(".")]


def ways_to_end(ranks):
    """How a job of so many ranks may be ended. A job of one rank has no launcher that could end it when it is
    stopped."""
    ways = ["KILL", "TERM", "INT", "KILL rank", "TERM rank", "INT rank", "STOP rank, then TERM",
            "STOP rank, then KILL", "STOP launcher, then KILL rank", "TERM twice", "INT twice"]
    return [way for way in ways if ranks > 1 or way != "STOP rank, then TERM"]


def names_killed_rank(rank, error):
    return re.search(rf"rank {rank} \(pid \d+ on [^)]*\) was killed by signal 9\b", error) is not None


def prove():
    """A stopped single rank is ended by SIGKILL alone, and the launcher's words about a killed rank are known."""
    stopped = [way for way in ways_to_end(1) if way.startswith("STOP") and "KILL" not in way]
    error = "weft: train: rank 1 (pid 4242 on box) was killed by signal 9 (SIGKILL) in step 7; the others were ended"
    right = [not stopped, "STOP rank, then TERM" in ways_to_end(2), names_killed_rank(1, error),
             not names_killed_rank(0, error), not names_killed_rank(1, "weft: train: rank 1 (pid 4 on box) failed: x")]
    print(f"{sum(right)} of {len(right)} ends of jobs are understood")
    return all(right)


def drawn_end(case, run, ranks):
    """Ends a job in one of many ways. Returns which, the rank that it chose, and the exit codes that are right."""
    rng, launcher = case.random, run.process.pid
    rank = rng.randrange(ranks)
    pid = run.rank(rank) if ranks > 1 else launcher
    how = rng.choice(ways_to_end(ranks))
    if pid is None:
        pid, how = launcher, "KILL"
    numbers = {name: getattr(signal, "SIG" + name) for name in ("KILL", "TERM", "INT", "STOP", "CONT")}
    first = how.split()[0].rstrip(",")
    target = pid if "rank" in how.split(",")[0] and not how.startswith("STOP launcher") else launcher
    run.signal(target, numbers[first])
    last = first
    if "then" in how or "twice" in how:
        time.sleep(rng.uniform(0, 0.5))
        last = first if "twice" in how else how.split("then ")[1].split()[0]
        run.signal(pid if how.endswith("KILL rank") else launcher, numbers[last])
    if how.startswith("STOP launcher"):
        time.sleep(rng.uniform(0, 0.5))
        run.signal(launcher, signal.SIGCONT)
    number = numbers[last]
    return how, rank, {128 + number, -number, 128 + signal.SIGKILL, -signal.SIGKILL}


def run_kill(case):
    rng, out, steps = case.random, case.path("out"), case.path("metrics")
    ranks, words = drawn_job(rng)
    words += ["--output", out] + rng.choice([[], ["--save-every", "1"], ["--save-every", "3"],
                                           ["--save-every", "2", "--save-async"]])
    run = case.start(case.bench.train(*words, "--steps", FOREVER, "--metrics", steps))
    early = rng.random() < 0.2
    if early:
        time.sleep(rng.uniform(0, 1.5))
    elif not wait_for_step(run, steps, rng.randint(1, 8), PATIENCE):
        case.what = "begins"
        return case.ends(run, 0.1, may_fail=False)
    time.sleep(rng.uniform(0, 0.3))
    how, rank, codes = drawn_end(case, run, ranks)
    case.what = f"{how} ({rank} of {ranks}) {' '.join(words)}"
    outcome = case.ends(run, PATIENCE, grace=15.0, codes=codes)
    before = metrics(steps)
    whole = newest(out)
    if not early and how == "KILL rank" and ranks > 1:
        case.expect(names_killed_rank(rank, outcome.error), "the killed rank is not named")
    if not early and how in ("TERM", "INT", "TERM rank", "INT rank"):
        case.expect(out in whole and f"saved {out}" in outcome.error, "it did not save before it ended")
    if not whole:
        case.expect("--save-every" not in words or max(before, default=0) < 12, "nothing was saved")
        return None
    again = case.path("again")
    # `--resume` takes the newest; each of them must be whole.
    folder = rng.choice([out, rng.choice(whole)])
    saved = last_step(folder)
    outcome = case.train(*words, "--steps", str(saved + 1), "--resume", folder, "--metrics", again, may_fail=False)
    if outcome.code == 0:
        after = metrics(again)
        case.expect(list(after) == [saved + 1], f"resumed at {list(after)}, saved after {saved}")
        if saved + 1 in before and saved + 1 in after:
            case.expect(before[saved + 1]["loss"] == after[saved + 1]["loss"], "the loss after resuming is another one")
        case.expect_nothing_staged()
    return None


def last_step(folder):
    """The step after which a folder, or its newest part, was saved."""
    states = [json.loads(mutate.read(os.path.join(name, "training_state", "state.json"))) for name in newest(folder)]
    return max(state["step"] for state in states)


def files_of(folder):
    """{name: bytes} of what two runs must write alike."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(".safetensors") and "step-" not in os.path.relpath(path, folder):
                found[os.path.relpath(path, folder)] = mutate.read(path)
    return found


def run_resume(case):
    rng, bench = case.random, case.bench
    ranks, words = drawn_job(rng)
    if ranks < 3 and rng.random() < 0.3:
        words += ["--precision", "bf16"]
    steps, every = rng.randint(30, 120), str(rng.randint(2, 9))
    words += ["--save-every", every] + rng.choice([[], ["--save-async"]])
    case.what = f"{steps} steps, " + " ".join(words)
    whole = case.train(*words, "--steps", str(steps), "--output", case.path("whole"), "--metrics",
                       case.path("whole.metrics"), may_fail=False)
    if whole.code != 0:
        return
    out, path = case.path("out"), case.path("metrics")
    for _ in range(rng.randint(1, 3)):
        resume = ["--resume", out] if newest(out) else []
        run = case.start(bench.train(*words, "--steps", str(steps), "--output", out, "--metrics", path, *resume))
        wait_for_step(run, path, max(metrics(path), default=0) + rng.randint(1, steps // 3), PATIENCE)
        time.sleep(rng.uniform(0, 0.05))
        pid = rng.choice([run.process.pid, run.rank(rng.randrange(ranks)) or run.process.pid])
        run.signal(pid, signal.SIGKILL)
        case.ends(run, PATIENCE, grace=15.0, codes={0, -signal.SIGKILL, 128 + signal.SIGKILL})
    resume = ["--resume", out] if newest(out) else []
    last = case.train(*words, "--steps", str(steps), "--output", out, "--metrics", case.path("last"), *resume,
                      may_fail=False)
    if last.code != 0:
        return
    first, second = files_of(case.path("whole")), files_of(out)
    differing = [name for name in sorted(first.keys() | second.keys()) if first.get(name) != second.get(name)]
    case.expect(not differing, f"{len(differing)} files differ from those of the run without a stop: {differing[:2]}")
    expected, got = metrics(case.path("whole.metrics")), metrics(case.path("last"))
    case.expect(all(expected[step]["loss"] == got[step]["loss"] for step in got), "the losses differ")
    case.expect_nothing_staged()
