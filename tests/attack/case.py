"""A case of the attack: a kind and a number, from which everything about it is drawn."""
import json
import os
import random
import shutil

import verdict
from process import Run

LIMIT = 90.0  # seconds that a command may take; it takes about one, and several where the machine is busy


class Case:
    def __init__(self, kind, number, bench):
        self.kind, self.number, self.bench = kind, number, bench
        self.name = f"{kind}:{number}"
        self.random = random.Random(self.name)
        self.folder = os.path.join(bench.folder, self.name.replace(":", "-"))
        self.bad, self.what, self.outcomes = [], "", []
        self.shown = None  # the outcome that was bad first, if any
        self.seconds = 0.0

    def make_folder(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, words, environment=None, **how):
        return Run([self.bench.weft, *words], environment, self.folder, **how)

    def ends(self, run, limit=LIMIT, grace=10.0, **allowed):
        """Waits for a run and keeps what is bad about its end."""
        outcome = run.finish(limit, grace)
        self.outcomes.append(outcome)
        self.judge(verdict.faults(outcome, **allowed))
        return outcome

    def judge(self, faults):
        self.bad += faults
        if faults and self.shown is None and self.outcomes:
            self.shown = self.outcomes[-1]

    def weft(self, words, environment=None, limit=LIMIT, **allowed):
        return self.ends(self.start(words, environment), limit, **allowed)

    def train(self, *more, environment=None, **allowed):
        """`weft train` on the tiny model and data, unless `more` names others."""
        return self.weft(self.bench.train(*more), environment, **allowed)

    def refused(self):
        return self.outcomes[-1].code != 0

    def expect(self, holds, text):
        self.judge([] if holds else [text])

    def expect_nothing_staged(self, folder=None):
        left = verdict.staged_in(folder or self.folder)
        self.expect(not left, f"left {os.path.basename(left[0]) if left else ''} behind")


def metrics(path):
    """The lines of a metrics file by step; the last one may be half written."""
    steps = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    step = json.loads(line)
                    steps[step["step"]] = step
                except ValueError:
                    pass
    return steps
