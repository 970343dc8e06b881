"""The Llama oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

B batch, T positions, H heads of queries, G of keys and values, D channels of a head.
"""

import numpy

from batches import (
    PAD, POSITIONS, VOCABULARY, Case, class_inputs, full_length_inputs, language_inputs, multi_label_inputs,
    ragged_mask, single_regression_inputs, single_row_inputs, tokens)

BASE_CONFIG = dict(
    vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=18, intermediate_size=23,
    num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, attention_dropout=0.0, use_cache=False,
    bos_token_id=1, eos_token_id=2, pad_token_id=PAD,
)
# The low half of the frequencies is divided, the high one kept, and there is one between.
LLAMA3 = dict(rope_type="llama3", rope_theta=50.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0,
              original_max_position_embeddings=24)


def base_inputs(random):
    """The cotangent is 0 at padding: what a position returns that attends to nothing is not defined."""
    shape = (4, 11)
    mask = ragged_mask(shape, right={0: 3, 3: 2}, left={1: 4, 3: 1})
    cotangent = random.standard_normal((*shape, BASE_CONFIG["hidden_size"])) * mask[..., None]
    return dict(input_ids=tokens(random, *shape), attention_mask=mask, cotangent=cotangent,
                position_ids=random.integers(0, POSITIONS, shape))


def packed_inputs(random):
    """Sequences in one row, told apart by their positions. One row for all."""
    positions = numpy.array([[0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1]])
    return full_length_inputs(random, 11) | dict(position_ids=positions)


CASES = [
    Case("LlamaModel", "main", dict(), base_inputs),
    Case("LlamaModel", "one_key_head", dict(num_key_value_heads=1, hidden_act="gelu"), base_inputs),
    Case("LlamaForCausalLM", "main", dict(), language_inputs),
    Case("LlamaForCausalLM", "grouped",
         dict(hidden_size=24, num_attention_heads=6, num_key_value_heads=2, head_dim=6), language_inputs),
    # 16 channels a head: the fused kernels, where nothing is masked.
    Case("LlamaForCausalLM", "head_dim",
         dict(hidden_size=12, num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-3),
         full_length_inputs),
    Case("LlamaForCausalLM", "tied", dict(tie_word_embeddings=True, num_hidden_layers=1), language_inputs),
    Case("LlamaForCausalLM", "biases", dict(attention_bias=True, mlp_bias=True), full_length_inputs),
    Case("LlamaForCausalLM", "linear_scaling",
         dict(rope_parameters=dict(rope_type="linear", rope_theta=100.0, factor=2.5), num_hidden_layers=1),
         full_length_inputs),
    Case("LlamaForCausalLM", "llama3_scaling",
         dict(rope_parameters=LLAMA3, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
              num_hidden_layers=1), full_length_inputs),
    Case("LlamaForCausalLM", "packed", dict(num_hidden_layers=1), packed_inputs),
    Case("LlamaForSequenceClassification", "main", dict(num_labels=3, num_key_value_heads=1), class_inputs),
    Case("LlamaForSequenceClassification", "multi_label",
         dict(num_labels=3, problem_type="multi_label_classification", num_hidden_layers=1),
         multi_label_inputs),
    Case("LlamaForSequenceClassification", "single_regression", dict(num_labels=1, num_hidden_layers=1),
         single_regression_inputs),
    Case("LlamaForSequenceClassification", "no_padding_token",
         dict(num_labels=3, pad_token_id=None, problem_type="single_label_classification",
              num_hidden_layers=1), single_row_inputs),
]
