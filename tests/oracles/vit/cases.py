"""The ViT oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

Images and patches are not square unless the class needs that; rows and columns of pixels are left over.
"""

import numpy

from batches import IGNORED, Case

BASE_CONFIG = dict(
    hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=36, image_size=[9, 11],
    patch_size=[4, 3], num_channels=2, encoder_stride=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)
POSITIONS = 2 * 3 + 1
SQUARE = dict(image_size=9, patch_size=3, num_channels=3)


def pixels(random, samples, height=9, width=11, channels=2):
    return dict(pixel_values=random.standard_normal((samples, channels, height, width)))


def cotangent(random, samples, positions=POSITIONS):
    return dict(cotangent=random.standard_normal((samples, positions, BASE_CONFIG["hidden_size"])))


def base_inputs(random):
    return pixels(random, 4) | cotangent(random, 4)


def larger_inputs(random):
    """Images of 4 by 5 patches for a model of 3 by 3."""
    return pixels(random, 3, 12, 17, 3) | cotangent(random, 3, 4 * 5 + 1)


def class_inputs(random):
    return pixels(random, 5) | dict(labels=numpy.array([2, 0, IGNORED, 1, 1]))


def larger_class_inputs(random):
    return pixels(random, 3, 6, 14, 3) | dict(labels=numpy.array([1, 0, 2]))


def multi_label_inputs(random):
    return pixels(random, 5) | dict(labels=random.integers(0, 2, (5, 3)).astype(numpy.float64))


def regression_inputs(random):
    return pixels(random, 5) | dict(labels=random.standard_normal((5, 3)))


def single_regression_inputs(random):
    return pixels(random, 5) | dict(labels=random.standard_normal((5, 1)))


def masked_inputs(random):
    """From no masked patch in the first image to all in the last."""
    order = random.permuted(numpy.tile(numpy.arange(9), (4, 1)), axis=1)
    masked = order < numpy.array([0, 2, 6, 9])[:, None]
    return pixels(random, 4, 9, 9, 3) | dict(bool_masked_pos=masked.astype(numpy.int64))


CASES = [
    Case("ViTModel", "main", dict(), base_inputs),
    Case("ViTModel", "no_qkv_bias",
         dict(qkv_bias=False, hidden_act="relu", pooler_act="silu", pooler_output_size=7, layer_norm_eps=1e-3,
              num_attention_heads=2, num_hidden_layers=1), base_inputs),
    Case("ViTModel", "interpolated",
         SQUARE | dict(interpolate_pos_encoding=True, hidden_act="gelu_new", num_hidden_layers=1), larger_inputs),
    Case("ViTForImageClassification", "main", dict(num_labels=3, num_attention_heads=6), class_inputs),
    Case("ViTForImageClassification", "interpolated",
         SQUARE | dict(interpolate_pos_encoding=True, num_labels=3, num_hidden_layers=1), larger_class_inputs),
    Case("ViTForImageClassification", "multi_label",
         dict(num_labels=3, problem_type="multi_label_classification", num_hidden_layers=1), multi_label_inputs),
    Case("ViTForImageClassification", "regression",
         dict(num_labels=3, problem_type="regression", num_hidden_layers=1, num_attention_heads=4, head_dim=5),
         regression_inputs),
    Case("ViTForImageClassification", "single_regression", dict(num_labels=1, num_hidden_layers=1),
         single_regression_inputs),
    Case("ViTForMaskedImageModeling", "main", SQUARE, masked_inputs),
    Case("ViTForMaskedImageModeling", "relu",
         SQUARE | dict(hidden_act="relu", num_attention_heads=8, head_dim=3, num_hidden_layers=1), masked_inputs),
]
