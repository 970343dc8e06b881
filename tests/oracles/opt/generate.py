#!/usr/bin/env python3
"""Makes the oracle tensors of the OPT classes: see model_oracle.py."""

import sys
from pathlib import Path

import transformers
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402


def attention(_, query, key, value, mask, scaling, **__):
    """Eager attention, but for its softmax in fp32."""
    scores = query @ key.transpose(2, 3) * scaling
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


if __name__ == "__main__":
    ALL_ATTENTION_FUNCTIONS.register("exact", attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("exact", eager_mask)
    sys.exit(model_oracle.main(model_oracle.Family(
        "OPT", FOLDER, transformers.OPTConfig, BASE_CONFIG, CASES, is_norm=lambda name: "layer_norm" in name,
        make_exact=lambda model: None, exact_attention="exact")))
