#!/usr/bin/env python3
"""Writes speech.json: what transformers' Whisper computes beside its layers.

    sinusoids    rows of the positions of an encoder: positions and channels of the table, and the rows
                 (of late positions rounding moves them by 1e-4)
    spans        masks of SpecAugment: how its spans are drawn, the lengths of the rows, the number that rounds
                 their counts, the first positions of each row's spans, and which positions each row has masked

    generate.py            writes speech.json if it is missing or differs
    generate.py --check    makes it again and compares; exit status 1 where it differs
"""

import sys
from pathlib import Path
from unittest.mock import patch

import numpy
import transformers
from transformers.models.whisper import modeling_whisper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import json_oracle

FILE = Path(__file__).resolve().parent / "speech.json"
TABLES = [(7, 4, range(7)), (9, 18, range(9)), (1500, 20, (0, 1, 2, 3, 200, 750, 1499)),
          (1500, 384, (1, 1499))]
# The share, length and smallest number of spans, the positions of the axis, the lengths of the rows.
FORMS = [
    (0.05, 10, 2, 300, [300, 300, 120]), (0.3, 7, 0, 60, [60, 60, 33, 9]), (0.9, 4, 1, 21, [21, 4, 3, 2]),
    (0.02, 5, 0, 40, [40, 17]), (0.5, 3, 9, 11, [11, 10, 5, 2]), (1.0, 1, 0, 13, [13, 6]), (0.4, 5, 1, 5, [5, 5]),
]
ROUNDINGS = (0.0, 0.37, 0.999)


def table(positions, channels, rows):
    values = modeling_whisper.sinusoids(positions, channels)
    return dict(positions=positions, channels=channels,
                rows=[dict(position=row, values=values[row].double().tolist()) for row in rows])


def spans(share, length, least, positions, own, rounding):
    random = numpy.random.RandomState(len(own) + positions)
    starts = []

    def choice(places, count, replace):
        starts.append(random.choice(places, count, replace=replace).astype(int).tolist())
        return numpy.array(starts[-1], dtype=int)

    mask = (numpy.arange(positions) < numpy.array(own)[:, None]).astype(int)
    with patch.object(numpy.random, "rand", lambda count: numpy.array([rounding])), \
            patch.object(numpy.random, "choice", choice):
        masked = modeling_whisper._compute_mask_indices(
            (len(own), positions), share, length, attention_mask=_Mask(mask), min_masks=least)
    return dict(share=share, length=length, least=least, positions=positions, own=own, rounding=rounding,
                starts=starts or [[] for _ in own], masked=[numpy.flatnonzero(row).tolist() for row in masked])


class _Mask:
    """What _compute_mask_indices asks of a tensor."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    def sum(self, dim):
        return self.values.sum(dim)


def make():
    return {"transformers": transformers.__version__, "sinusoids": [table(*one) for one in TABLES],
            "spans": [spans(*form, rounding) for form in FORMS for rounding in ROUNDINGS]}


if __name__ == "__main__":
    sys.exit(json_oracle.main(FILE, make, 2e-4, "Positions and SpecAugment of Whisper"))
