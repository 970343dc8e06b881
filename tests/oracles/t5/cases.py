"""The T5 oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

The encoder has more positions than the largest distance that has a bucket of its own. Rows of a ragged batch
are padded on the right, on the left, or not at all.
"""

import numpy

from batches import IGNORED, PAD, VOCABULARY, Case, ragged_mask, tokens

BASE_CONFIG = dict(
    vocab_size=VOCABULARY, d_model=14, d_kv=5, d_ff=22, num_layers=2, num_decoder_layers=3, num_heads=3,
    relative_attention_num_buckets=8, relative_attention_max_distance=12, dropout_rate=0.0, use_cache=False,
    pad_token_id=PAD, eos_token_id=2, decoder_start_token_id=4,
)
SOURCE = (4, 15)
TARGET = (4, 9)
UNTIED = dict(tie_word_embeddings=False)


def source(random):
    return dict(input_ids=tokens(random, *SOURCE),
                attention_mask=ragged_mask(SOURCE, right={0: 4}, left={2: 3}))


def target(random):
    return dict(decoder_input_ids=tokens(random, *TARGET),
                decoder_attention_mask=ragged_mask(TARGET, right={1: 2}, left={3: 3}))


def labels(random, shape, count):
    return numpy.where(random.random(shape) < 0.2, IGNORED, random.integers(0, count, shape))


def cotangent(random, shape):
    return dict(cotangent=random.standard_normal((*shape, BASE_CONFIG["d_model"])))


def base_inputs(random):
    """A row of the decoder padded on the left begins with positions that attend to nothing. Their values are
    defined, the mean of all, but of their gradient fused attention cuts a part: their cotangent is 0."""
    inputs = source(random) | target(random) | cotangent(random, TARGET)
    inputs["cotangent"] *= inputs["decoder_attention_mask"][..., None]
    return inputs


def unmasked_inputs(random):
    ids = dict(input_ids=tokens(random, 2, 15), decoder_input_ids=tokens(random, 2, 9))
    return ids | cotangent(random, (2, 9))


def encoder_inputs(random):
    return source(random) | cotangent(random, SOURCE)


def shifted_inputs(random):
    """decoder_input_ids are made of the labels."""
    return source(random) | dict(labels=labels(random, TARGET, VOCABULARY))


def generation_inputs(random):
    inputs = source(random) | target(random)
    wanted = labels(random, TARGET, VOCABULARY)
    return inputs | dict(labels=numpy.where(inputs["decoder_attention_mask"] == 0, IGNORED, wanted))


def token_inputs(random):
    return source(random) | dict(labels=labels(random, SOURCE, 3))


CASES = [
    Case("T5Model", "main", dict(), base_inputs),
    Case("T5Model", "gated", dict(feed_forward_proj="gated-gelu", num_decoder_layers=1), unmasked_inputs),
    Case("T5ForConditionalGeneration", "main", dict(), shifted_inputs),
    Case("T5ForConditionalGeneration", "gated",
         dict(feed_forward_proj="gated-silu", num_layers=1, num_decoder_layers=2, layer_norm_epsilon=1e-3),
         generation_inputs),
    Case("T5ForConditionalGeneration", "untied",
         UNTIED | dict(feed_forward_proj="gated-gelu", num_decoder_layers=1), shifted_inputs),
    Case("T5ForConditionalGeneration", "untied_relu", UNTIED | dict(num_layers=1, num_decoder_layers=1),
         generation_inputs),
    Case("T5EncoderModel", "main", dict(feed_forward_proj="gated-gelu", num_layers=3), encoder_inputs),
    Case("T5EncoderModel", "relu", dict(relative_attention_num_buckets=5, relative_attention_max_distance=4),
         encoder_inputs),
    Case("T5ForTokenClassification", "main", dict(num_labels=3), token_inputs),
]
