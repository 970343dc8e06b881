"""The Bloom oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

B batch, T positions, H heads.
"""

import numpy

from batches import (
    IGNORED, PAD, VOCABULARY, Case, class_inputs, full_length_inputs, language_inputs, multi_label_inputs,
    ragged_mask, regression_inputs, single_regression_inputs, single_row_inputs, tokens)

# Three heads are no power of two, so the last slope is of the second sequence.
BASE_CONFIG = dict(
    vocab_size=VOCABULARY, hidden_size=18, n_layer=2, n_head=3, hidden_dropout=0.0, attention_dropout=0.0,
    use_cache=False, bos_token_id=1, eos_token_id=2, pad_token_id=PAD,
)


def base_inputs(random):
    """The cotangent is 0 at padding: what a position returns that attends to nothing is not defined. One row
    has padding on both sides and one has it inside, so that distances are not those of the tokens."""
    shape = (5, 11)
    mask = ragged_mask(shape, right={0: 3, 3: 2}, left={1: 4, 3: 1})
    mask[4, 3:5] = 0
    return dict(input_ids=tokens(random, *shape), attention_mask=mask,
                cotangent=random.standard_normal((*shape, BASE_CONFIG["hidden_size"])) * mask[..., None])


def token_inputs(random):
    shape = (4, 11)
    mask = ragged_mask(shape, right={1: 5}, left={3: 2})
    labels = random.integers(0, 3, shape)
    labels = numpy.where((mask == 0) | (random.random(shape) < 0.25), IGNORED, labels)
    return dict(input_ids=tokens(random, *shape), attention_mask=mask, labels=labels)


def answer_inputs(random):
    """Positions from T on are ignored; negative ones count as 0. The loss is over all T, padding too."""
    shape = (5, 11)
    mask = ragged_mask(shape, right={0: 3, 4: 6})
    return dict(
        input_ids=tokens(random, *shape), attention_mask=mask, start_positions=numpy.array([0, 4, 11, -3, 2]),
        end_positions=numpy.array([6, 10, 3, 40, 2]),
    )


CASES = [
    Case("BloomModel", "main", dict(), base_inputs),
    Case("BloomModel", "residual_after_norm", dict(apply_residual_connection_post_layernorm=True), base_inputs),
    Case("BloomForCausalLM", "main", dict(), language_inputs),
    Case("BloomForCausalLM", "untied",
         dict(tie_word_embeddings=False, n_head=2, n_layer=1, layer_norm_epsilon=1e-3), full_length_inputs),
    Case("BloomForCausalLM", "six_heads", dict(n_head=6, n_layer=1), language_inputs),
    Case("BloomForSequenceClassification", "main", dict(num_labels=3), class_inputs),
    Case("BloomForSequenceClassification", "multi_label",
         dict(num_labels=3, problem_type="multi_label_classification", n_layer=1), multi_label_inputs),
    Case("BloomForSequenceClassification", "regression",
         dict(num_labels=3, problem_type="regression", n_layer=1), regression_inputs),
    Case("BloomForSequenceClassification", "single_regression", dict(num_labels=1, n_layer=1),
         single_regression_inputs),
    Case("BloomForSequenceClassification", "no_padding_token",
         dict(num_labels=3, pad_token_id=None, problem_type="single_label_classification", n_layer=1),
         single_row_inputs),
    Case("BloomForTokenClassification", "main", dict(num_labels=3, classifier_dropout=0.0), token_inputs),
    Case("BloomForQuestionAnswering", "main", dict(apply_residual_connection_post_layernorm=True), answer_inputs),
]
