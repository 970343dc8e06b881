"""The oracles of the families that share rotary decoder blocks: what makes their models exact, and their batches.

B batch, T positions, H heads of queries, G of keys and values, D channels of a head.
"""

import sys
from types import MethodType

import numpy
import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import repeat_kv

import model_oracle
from batches import PAD, POSITIONS, VOCABULARY, full_length_inputs, language_inputs, ragged_mask, tokens


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
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(norm, module)


def main(title, folder, config_class, base_config, cases, **more):
    ALL_ATTENTION_FUNCTIONS.register("exact", attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("exact", eager_mask)
    sys.exit(model_oracle.main(model_oracle.Family(
        title, folder, config_class, base_config, cases, is_norm=lambda name: "norm" in name,
        make_exact=make_exact, exact_attention="exact", **more)))


def base_config(**more):
    return dict(vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=18, intermediate_size=23,
                num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, attention_dropout=0.0,
                use_cache=False, bos_token_id=1, eos_token_id=2, pad_token_id=PAD) | more


def base_inputs(random):
    """The cotangent is 0 at padding: what a position returns that attends to nothing is not defined."""
    shape = (4, 11)
    mask = ragged_mask(shape, right={0: 3, 3: 2}, left={1: 4, 3: 1})
    cotangent = random.standard_normal((*shape, base_config()["hidden_size"])) * mask[..., None]
    return dict(input_ids=tokens(random, *shape), attention_mask=mask, cotangent=cotangent,
                position_ids=random.integers(0, POSITIONS, shape))


def packed_inputs(random):
    """Sequences in one row, told apart by their positions. One row for all."""
    positions = numpy.array([[0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1]])
    return full_length_inputs(random, 11) | dict(position_ids=positions)


def token_class_inputs(random):
    inputs = language_inputs(random)
    return inputs | dict(labels=numpy.where(inputs["labels"] < 0, inputs["labels"], inputs["labels"] % 3))


def answer_inputs(random):
    """Without padding, whose positions count too. One label lies behind the last position."""
    inputs = full_length_inputs(random)
    del inputs["labels"]
    return inputs | dict(start_positions=numpy.array([0, 5, POSITIONS + 2]), end_positions=numpy.array([2, 9, 4]))
