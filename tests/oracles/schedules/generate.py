#!/usr/bin/env python3
"""Writes rates.json: the learning rate, and the momentum where it moves, of each step under every schedule.

torch.optim.lr_scheduler gives the rates. The warm-up forms are Colossal-AI's: (k + 1) / warmup_steps, then the
schedule itself over the steps that are left. linear_warmup, cosine_warmup and constant are transformers'.

    generate.py            writes rates.json if it is missing or differs
    generate.py --check    makes it again and compares; exit status 1 where it differs
"""

import sys
from pathlib import Path

import torch
import transformers
from torch.optim import lr_scheduler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import json_oracle

FILE = Path(__file__).resolve().parent / "rates.json"
BASE = 0.5
TOTAL = 20
WARMUP = 4
TOLERANCE = 1e-14
METRICS = [5, 4, 4.5, 4.2, 4.1, 3.999999, 3.9, 3.95, 3.92, 3.91, 3.9, 3.91, 3, 3.1, 3.1, 3.1, 3.1, 3.1, 3.1, 3.1]


def run(make, momentum=False, metrics=None, steps=TOTAL):
    """The rates of the steps, or (rate, momentum)."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE, momentum=0.9)
    scheduler = make(optimizer)
    rates = []
    for step in range(steps):
        group = optimizer.param_groups[0]
        rates.append([float(group["lr"]), group["momentum"]] if momentum else float(group["lr"]))
        optimizer.step()
        if step + 1 < steps:
            scheduler.step(*([metrics[step]] if metrics else []))
    return rates


def rise():
    return [BASE * (step + 1) / WARMUP for step in range(WARMUP)]


def warmed_up(make, metrics=None):
    return rise() + run(make, metrics=metrics[WARMUP:] if metrics else None, steps=TOTAL - WARMUP)


def cosine(steps, **options):
    return lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, steps, **options)


def flat(steps, share, **options):
    """A constant part, then the cosine."""
    length = int(steps * share)
    return [BASE] * length + run(cosine(steps - length, **options), steps=steps - length)


def polynomial(steps, end, power):
    return [(BASE - end) * (1 - step / steps) ** power + end for step in range(steps)]


def torch_polynomial(steps, power):
    return lambda optimizer: lr_scheduler.PolynomialLR(optimizer, steps, power=power)


def multi_step(milestones, **options):
    return lambda optimizer: lr_scheduler.MultiStepLR(optimizer, milestones, **options)


def one_cycle(**options):
    return lambda optimizer: lr_scheduler.OneCycleLR(optimizer, BASE, total_steps=TOTAL, **options)


def plateau(**options):
    return lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, **options)


def cases():
    """(schedule, options but for total_steps, rates)"""
    warm, left = dict(warmup_steps=WARMUP), TOTAL - WARMUP
    linear = transformers.get_linear_schedule_with_warmup
    wave = transformers.get_cosine_schedule_with_warmup
    steady = transformers.get_constant_schedule_with_warmup
    exponential = lambda gamma: lambda optimizer: lr_scheduler.ExponentialLR(optimizer, gamma)
    step = lambda size, gamma: lambda optimizer: lr_scheduler.StepLR(optimizer, size, gamma)
    few = dict(patience=1, cooldown=1, factor=0.5)
    many = dict(mode="max", patience=0, threshold=0.5, threshold_mode="abs", factor=0.6, min_lr=0.1)
    yield "constant", warm, run(lambda optimizer: steady(optimizer, WARMUP))
    yield "linear", {}, run(lambda optimizer: lr_scheduler.LinearLR(optimizer, 1, 0, TOTAL))
    yield "linear_warmup", warm, run(lambda optimizer: linear(optimizer, WARMUP, TOTAL))
    yield "cosine_warmup", warm, run(lambda optimizer: wave(optimizer, WARMUP, TOTAL))
    yield "cosine_annealing", {}, run(cosine(TOTAL))
    yield "cosine_annealing", dict(eta_min=0.1), run(cosine(TOTAL, eta_min=0.1))
    yield "cosine_annealing_warmup", warm | dict(eta_min=0.1), warmed_up(cosine(left, eta_min=0.1))
    yield "flat_annealing", {}, flat(TOTAL, 0.72)
    yield "flat_annealing", dict(pct_start=0.3, eta_min=0.1), flat(TOTAL, 0.3, eta_min=0.1)
    yield "flat_annealing_warmup", warm, rise() + flat(left, 0.72)
    yield "multi_step", dict(milestones=[3, 9, 9, 15]), run(multi_step([3, 9, 9, 15]))
    yield ("multi_step_warmup", warm | dict(milestones=[2, 9, 15], gamma=0.3),
           warmed_up(multi_step([9 - WARMUP, 15 - WARMUP], gamma=0.3)))
    yield "one_cycle", {}, run(one_cycle(), momentum=True)
    yield ("one_cycle", dict(pct_start=0.4, anneal_strategy="linear", three_phase=True, base_momentum=0.5),
           run(one_cycle(pct_start=0.4, anneal_strategy="linear", three_phase=True, base_momentum=0.5), momentum=True))
    yield ("one_cycle", dict(cycle_momentum=False, div_factor=5, final_div_factor=10),
           run(one_cycle(cycle_momentum=False, div_factor=5, final_div_factor=10)))
    yield "polynomial", {}, polynomial(TOTAL, 1e-4, 1)
    yield "polynomial", dict(end_lr=0, power=2), run(torch_polynomial(TOTAL, 2))
    yield "polynomial_warmup", warm | dict(end_lr=0.1, power=3), rise() + polynomial(left, 0.1, 3)
    yield "exponential", {}, run(exponential(1))
    yield "exponential", dict(gamma=0.9), run(exponential(0.9))
    yield "exponential_warmup", warm | dict(gamma=0.9), warmed_up(exponential(0.9))
    yield "step", dict(step_size=7), run(step(7, 0.1))
    yield "step_warmup", warm | dict(step_size=3, gamma=0.5), warmed_up(step(3, 0.5))
    yield "plateau", few, run(plateau(**few), metrics=METRICS)
    yield "plateau", many, run(plateau(**many), metrics=METRICS)
    yield "plateau_warmup", warm | few, warmed_up(plateau(**few), metrics=METRICS)


def make():
    return {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "lr": BASE,
            "total_steps": TOTAL, "metrics": METRICS,
            "cases": [{"schedule": name, "options": options, "rates": rates} for name, options, rates in cases()]}


if __name__ == "__main__":
    sys.exit(json_oracle.main(FILE, make, TOLERANCE, "Rates of every learning-rate schedule"))
