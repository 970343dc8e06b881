"""The Whisper oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

Encoder and decoder differ in their layers, heads and widths. Rows of a ragged batch of the decoder are padded on
the right, on the left, or not at all.
"""

import numpy

from batches import IGNORED, PAD, VOCABULARY, Case, ragged_mask, tokens

BASE_CONFIG = dict(
    vocab_size=VOCABULARY, num_mel_bins=5, d_model=20, encoder_layers=2, encoder_attention_heads=4,
    encoder_ffn_dim=23, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=29, max_source_positions=7,
    max_target_positions=11, use_cache=False, pad_token_id=PAD, bos_token_id=1, eos_token_id=2,
    decoder_start_token_id=4, classifier_proj_size=11,
)
FRAMES = 2 * BASE_CONFIG["max_source_positions"]
TARGET = (4, 9)


def features(random, samples):
    return dict(input_features=random.standard_normal((samples, BASE_CONFIG["num_mel_bins"], FRAMES)))


def frames_mask(samples):
    """To which nothing attends."""
    return dict(attention_mask=ragged_mask((samples, FRAMES), right={0: 5, 2: 1}))


def target(random):
    return dict(decoder_input_ids=tokens(random, *TARGET),
                decoder_attention_mask=ragged_mask(TARGET, right={1: 2}, left={3: 3}))


def labels(random, shape, count):
    return numpy.where(random.random(shape) < 0.2, IGNORED, random.integers(0, count, shape))


def cotangent(random, shape):
    return dict(cotangent=random.standard_normal((*shape, BASE_CONFIG["d_model"])))


def base_inputs(random):
    """A row of the decoder padded on the left begins with positions that attend to nothing."""
    inputs = features(random, 4) | target(random) | cotangent(random, TARGET)
    inputs["cotangent"] *= inputs["decoder_attention_mask"][..., None]
    return inputs


def placed_inputs(random):
    """Rows that begin behind position 0."""
    positions = random.integers(1, 3, (2, 1)) + numpy.arange(9)
    return (features(random, 2) | cotangent(random, (2, 9)) |
            dict(decoder_input_ids=tokens(random, 2, 9), decoder_position_ids=positions))


def packed_inputs(random):
    """Rows of several sequences, which do not attend to each other."""
    positions = numpy.array([[0, 1, 2, 3, 0, 1, 2, 3, 4], [0, 1, 0, 1, 2, 3, 4, 5, 0]])
    return (features(random, 2) | cotangent(random, (2, 9)) |
            dict(decoder_input_ids=tokens(random, 2, 9), decoder_position_ids=positions))


def shifted_inputs(random):
    """decoder_input_ids are made of the labels."""
    return features(random, 4) | frames_mask(4) | dict(labels=labels(random, TARGET, VOCABULARY))


def generation_inputs(random):
    inputs = features(random, 4) | target(random)
    wanted = labels(random, TARGET, VOCABULARY)
    return inputs | dict(labels=numpy.where(inputs["decoder_attention_mask"] == 0, IGNORED, wanted))


def class_inputs(random):
    return features(random, 5) | dict(labels=numpy.array([2, 0, IGNORED, 1, 1]))


CASES = [
    Case("WhisperModel", "main", dict(decoder_attention_heads=4), base_inputs),
    Case("WhisperModel", "placed",
         dict(use_cache=True, activation_function="relu", scale_embedding=True, encoder_layers=1), placed_inputs),
    Case("WhisperModel", "restarts", dict(encoder_attention_heads=5, encoder_layers=1), packed_inputs),
    Case("WhisperForConditionalGeneration", "main", dict(encoder_layers=1, decoder_layers=2), shifted_inputs),
    Case("WhisperForConditionalGeneration", "untied",
         dict(tie_word_embeddings=False, activation_function="gelu_new", encoder_layers=1,
              decoder_attention_heads=4), generation_inputs),
    Case("WhisperForConditionalGeneration", "no_padding",
         dict(pad_token_id=None, d_model=18, encoder_attention_heads=6, decoder_attention_heads=3, encoder_layers=1),
         generation_inputs),
    Case("WhisperForAudioClassification", "main", dict(num_labels=3, encoder_layers=1), class_inputs),
    Case("WhisperForAudioClassification", "weighted",
         dict(num_labels=3, use_weighted_layer_sum=True, decoder_attention_heads=4, classifier_proj_size=7),
         class_inputs),
]
