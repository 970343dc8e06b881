"""The ChatGLM2 oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

The classes and keys are those of GLM in transformers, with the keys that only ChatGLM2 has (generate.py).
"""

from dataclasses import dataclass

import numpy

from batches import IGNORED, POSITIONS, VOCABULARY, Case, full_length_inputs, ragged_mask, tokens

CLASSES = dict(GlmModel="ChatGLMModel", GlmForCausalLM="ChatGLMForConditionalGeneration")

BASE_CONFIG = dict(
    vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=18, intermediate_size=30,
    num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=6, attention_bias=True,
    attention_dropout=0.0, rms_norm_eps=1e-5, tie_word_embeddings=False, use_cache=False,
    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
    bos_token_id=1, eos_token_id=2, pad_token_id=None,
    multi_query_attention=True, rmsnorm=True, post_layer_norm=True, add_bias_linear=False,
    apply_residual_connection_post_layernorm=False)


@dataclass(frozen=True)
class GlmCase(Case):
    @property
    def file_name(self):
        return super().file_name.replace(self.model_class, CLASSES[self.model_class])


def base_inputs(random):
    """Padding has outputs too: it attends to every position."""
    shape = (4, 11)
    return dict(input_ids=tokens(random, *shape),
                attention_mask=ragged_mask(shape, right={0: 3, 3: 2}, left={1: 4, 3: 1}),
                cotangent=random.standard_normal((*shape, BASE_CONFIG["hidden_size"])),
                position_ids=random.integers(0, POSITIONS, shape))


def padded_inputs(random):
    """The first token after padding on the left has no label: a padded position would predict it, which transformers counts."""
    shape = (4, 11)
    mask = ragged_mask(shape, right={0: 4}, left={2: 3})
    input_ids = tokens(random, *shape)
    ignored = (random.random(shape) < 0.2) & (numpy.arange(shape[1]) != 3)
    after_padding = numpy.roll(mask, 1, axis=1) == 0
    return dict(input_ids=input_ids, attention_mask=mask,
                labels=numpy.where(ignored | after_padding | (mask == 0), IGNORED, input_ids))


# The channels of heads: those that turn are 4 of 6, 8 of 14, 6 of 10, 8 of 16, 4 of 7.
CASES = [
    GlmCase("GlmModel", "main", dict(), base_inputs),
    GlmCase("GlmForCausalLM", "main", dict(head_dim=14), padded_inputs),
    GlmCase("GlmForCausalLM", "ungrouped",
            dict(multi_query_attention=False, num_attention_heads=3, num_key_value_heads=3, head_dim=10),
            padded_inputs),
    # 16 channels a head: the fused kernels, where nothing is masked.
    GlmCase("GlmForCausalLM", "one_group",
            dict(num_attention_heads=4, num_key_value_heads=1, head_dim=16, num_hidden_layers=1,
                 rms_norm_eps=1e-3, attention_bias=False), full_length_inputs),
    GlmCase("GlmForCausalLM", "biases",
            dict(add_bias_linear=True, num_attention_heads=3, num_key_value_heads=3, head_dim=7,
                 num_hidden_layers=1), full_length_inputs),
    GlmCase("GlmForCausalLM", "layer_norms", dict(rmsnorm=False, num_hidden_layers=1), padded_inputs),
    GlmCase("GlmForCausalLM", "post_norm_residuals",
            dict(apply_residual_connection_post_layernorm=True, post_layer_norm=False, num_hidden_layers=1),
            full_length_inputs),
]
