#!/usr/bin/env python3
"""Writes buckets.json: the buckets that transformers' T5 sorts distances into, one case for each form.

    generate.py            writes buckets.json if it is missing or differs
    generate.py --check    makes it again and compares; exit status 1 where it differs
"""

import sys
from pathlib import Path

import torch
import transformers
from transformers.models.t5.modeling_t5 import T5Attention

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import json_oracle

FILE = Path(__file__).resolve().parent / "buckets.json"
FIRST, LAST = -300, 300
FORMS = [(32, 128), (32, 17), (8, 12), (4, 3), (7, 50), (64, 1000)]


def case(buckets, max_distance, bidirectional):
    # As compute_bias has them: a matrix of distances, of which the first row and column hold each one.
    positions = torch.arange(LAST - FIRST + 1)
    matrix = T5Attention._relative_position_bucket(
        positions[None, :] - positions[:, None], bidirectional, buckets, max_distance)
    behind, ahead = matrix[1:-FIRST + 1, 0].flip(0), matrix[0, :LAST + 1]
    return dict(buckets=buckets, max_distance=max_distance, bidirectional=bidirectional, first_distance=FIRST,
                bucket_of=torch.cat([behind, ahead]).tolist())


def make():
    return {"transformers": transformers.__version__,
            "cases": [case(*form, bidirectional) for form in FORMS for bidirectional in (True, False)]}


if __name__ == "__main__":
    sys.exit(json_oracle.main(FILE, make, 0, "Buckets of relative positions of T5"))
