#!/usr/bin/env python3
"""Makes the oracle tensors of the T5 classes: see model_oracle.py."""

import sys
from pathlib import Path
from types import MethodType

import torch
import transformers
from transformers.models.t5.modeling_t5 import T5LayerNorm

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402


def norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def make_exact(model):
    """The norm's upcast is to fp32: for fp64 a downcast. Without it the formula is the same."""
    for module in model.modules():
        if isinstance(module, T5LayerNorm):
            module.forward = MethodType(norm, module)


def untie(model):
    """Transformers ties every head when it makes a model; from_pretrained unties those whose checkpoint has
    another weight, as T5 1.1 has."""
    if hasattr(model, "lm_head") and not model.config.scale_decoder_outputs:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())


# Where a position may attend to nothing, both kinds of attention take the mean of all values. Scores are not
# scaled, so weights are smaller than others': a softmax of large scores is all noise.
if __name__ == "__main__":
    sys.exit(model_oracle.main(model_oracle.Family(
        "T5", FOLDER, transformers.T5Config, BASE_CONFIG, CASES, is_norm=lambda name: "layer_norm" in name,
        make_exact=make_exact, adjust=untie, has_undefined=False, matrix_scale=0.25)))
