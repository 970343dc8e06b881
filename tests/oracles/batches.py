"""Batches that the oracles of several families are made of. Odd sizes let no transposition go unseen.

B batch, T positions. Rows of a ragged batch are padded on the right, on the left, or not at all.
"""

from dataclasses import dataclass
from typing import Callable

import numpy

VOCABULARY = 37
POSITIONS = 13
PAD = 5
IGNORED = -100


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


def language_inputs(random):
    shape = (4, 11)
    mask = ragged_mask(shape, right={0: 4}, left={2: 3})
    input_ids = tokens(random, *shape)
    return dict(input_ids=input_ids, attention_mask=mask, labels=language_labels(random, input_ids, mask))


def full_length_inputs(random, positions=POSITIONS):
    input_ids = tokens(random, 3, positions)
    return dict(input_ids=input_ids, labels=language_labels(random, input_ids))


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
