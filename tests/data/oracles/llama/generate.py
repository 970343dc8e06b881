#!/usr/bin/env python3
"""Makes the oracle tensors of the Llama classes: see model_oracle.py."""

import sys
from pathlib import Path
from types import MethodType

import torch
import transformers
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRMSNorm, repeat_kv

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402


def norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def attention(module, query, key, value, mask, scaling, **_):
    """Eager attention, but for its softmax in fp32."""
    key, value = repeat_kv(key, module.num_key_value_groups), repeat_kv(value, module.num_key_value_groups)
    scores = query @ key.transpose(2, 3) * scaling
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def make_exact(model):
    """The norm's upcast is to fp32: for fp64 a downcast. Without it the formula is the same."""
    for module in model.modules():
        if isinstance(module, LlamaRMSNorm):
            module.forward = MethodType(norm, module)


if __name__ == "__main__":
    ALL_ATTENTION_FUNCTIONS.register("exact", attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("exact", eager_mask)
    sys.exit(model_oracle.main(model_oracle.Family(
        "Llama", FOLDER, transformers.LlamaConfig, BASE_CONFIG, CASES, is_norm=lambda name: "norm" in name,
        make_exact=make_exact, exact_attention="exact")))
