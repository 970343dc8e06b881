"""The GPT-2 oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

B batch, C choices, T positions. Rows of a ragged batch are padded on the right, on the left, or not at all.
"""

from dataclasses import dataclass
from typing import Callable

import numpy

VOCABULARY = 37
POSITIONS = 13
PAD = 5
IGNORED = -100

BASE_CONFIG = dict(
    vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=18, n_head=3, n_layer=2, n_inner=None,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, summary_first_dropout=0.0, use_cache=False,
    bos_token_id=1, eos_token_id=2, pad_token_id=PAD,
)


@dataclass(frozen=True)
class Case:
    model_class: str
    name: str
    config: dict
    inputs: Callable[[numpy.random.Generator], dict]

    @property
    def file_name(self):
        return self.model_class + ("" if self.name == "main" else "." + self.name) + ".safetensors"


def tokens(random, *shape):
    """Token ids without the padding token."""
    ids = random.integers(0, VOCABULARY - 1, shape)
    return numpy.where(ids >= PAD, ids + 1, ids)


def ragged_mask(shape, right=(), left=()):
    """shape: (..., T); `right` and `left` map a flat row to how many positions are padded on that side."""
    mask = numpy.ones(shape, dtype=numpy.int64)
    rows = mask.reshape(-1, shape[-1])
    for row, count in dict(right).items():
        rows[row, shape[-1] - count:] = 0
    for row, count in dict(left).items():
        rows[row, :count] = 0
    return mask


def language_labels(random, input_ids, mask=None):
    """The ids themselves; ignored at padding, at the first token after left padding (it is predicted from a
    position that attends to nothing), and at a few places more."""
    labels = numpy.where(random.random(input_ids.shape) < 0.2, IGNORED, input_ids)
    if mask is not None:
        before = numpy.concatenate([mask[..., :1], mask[..., :-1]], axis=-1)
        labels = numpy.where((mask == 0) | (before == 0), IGNORED, labels)
    return labels


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


def language_inputs(random):
    shape = (4, 11)
    mask = ragged_mask(shape, right={0: 4}, left={2: 3})
    input_ids = tokens(random, *shape)
    return dict(input_ids=input_ids, attention_mask=mask, labels=language_labels(random, input_ids, mask))


def full_length_inputs(random):
    input_ids = tokens(random, 3, POSITIONS)
    return dict(input_ids=input_ids, labels=language_labels(random, input_ids))


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


def padded_sequences(random):
    """Padding on the right, on the left, inside, and nothing but padding in the last row."""
    shape = (5, 11)
    mask = ragged_mask(shape, right={0: 4, 3: 1}, left={1: 3})
    input_ids = numpy.where(mask == 0, PAD, tokens(random, *shape))
    input_ids[3, 4:6] = PAD
    input_ids[4] = PAD
    return dict(input_ids=input_ids, attention_mask=mask)


def class_inputs(random):
    return padded_sequences(random) | dict(labels=numpy.array([2, 0, IGNORED, 1, 1]))


def multi_label_inputs(random):
    return padded_sequences(random) | dict(labels=random.integers(0, 2, (5, 3)).astype(numpy.float64))


def regression_inputs(random):
    return padded_sequences(random) | dict(labels=random.standard_normal((5, 3)))


def single_regression_inputs(random):
    return padded_sequences(random) | dict(labels=random.standard_normal((5, 1)))


def single_row_inputs(random):
    """Without a padding token in the config only one row is allowed, and its last position counts."""
    return dict(input_ids=tokens(random, 1, 7), labels=numpy.array([1]))


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
