"""The Gemma 2 oracle cases. The caps are near the scores and logits, so that they bend them."""

from batches import Case, full_length_inputs, language_inputs
from rotary_decoder import base_config, base_inputs

BASE_CONFIG = base_config(hidden_size=18, num_attention_heads=6, num_key_value_heads=2, head_dim=6,
                          query_pre_attn_scalar=9, attn_logit_softcapping=1.5, final_logit_softcapping=2.0,
                          sliding_window=4, tie_word_embeddings=False)

CASES = [
    Case("Gemma2Model", "main", dict(num_key_value_heads=6), base_inputs),
    Case("Gemma2ForCausalLM", "main", dict(), language_inputs),
    Case("Gemma2ForCausalLM", "tied", dict(tie_word_embeddings=True, num_hidden_layers=1), full_length_inputs),
    # 16 channels a head, which the fused kernels take where there is no cap.
    Case("Gemma2ForCausalLM", "fused",
         dict(head_dim=16, num_key_value_heads=1, layer_types=["full_attention"], num_hidden_layers=1),
         full_length_inputs),
    Case("Gemma2ForCausalLM", "logits", dict(attn_logit_softcapping=None, num_hidden_layers=1), language_inputs),
    Case("Gemma2ForCausalLM", "scores", dict(final_logit_softcapping=None, num_hidden_layers=1), language_inputs),
]
