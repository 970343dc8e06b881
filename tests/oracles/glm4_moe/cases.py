"""The GLM-4.5 oracle cases, whose layers all have the dense MLP: rotary positions of a part of each head."""

from batches import Case, full_length_inputs, language_inputs
from rotary_decoder import base_config, base_inputs, packed_inputs

BASE_CONFIG = base_config(head_dim=8, first_k_dense_replace=2, num_nextn_predict_layers=0)


def part(of_head, **more):
    return dict(rope_parameters=dict(rope_theta=500.0, rope_type="default", partial_rotary_factor=of_head) | more)


CASES = [
    Case("Glm4MoeModel", "main", dict(num_key_value_heads=1), base_inputs),
    Case("Glm4MoeForCausalLM", "main", dict(use_qk_norm=True, attention_bias=True), language_inputs),
    # 16 channels a head: the fused kernels, where nothing is masked.
    Case("Glm4MoeForCausalLM", "quarter",
         part(0.25) | dict(hidden_size=14, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                           num_hidden_layers=1), full_length_inputs),
    # 3 channels, of which Hugging Face makes 4: two pairs with exponents of thirds.
    Case("Glm4MoeForCausalLM", "odd", part(0.4) | dict(num_hidden_layers=1), language_inputs),
    Case("Glm4MoeForCausalLM", "linear",
         part(0.5, rope_type="linear", factor=3.0) | dict(num_hidden_layers=1), language_inputs),
    Case("Glm4MoeForCausalLM", "llama3",
         part(0.75, rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=6) | dict(num_hidden_layers=1), language_inputs),
    Case("Glm4MoeForCausalLM", "packed", dict(num_hidden_layers=1), packed_inputs),
]
