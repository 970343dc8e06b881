#!/usr/bin/env python3
"""Makes the oracle tensors of the GPT-2 classes: see model_oracle.py."""

import sys
from pathlib import Path

import transformers

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402


def make_exact(model):
    """The upcast is to fp32: for fp64 a downcast. Without it the formula is the same."""
    for module in model.modules():
        if hasattr(module, "reorder_and_upcast_attn"):
            module.reorder_and_upcast_attn = False


if __name__ == "__main__":
    sys.exit(model_oracle.main(model_oracle.Family(
        "GPT-2", FOLDER, transformers.GPT2Config, BASE_CONFIG, CASES, is_norm=lambda name: ".ln_" in "." + name,
        make_exact=make_exact)))
