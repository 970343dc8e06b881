"""The OPT oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

B batch, T positions.
"""

import numpy

from batches import (
    PAD, POSITIONS, VOCABULARY, Case, class_inputs, full_length_inputs, language_inputs, multi_label_inputs,
    ragged_mask, regression_inputs, single_regression_inputs, single_row_inputs, tokens)

BASE_CONFIG = dict(
    vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=18, ffn_dim=23, num_hidden_layers=2,
    num_attention_heads=3, dropout=0.0, attention_dropout=0.0, use_cache=False, bos_token_id=1, eos_token_id=2,
    pad_token_id=PAD,
)
# As opt-350m: norms after attention and MLP, and embeddings of another width than the blocks.
NORM_AFTER = dict(do_layer_norm_before=False, word_embed_proj_dim=7)


def base_inputs(random, width=BASE_CONFIG["hidden_size"]):
    """The cotangent is 0 at padding: what a position returns that attends to nothing is not defined. One row
    has padding on both sides and one has it inside, so that positions are not those of the tokens."""
    shape = (5, 11)
    mask = ragged_mask(shape, right={0: 3, 3: 2}, left={1: 4, 3: 1})
    mask[4, 3:5] = 0
    return dict(input_ids=tokens(random, *shape), attention_mask=mask,
                cotangent=random.standard_normal((*shape, width)) * mask[..., None])


def placed_inputs(random):
    """Positions that are given, which the mask does not change."""
    return base_inputs(random, NORM_AFTER["word_embed_proj_dim"]) | dict(
        position_ids=random.integers(0, POSITIONS, (5, 11)))


def answer_inputs(random):
    """Positions from T on are ignored; negative ones count as 0. The loss is over all T, padding too."""
    shape = (5, 11)
    mask = ragged_mask(shape, right={0: 3, 4: 6})
    return dict(
        input_ids=tokens(random, *shape), attention_mask=mask, start_positions=numpy.array([0, 4, 11, -3, 2]),
        end_positions=numpy.array([6, 10, 3, 40, 2]),
    )


CASES = [
    Case("OPTModel", "main", dict(), base_inputs),
    Case("OPTModel", "norm_after", NORM_AFTER, placed_inputs),
    Case("OPTForCausalLM", "main", dict(), language_inputs),
    Case("OPTForCausalLM", "norm_after", NORM_AFTER | dict(activation_function="gelu"), language_inputs),
    # 16 channels a head: the fused kernels, where nothing is masked.
    Case("OPTForCausalLM", "no_biases",
         dict(enable_bias=False, tie_word_embeddings=False, hidden_size=32, num_attention_heads=2,
              word_embed_proj_dim=9, num_hidden_layers=1), full_length_inputs),
    Case("OPTForCausalLM", "no_affine_norms",
         dict(layer_norm_elementwise_affine=False, activation_function="gelu_new", pad_token_id=None,
              num_hidden_layers=1), language_inputs),
    Case("OPTForCausalLM", "no_final_norm",
         dict(_remove_final_layer_norm=True, activation_function="silu", num_hidden_layers=1), language_inputs),
    Case("OPTForSequenceClassification", "main", dict(num_labels=3), class_inputs),
    Case("OPTForSequenceClassification", "norm_after", NORM_AFTER | dict(num_labels=3, num_hidden_layers=1),
         class_inputs),
    Case("OPTForSequenceClassification", "multi_label",
         dict(num_labels=3, problem_type="multi_label_classification", num_hidden_layers=1), multi_label_inputs),
    Case("OPTForSequenceClassification", "regression",
         dict(num_labels=3, problem_type="regression", num_hidden_layers=1), regression_inputs),
    Case("OPTForSequenceClassification", "single_regression", dict(num_labels=1, num_hidden_layers=1),
         single_regression_inputs),
    Case("OPTForSequenceClassification", "no_padding_token",
         dict(num_labels=3, pad_token_id=None, problem_type="single_label_classification",
              num_hidden_layers=1), single_row_inputs),
    Case("OPTForQuestionAnswering", "main", dict(word_embed_proj_dim=13), answer_inputs),
]
