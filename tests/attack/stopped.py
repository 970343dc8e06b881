"""Kind "stopped": a rank, or the process that holds a lock, is stopped (SIGSTOP) before the first step. The job ends
in time, and names whom it waited for."""
import glob
import os
import re
import signal
import time

import mutate
from case import metrics
from jobs import FOREVER

TIMEOUT = 5  # seconds of --timeout: a rank takes about one to start, and several where the machine is busy
# A rank waits twice at most: for a lock, and for a rank that it has to tell that the lock was held. Then the launcher
# ends the ranks.
PATIENCE = 60.0
TEXT = 6 << 20  # bytes of text, which take about a second to tokenize


def long_text(bench):
    def make(path):
        os.makedirs(path)
        text = mutate.read(bench.data)
        mutate.write(os.path.join(path, "a.txt"), text * (TEXT // len(text)))
    return bench.once("long-text", make)


class Job:
    """A training on a text of its own, which is not tokenized yet."""

    def __init__(self, case):
        self.case, self.data, self.metrics = case, case.path("d"), case.path("metrics")
        os.makedirs(self.data)
        os.link(os.path.join(long_text(case.bench), "a.txt"), os.path.join(self.data, "a.txt"))
        self.out = case.path("out")

    def words(self, ranks, *more):
        strategy = ["-n", "2", "--strategy", "torch_ddp"] if ranks == 2 else ["--strategy", "none"]
        return self.case.bench.train(*strategy, "--packing", "documents", "--data", self.data, "--timeout",
                                     str(TIMEOUT), "--output", self.out, *more)

    def start(self, ranks, *more):
        return self.case.start(self.words(ranks, "--steps", FOREVER, "--metrics", self.metrics, *more))

    def maker(self):
        """The process that tokenizes the text, or None."""
        found = glob.glob(os.path.join(self.data, ".weft_cache", "*.making-*"))
        return int(found[0].rsplit("-", 1)[1]) if found else None

    def left(self):
        """What a job writes and has to remove."""
        return [os.path.join(place, name) for place, folders, files in os.walk(self.case.folder)
                for name in folders + files if re.search(r"\.making-|\.saving", name)]


def wait_for(condition, run):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not run.ended():
        if found := condition():
            return found
        time.sleep(0.002)
    return None


PHASES = {
    "the start": lambda job, run: run.rank(1),
    "the begin of the job": lambda job, run: os.path.lexists(job.case.path(".out.saving.lock")),
    "the tokenization": lambda job, run: job.maker(),
    "the end of the tokenization": lambda job, run: glob.glob(os.path.join(job.data, ".weft_cache", "*.ids")),
    "the first step": lambda job, run: metrics(job.metrics),
}


def run(case):
    [run_rank, run_rank, run_rank, run_cache_holder, run_save_holder][case.random.randrange(5)](case)


def judge_job(case, run, names):
    """The job has to end with an error that has one of the texts."""
    outcome = case.ends(run, PATIENCE, grace=15.0, codes={1})
    case.expect(outcome.hung or any(name in outcome.error for name in names),
                f"the error names none of {', '.join(names)}")


def expect_next_job_works(case, job):
    case.weft(job.words(1, "--steps", "1"), may_fail=False)
    left = job.left()
    case.expect(not left, f"left {os.path.basename(left[0]) if left else ''} behind")


def run_rank(case):
    rng, job = case.random, Job(case)
    phase, rank = rng.choice(list(PHASES)), rng.randrange(2)
    run = job.start(2)
    wait_for(lambda: PHASES[phase](job, run), run)
    time.sleep(rng.choice([0, rng.uniform(0, 0.3)]))
    pid = (job.maker() if phase == "the tokenization" else None) or run.rank(rank)
    rank = rank if pid == run.rank(rank) else 1 - rank
    case.what = f"rank {rank} of 2 is stopped after {phase}"
    if pid is None:
        case.judge(["the job has no such rank"])
    else:
        run.signal(pid, signal.SIGSTOP)
    judge_job(case, run, [f"rank {rank}", f"pid {pid} ", f"process {pid} "])
    expect_next_job_works(case, job)


def run_cache_holder(case):
    """Another job tokenizes the same text and is stopped."""
    ranks, job = case.random.choice([1, 2]), Job(case)
    case.what = f"a job of {ranks} waits for a stopped one that tokenizes"
    holder = case.start(case.bench.train("--strategy", "none", "--packing", "documents", "--data", job.data))
    pid = wait_for(job.maker, holder)
    if pid is not None:
        holder.signal(pid, signal.SIGSTOP)
    run = job.start(ranks)
    judge_job(case, run, [f"process {pid} on host"])
    holder.kill()
    expect_next_job_works(case, job)


def run_save_holder(case):
    """Another job saves to the same place, inside it, or to a folder that contains it."""
    job = Job(case)
    place = case.random.choice([job.out, os.path.join(job.out, "a", "b"), case.folder + "/out/../out"])
    swapped = place != job.out and case.random.random() < 0.5
    first, second = (job.out, place) if swapped else (place, job.out)
    case.what = f"a job saves to {os.path.relpath(second, case.folder)}, a stopped one to {first[len(case.folder):]}"
    holder = case.start(case.bench.train("--strategy", "none", "--steps", FOREVER, "--metrics", job.metrics, "--output",
                                         first))
    wait_for(lambda: metrics(job.metrics), holder)
    holder.signal(holder.process.pid, signal.SIGSTOP)
    # It fails before it opens its model.
    run = case.start(case.bench.train("--strategy", "none", "--model", case.path("absent.json"), "--output", second))
    judge_job(case, run, [f"process {holder.process.pid} on host"])
    holder.signal(holder.process.pid, signal.SIGCONT)
    holder.signal(holder.process.pid, signal.SIGTERM)
    outcome = case.ends(holder, PATIENCE, codes={128 + signal.SIGTERM})
    case.expect("saved " in outcome.error, "the first job did not save")
    case.expect(not job.left(), "locks are left")
