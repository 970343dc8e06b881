#!/usr/bin/env python3
"""Writes rules.json: three parameters after each of some updates by every rule, in fp64.

Where torch.optim has the rule, its result is written. The others are written down here from the papers, whole
parameters at a time, in numpy; so is Adafactor, whose defaults must agree with torch.optim's.

    generate.py            writes rules.json if it is missing or differs
    generate.py --check    makes it again and compares; exit status 1 where it differs
"""

import math
import sys
from pathlib import Path

import numpy
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import json_oracle

FILE = Path(__file__).resolve().parent / "rules.json"
SHAPES = {"matrix": (3, 4), "kernel": (2, 2, 3), "bias": (5,)}
STEPS = 4
TOLERANCE = 1e-12


def problem():
    """Initial values and the gradients of each step, by parameter."""
    random = numpy.random.Generator(numpy.random.PCG64(20))
    values = {name: random.standard_normal(shape) for name, shape in SHAPES.items()}
    gradients = [{name: random.standard_normal(shape) * (step + 1) for name, shape in SHAPES.items()}
                 for step in range(STEPS)]
    return values, gradients


def norm(x):
    return math.sqrt((x * x).sum())


def rms(x):
    return norm(x) / math.sqrt(x.size)


class Lion:
    """Chen et al. 2023, Algorithm 2."""

    def __init__(self, value, lr=1e-4, beta1=0.9, beta2=0.99, weight_decay=0):
        self.lr, self.beta1, self.beta2, self.decay = lr, beta1, beta2, weight_decay
        self.m = numpy.zeros_like(value)

    def step(self, w, g, t):
        update = numpy.sign(self.beta1 * self.m + (1 - self.beta1) * g)
        self.m = self.beta2 * self.m + (1 - self.beta2) * g
        return w - self.lr * (update + self.decay * w)


class Lars:
    """You et al. 2017, Algorithm 1."""

    def __init__(self, value, lr=1e-3, momentum=0, eeta=1e-3, weight_decay=0, epsilon=0):
        self.lr, self.momentum, self.eeta, self.decay, self.epsilon = lr, momentum, eeta, weight_decay, epsilon
        self.v = numpy.zeros_like(value)

    def step(self, w, g, t):
        local = self.eeta * norm(w) / (norm(g) + self.decay * norm(w) + self.epsilon)
        self.v = self.momentum * self.v + self.lr * local * (g + self.decay * w)
        return w - self.v


class Lamb:
    """You et al. 2020, Algorithm 2; without bias correction as its version 3."""

    def __init__(self, value, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0, adam=0, bias_correction=0):
        self.lr, self.beta1, self.beta2, self.eps, self.decay = lr, beta1, beta2, eps, weight_decay
        self.adam, self.corrected = adam, bias_correction
        self.m, self.v = numpy.zeros_like(value), numpy.zeros_like(value)

    def step(self, w, g, t):
        self.m = self.beta1 * self.m + (1 - self.beta1) * g
        self.v = self.beta2 * self.v + (1 - self.beta2) * g * g
        m, v = self.m, self.v
        if self.corrected:
            m, v = m / (1 - self.beta1**t), v / (1 - self.beta2**t)
        u = m / (numpy.sqrt(v) + self.eps) + self.decay * w
        ratio = 1 if self.adam else norm(w) / norm(u)
        return w - self.lr * ratio * u


class SecondMoment:
    """Averages of x by row and by column, or of x itself if it is no matrix."""

    def __init__(self, shape):
        self.factored = len(shape) >= 2
        self.row = numpy.zeros(shape[:-1]) if self.factored else None
        self.column = numpy.zeros(shape[:-2] + shape[-1:]) if self.factored else numpy.zeros(shape)

    def move(self, x, beta):
        if self.factored:
            self.row = beta * self.row + (1 - beta) * x.mean(axis=-1)
            self.column = beta * self.column + (1 - beta) * x.mean(axis=-2)
            outer = self.row[..., :, None] * self.column[..., None, :]
            return outer / self.row.mean(axis=-1)[..., None, None]
        self.column = beta * self.column + (1 - beta) * x
        return self.column


class Adafactor:
    """Shazeer, Stern 2018, Algorithms 4 and 5; momentum and decay as in transformers."""

    def __init__(self, value, lr=1e-2, eps1=1e-30, eps2=1e-3, clip_threshold=1, decay_rate=-0.8, beta1=0,
                 weight_decay=0, scale_parameter=1, relative_step=1, warmup_init=0):
        self.options = dict(lr=lr, relative=relative_step, warmup=warmup_init, scale=scale_parameter)
        self.eps1, self.eps2, self.clip, self.decay_rate = eps1, eps2, clip_threshold, decay_rate
        self.beta1, self.decay = beta1, weight_decay
        self.second, self.m = SecondMoment(value.shape), numpy.zeros_like(value)

    def rate(self, w, t):
        rate = self.options["lr"]
        if self.options["relative"]:
            bound = 1e-6 * t if self.options["warmup"] else rate
            rate = min(bound, 1 / math.sqrt(t))
        return rate * (max(self.eps2, rms(w)) if self.options["scale"] else 1)

    def step(self, w, g, t):
        rate = self.rate(w, t)
        u = g / numpy.sqrt(self.second.move(g * g + self.eps1, 1 - t**self.decay_rate))
        update = rate * u / max(1, rms(u) / self.clip)
        if self.beta1:
            self.m = self.beta1 * self.m + (1 - self.beta1) * update
            update = self.m
        return w - self.decay * rate * w - update


class Came:
    """Luo et al. 2023, Algorithm 2; a parameter that is no matrix has no instability."""

    def __init__(self, value, lr, eps1=1e-30, eps2=1e-16, clip_threshold=1, beta1=0.9, beta2=0.999, beta3=0.9999,
                 weight_decay=0):
        self.lr, self.eps1, self.eps2, self.clip = lr, eps1, eps2, clip_threshold
        self.beta1, self.beta2, self.beta3, self.decay = beta1, beta2, beta3, weight_decay
        self.second, self.unstable = SecondMoment(value.shape), SecondMoment(value.shape)
        self.m = numpy.zeros_like(value)

    def step(self, w, g, t):
        u = g / numpy.sqrt(self.second.move(g * g + self.eps1, self.beta2))
        u = u / max(1, rms(u) / self.clip)
        self.m = self.beta1 * self.m + (1 - self.beta1) * u
        update = self.m
        if w.ndim >= 2:
            update = self.m / numpy.sqrt(self.unstable.move((u - self.m) ** 2 + self.eps2, self.beta3))
        return w - self.lr * self.decay * w - self.lr * update


class Torch:
    """An optimizer of torch.optim on one parameter."""

    def __init__(self, value, make):
        self.parameter = torch.nn.Parameter(torch.from_numpy(value.copy()))
        self.optimizer = make([self.parameter])

    def step(self, w, g, t):
        self.parameter.grad = torch.from_numpy(g.copy())
        self.optimizer.step()
        return self.parameter.detach().numpy().copy()


def torch_rule(make):
    return lambda value, **options: Torch(value, lambda parameters: make(parameters, **options))


def adam(make):
    def with_betas(parameters, beta1=0.9, beta2=0.999, adamw_mode=1, **options):
        chosen = make if adamw_mode else torch.optim.Adam
        return chosen(parameters, betas=(beta1, beta2), **options)
    return torch_rule(with_betas)


def colossal_adam():
    return adam(lambda parameters, weight_decay=0, **options: torch.optim.AdamW(
        parameters, weight_decay=weight_decay, **options))


def torch_adafactor(parameters):
    return torch.optim.Adafactor(parameters, eps=(1e-30, 1e-3))


# (rule, how it is made, options)
CASES = [
    ("sgd", torch_rule(torch.optim.SGD), dict(lr=0.1, momentum=0.9, weight_decay=0.2)),
    ("adam", adam(torch.optim.Adam), dict(lr=0.1, weight_decay=0.2)),
    ("adamw", adam(torch.optim.AdamW), dict(lr=0.1, beta1=0.8, weight_decay=0.2)),
    ("hybrid_adam", colossal_adam(), dict(lr=0.1)),
    ("cpu_adam", colossal_adam(), dict(lr=0.1, weight_decay=0.2)),
    ("fused_adam", colossal_adam(), dict(lr=0.1, weight_decay=0.2, adamw_mode=0)),
    ("lion", Lion, {}),
    ("lion", Lion, dict(lr=0.1, beta1=0.8, beta2=0.6, weight_decay=0.2)),
    ("lars", Lars, {}),
    ("lars", Lars, dict(lr=2.0, momentum=0.9, eeta=0.1, weight_decay=0.2, epsilon=0.5)),
    ("lamb", Lamb, {}),
    ("lamb", Lamb, dict(lr=0.1, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.2)),
    ("lamb", Lamb, dict(lr=0.1, weight_decay=0.2, bias_correction=1)),
    ("lamb", Lamb, dict(lr=0.1, weight_decay=0.2, adam=1)),
    ("adafactor", torch_rule(torch_adafactor), {}),
    ("adafactor", Adafactor, {}),
    ("adafactor", Adafactor, dict(lr=0.1, beta1=0.9, weight_decay=0.2, clip_threshold=0.5, relative_step=0)),
    ("adafactor", Adafactor, dict(warmup_init=1, decay_rate=-0.5)),
    ("adafactor", Adafactor, dict(lr=0.1, scale_parameter=0, relative_step=0)),
    ("came", Came, dict(lr=0.1)),
    ("came", Came, dict(lr=0.1, beta1=0.8, beta2=0.9, beta3=0.7, weight_decay=0.2, clip_threshold=0.5)),
]


def flat(tensors):
    return {name: tensor.flatten().tolist() for name, tensor in tensors.items()}


def run(make, options, values, gradients):
    rules = {name: make(value, **options) for name, value in values.items()}
    after = []
    for step, of_step in enumerate(gradients):
        values = {name: rules[name].step(value, of_step[name], step + 1) for name, value in values.items()}
        after.append(flat(values))
    return after


def make():
    values, gradients = problem()
    cases = [{"rule": rule, "options": options, "values": run(made, options, values, gradients)}
             for rule, made, options in CASES]
    return {"torch": torch.__version__.split("+")[0], "shapes": SHAPES, "initial": flat(values),
            "gradients": [flat(gradient) for gradient in gradients], "cases": cases}


if __name__ == "__main__":
    sys.exit(json_oracle.main(FILE, make, TOLERANCE, "Parameters after updates by every rule"))
