"""The BERT oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

B batch, C choices, T positions. A row of ids that is all padding has a mask of ones.
"""

import numpy

from batches import (
    IGNORED, PAD, POSITIONS, VOCABULARY, Case, class_inputs, full_length_inputs, language_inputs, multi_label_inputs,
    ragged_mask, regression_inputs, single_regression_inputs, tokens)

TYPES = 3
BASE_CONFIG = dict(
    vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=18, intermediate_size=24,
    num_hidden_layers=2, num_attention_heads=6, type_vocab_size=TYPES, hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0, use_cache=False, pad_token_id=PAD,
)
# Tensor parallelism on four ranks needs other widths.
FOUR_HEADS = dict(hidden_size=20, num_attention_heads=4, num_hidden_layers=1)
DECODER = dict(is_decoder=True, num_attention_heads=3)
# 16 channels a head: the fused kernels, where nothing is masked.
WIDE = dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=1)


def text(random, shape=(5, 11), left={1: 4, 3: 1}):
    """Two or three sentences in each row, with padding on the right, on the left, on both sides and inside."""
    mask = ragged_mask(shape, right={0: 3, 3: 2}, left=left)
    if left:
        mask.reshape(-1, shape[-1])[-1, 3:5] = 0
    input_ids = numpy.where(mask == 0, PAD, tokens(random, *shape))
    types = numpy.sort(random.integers(0, TYPES, shape), axis=-1)
    return dict(input_ids=input_ids, attention_mask=mask, token_type_ids=types)


def cotangent(random, shape):
    return dict(cotangent=random.standard_normal((*shape, BASE_CONFIG["hidden_size"])))


def base_inputs(random):
    """Every position attends to those that are no padding, so all outputs are defined."""
    places = dict(position_ids=random.integers(0, POSITIONS, (5, 11)))
    return text(random) | places | cotangent(random, (5, 11))


def decoder_inputs(random):
    """Without token types, which are then 0."""
    inputs = text(random, left={})
    del inputs["token_type_ids"]
    return inputs | cotangent(random, (5, 11))


def causal_inputs(random):
    inputs = text(random, left={})
    labels = numpy.where(random.random((5, 11)) < 0.2, IGNORED, inputs["input_ids"])
    return inputs | dict(labels=numpy.where(inputs["attention_mask"] == 0, IGNORED, labels))


def masked_inputs(random):
    """A third of the tokens are to be predicted."""
    inputs = text(random)
    labels = numpy.where(random.random((5, 11)) < 0.33, tokens(random, 5, 11), IGNORED)
    return inputs | dict(labels=numpy.where(inputs["attention_mask"] == 0, IGNORED, labels))


def pre_training_inputs(random):
    return masked_inputs(random) | dict(next_sentence_label=numpy.array([0, 1, IGNORED, 1, 1]))


def sentence_inputs(random):
    return text(random) | dict(labels=numpy.array([1, 0, 0, IGNORED, 1]))


def typed(inputs):
    return lambda random: text(random) | inputs(random)


def token_inputs(random):
    inputs = text(random)
    labels = random.integers(0, 3, (5, 11))
    labels = numpy.where((inputs["attention_mask"] == 0) | (random.random((5, 11)) < 0.25), IGNORED, labels)
    return inputs | dict(labels=labels)


def choice_inputs(random):
    return text(random, (3, 4, 9)) | dict(labels=numpy.array([3, IGNORED, 0]))


def flat_choice_inputs(random):
    """Positions that are given, for each choice."""
    shape = (2, 3, 7)
    return dict(input_ids=tokens(random, *shape), position_ids=random.integers(0, POSITIONS, shape),
                labels=numpy.array([1, 2]))


def answer_inputs(random):
    """Positions from T on are ignored; negative ones count as 0. The loss is over all T, padding too."""
    return text(random) | dict(start_positions=numpy.array([0, 4, 11, -3, 2]), end_positions=numpy.array([6, 10, 3, 40, 2]))


CASES = [
    Case("BertModel", "main", dict(), base_inputs),
    Case("BertModel", "decoder", DECODER | dict(hidden_act="relu"), decoder_inputs),
    Case("BertForPreTraining", "main", dict(), pre_training_inputs),
    Case("BertForPreTraining", "wide", WIDE | dict(hidden_act="gelu_new"), lambda random: full_length_inputs(random) | dict(
        next_sentence_label=numpy.array([1, 0, 1]))),
    Case("BertLMHeadModel", "main", DECODER, causal_inputs),
    Case("BertLMHeadModel", "both_ways", WIDE, full_length_inputs),
    Case("BertForMaskedLM", "main", dict(hidden_act="silu"), masked_inputs),
    Case("BertForMaskedLM", "no_padding_token",
         FOUR_HEADS | dict(pad_token_id=None, layer_norm_eps=1e-3, type_vocab_size=1, hidden_act="tanh"),
         language_inputs),
    Case("BertForSequenceClassification", "main", dict(num_labels=3), typed(class_inputs)),
    Case("BertForSequenceClassification", "multi_label",
         dict(num_labels=3, problem_type="multi_label_classification", num_hidden_layers=1), multi_label_inputs),
    Case("BertForSequenceClassification", "regression",
         dict(num_labels=3, problem_type="regression", num_hidden_layers=1), typed(regression_inputs)),
    Case("BertForSequenceClassification", "single_regression", dict(num_labels=1, num_hidden_layers=1),
         single_regression_inputs),
    Case("BertForTokenClassification", "main", dict(num_labels=3, classifier_dropout=0.0), token_inputs),
    Case("BertForNextSentencePrediction", "main", dict(hidden_act="relu"), sentence_inputs),
    Case("BertForMultipleChoice", "main", dict(), choice_inputs),
    Case("BertForMultipleChoice", "placed", FOUR_HEADS, flat_choice_inputs),
    Case("BertForQuestionAnswering", "main", dict(num_attention_heads=3), answer_inputs),
]
