"""The GPT-2 oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

B batch, C choices, T positions.
"""

import numpy

from batches import (
    IGNORED, PAD, POSITIONS, VOCABULARY, Case, class_inputs, full_length_inputs, language_inputs, language_labels,
    multi_label_inputs, ragged_mask, regression_inputs, single_regression_inputs, single_row_inputs, tokens)

BASE_CONFIG = dict(
    vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=18, n_head=3, n_layer=2, n_inner=None,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, summary_first_dropout=0.0, use_cache=False,
    bos_token_id=1, eos_token_id=2, pad_token_id=PAD,
)


def base_inputs(random):
    """The cotangent is 0 at padding: what a position returns that attends to nothing is not defined."""
    shape = (4, 11)
    mask = ragged_mask(shape, right={0: 3, 3: 2}, left={1: 4, 3: 1})
    cotangent = random.standard_normal((*shape, BASE_CONFIG["n_embd"])) * mask[..., None]
    return dict(
        input_ids=tokens(random, *shape), attention_mask=mask,
        token_type_ids=random.integers(0, VOCABULARY, shape),
        position_ids=random.integers(0, POSITIONS, shape), cotangent=cotangent,
    )


def choice_inputs(random):
    shape = (2, 3, 9)
    mask = ragged_mask(shape, right={0: 2, 4: 5}, left={2: 3})
    input_ids = tokens(random, *shape)
    return dict(
        input_ids=input_ids, attention_mask=mask, token_type_ids=random.integers(0, VOCABULARY, shape),
        mc_token_ids=numpy.array([[6, 8, 5], [7, 3, 8]]), mc_labels=numpy.array([2, 0]),
        labels=language_labels(random, input_ids, mask),
    )


def last_choice_inputs(random):
    """Without mc_token_ids: the last position. One of the choices' labels is ignored."""
    input_ids = tokens(random, 3, 2, 7)
    labels = language_labels(random, input_ids)
    return dict(input_ids=input_ids, mc_labels=numpy.array([1, IGNORED, 0]), labels=labels)


def mean_inputs(random):
    """The summary's mean runs over dim 1, the choices: mc_logits is (B, T)."""
    shape = (2, 3, 9)
    mask = ragged_mask(shape, right={1: 2, 3: 4})
    input_ids = tokens(random, *shape)
    return dict(
        input_ids=input_ids, attention_mask=mask, mc_labels=numpy.array([4, 8]),
        labels=language_labels(random, input_ids, mask),
    )


def flat_inputs(random):
    """(B, T) without choices: mc_logits is (B), and its loss is over the rows. Position ids are given."""
    shape = (4, 8)
    mask = ragged_mask(shape, right={2: 3})
    input_ids = tokens(random, *shape)
    return dict(
        input_ids=input_ids, attention_mask=mask, position_ids=random.integers(0, POSITIONS, shape),
        mc_labels=numpy.array([3]), labels=language_labels(random, input_ids, mask),
    )


def token_inputs(random):
    shape = (4, 11)
    mask = ragged_mask(shape, right={1: 5}, left={3: 2})
    labels = random.integers(0, 3, shape)
    labels = numpy.where((mask == 0) | (random.random(shape) < 0.25), IGNORED, labels)
    return dict(
        input_ids=tokens(random, *shape), attention_mask=mask,
        token_type_ids=random.integers(0, VOCABULARY, shape),
        labels=labels,
    )


def answer_inputs(random):
    """Positions from T on are ignored; negative ones count as 0. The loss is over all T, padding too."""
    shape = (5, 11)
    mask = ragged_mask(shape, right={0: 3, 4: 6})
    return dict(
        input_ids=tokens(random, *shape), attention_mask=mask, start_positions=numpy.array([0, 4, 11, -3, 2]),
        end_positions=numpy.array([6, 10, 3, 40, 2]),
    )


CASES = [
    Case("GPT2Model", "main", dict(activation_function="gelu_new"), base_inputs),
    Case("GPT2LMHeadModel", "main",
         dict(activation_function="gelu_new", tie_word_embeddings=True), language_inputs),
    Case("GPT2LMHeadModel", "untied",
         dict(activation_function="gelu", tie_word_embeddings=False, scale_attn_by_inverse_layer_idx=True,
              reorder_and_upcast_attn=True, n_inner=29, layer_norm_epsilon=1e-3), full_length_inputs),
    Case("GPT2DoubleHeadsModel", "main", dict(activation_function="relu"), choice_inputs),
    Case("GPT2DoubleHeadsModel", "last_position",
         dict(activation_function="gelu_new", tie_word_embeddings=False, n_layer=1), last_choice_inputs),
    Case("GPT2DoubleHeadsModel", "mean",
         dict(activation_function="silu", summary_type="mean", summary_activation="tanh", n_layer=1),
         mean_inputs),
    Case("GPT2DoubleHeadsModel", "last_flat",
         dict(activation_function="gelu_new", summary_type="last", summary_activation="tanh", n_layer=1),
         flat_inputs),
    Case("GPT2ForSequenceClassification", "main",
         dict(activation_function="silu", scale_attn_weights=False, num_labels=3), class_inputs),
    Case("GPT2ForSequenceClassification", "multi_label",
         dict(activation_function="relu", num_labels=3, problem_type="multi_label_classification", n_layer=1),
         multi_label_inputs),
    Case("GPT2ForSequenceClassification", "regression",
         dict(activation_function="tanh", num_labels=3, problem_type="regression", n_layer=1),
         regression_inputs),
    Case("GPT2ForSequenceClassification", "single_regression",
         dict(activation_function="gelu", num_labels=1, n_layer=1), single_regression_inputs),
    Case("GPT2ForSequenceClassification", "no_padding_token",
         dict(num_labels=3, pad_token_id=None, problem_type="single_label_classification", n_layer=1),
         single_row_inputs),
    Case("GPT2ForTokenClassification", "main",
         dict(activation_function="tanh", num_labels=3, classifier_dropout=0.0,
              scale_attn_by_inverse_layer_idx=True),
         token_inputs),
    Case("GPT2ForQuestionAnswering", "main",
         dict(activation_function="gelu", n_inner=31, layer_norm_epsilon=1e-6, reorder_and_upcast_attn=True),
         answer_inputs),
]
