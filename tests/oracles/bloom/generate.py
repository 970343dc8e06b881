#!/usr/bin/env python3
"""Makes the oracle tensors of the Bloom classes: see model_oracle.py."""

import sys
from pathlib import Path
from types import MethodType, SimpleNamespace

import torch
import transformers
from transformers.models.bloom import modeling_bloom

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402


def make_exact(model):
    """The softmax is of fp32 scores and the derivative of the activation has constants of ten digits: for fp64
    both round. Without that the formulas are the same."""
    for module in model.modules():
        if isinstance(module, modeling_bloom.BloomGelu):
            module.forward = MethodType(lambda _, x: modeling_bloom.bloom_gelu_forward(x), module)
    modeling_bloom.F = SimpleNamespace(dropout=torch.nn.functional.dropout, linear=torch.nn.functional.linear,
                                       softmax=lambda x, dim, dtype: torch.softmax(x, dim))


# Bloom has one kind of attention.
if __name__ == "__main__":
    sys.exit(model_oracle.main(model_oracle.Family(
        "Bloom", FOLDER, transformers.BloomConfig, BASE_CONFIG, CASES,
        is_norm=lambda name: "layernorm" in name or "ln_f" in name, make_exact=make_exact,
        other_attention="eager")))
