#!/usr/bin/env python3
"""Makes the oracle tensors of the Gemma 2 classes: see model_oracle.py. Those of norms have the 1 in them that
Hugging Face adds to the weight."""

import sys
from pathlib import Path
from types import MethodType

import torch
import transformers
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402
from rotary_decoder import repeat_kv  # noqa: E402


def norm(self, x):
    return (1 + self.weight) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def attention(module, query, key, value, mask, scaling, softcap=None, **_):
    """Eager attention, but for its softmax in fp32."""
    key, value = repeat_kv(key, module.num_key_value_groups), repeat_kv(value, module.num_key_value_groups)
    scores = query @ key.transpose(2, 3) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def make_exact(model):
    for module in model.modules():
        if type(module).__name__ == "Gemma2RMSNorm":
            module.forward = MethodType(norm, module)


def translate(tensors, metadata):
    return {name: value + 1 if name.startswith("weight.") and "norm.weight" in name else value
            for name, value in tensors.items()}, metadata


if __name__ == "__main__":
    ALL_ATTENTION_FUNCTIONS.register("exact", attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("exact", eager_mask)
    # Hugging Face's fused attention has no cap: eager is its own form, in fp64 with a softmax in fp32.
    sys.exit(model_oracle.main(model_oracle.Family(
        "Gemma 2", FOLDER, transformers.Gemma2Config, BASE_CONFIG, CASES, is_norm=lambda name: False,
        make_exact=make_exact, exact_attention="exact", other_attention="exact", translate=translate)))
