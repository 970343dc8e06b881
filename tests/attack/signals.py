"""Kind "signals": stop signals while ranks multiply matrices. What is saved has the bits of a job of as many steps."""
import json
import os
import signal
import time

import jobs
import mutate
from bench import CONFIG

# Large enough for the generated code of oneDNN, whose data a handler on its stack would overwrite.
WIDE = {**CONFIG, "n_positions": 64, "n_embd": 128, "n_head": 4}
WAYS = ["INT to the group", "TERM", "HUP again and again", "TERM to a rank", "INT, then TERM at once"]
LAYOUTS = [(1, ["--strategy", "none"]), (2, ["--strategy", "torch_ddp"]), (2, ["--strategy", "gemini"]),
           (2, ["--strategy", "hybrid_parallel", "-o", "pp_size=2"])]


def saved_files(folder):
    """{name: content} of what two jobs of as many steps must save alike: all but the time of the save."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            relative = os.path.relpath(path, folder)
            if relative.startswith("step-"):
                continue
            found[relative] = mutate.read(path)
            if name == "state.json":
                state = json.loads(found[relative])
                state.pop("saved_at")
                found[relative] = state
    return found


def send(run, how, pid):
    """Stops the job. Returns the signal with which it ends."""
    launcher = run.process.pid
    if how == "INT to the group":  # as a terminal does
        os.killpg(launcher, signal.SIGINT)
        return signal.SIGINT
    if how == "HUP again and again":
        until = time.monotonic() + jobs.PATIENCE
        while not run.ended() and time.monotonic() < until:
            run.signal(launcher, signal.SIGHUP)
            time.sleep(0.0005)
        return signal.SIGHUP
    if how == "INT, then TERM at once":
        run.signal(launcher, signal.SIGINT)
        run.signal(launcher, signal.SIGTERM)
        return signal.SIGINT
    run.signal(pid, signal.SIGTERM)
    return signal.SIGTERM


def run(case):
    rng, out, steps = case.random, case.path("out"), case.path("metrics")
    config = case.path("wide.json")
    mutate.write(config, json.dumps(WIDE).encode())
    ranks, words = rng.choice(LAYOUTS)
    words = (["-n", str(ranks)] if ranks > 1 else []) + words + ["--model", config, "--sequence-length", "64"]
    often = rng.choice([[], [], ["--save-every", "2", "--save-async"]])
    threads = {"OMP_NUM_THREADS": rng.choice(["1", "2"])}
    how = rng.choice(WAYS)
    case.what = f"{how}, {' '.join(words + often)} with {threads['OMP_NUM_THREADS']} threads"
    job = case.start(case.bench.train(*words, *often, "--output", out, "--metrics", steps, "--steps", jobs.FOREVER), threads)
    if not jobs.wait_for_step(job, steps, rng.randint(1, 4), jobs.PATIENCE):
        case.ends(job, 0.1, may_fail=False)
        return
    time.sleep(rng.uniform(0, 0.1))
    number = send(job, how, job.rank(rng.randrange(ranks)) if how == "TERM to a rank" and ranks > 1 else job.process.pid)
    # A signal that comes again after the job is done ends the command in the way of any program.
    outcome = case.ends(job, jobs.PATIENCE, grace=15.0, codes={128 + number, -number})
    if not os.path.exists(os.path.join(out, "training_state", "state.json")) or f"saved {out}" not in outcome.error:
        case.expect(False, "it did not save before it ended")
        return
    case.expect_nothing_staged()
    whole = case.path("whole")
    case.train(*words, "--output", whole, "--steps", str(jobs.last_step(out)), environment=threads, may_fail=False)
    first, second = saved_files(out), saved_files(whole)
    differing = [name for name in sorted(first.keys() | second.keys()) if first.get(name) != second.get(name)]
    case.expect(not differing, f"{len(differing)} files differ from those of a job of as many steps: {differing[:2]}")
