"""The Qwen3 oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen."""

from batches import Case, class_inputs, full_length_inputs, language_inputs
from rotary_decoder import answer_inputs, base_config, base_inputs, token_class_inputs

BASE_CONFIG = base_config(head_dim=8)
WINDOWS = dict(use_sliding_window=True, sliding_window=4)

CASES = [
    Case("Qwen3Model", "main", WINDOWS | dict(max_window_layers=1, num_key_value_heads=1), base_inputs),
    Case("Qwen3ForCausalLM", "main", dict(), language_inputs),
    Case("Qwen3ForCausalLM", "biases", dict(attention_bias=True, num_hidden_layers=1), full_length_inputs),
    Case("Qwen3ForCausalLM", "layer_types",
         WINDOWS | dict(layer_types=["sliding_attention", "full_attention"]), language_inputs),
    # 16 channels a head: the fused kernels, where nothing is masked.
    Case("Qwen3ForCausalLM", "grouped",
         WINDOWS | dict(hidden_size=14, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                        max_window_layers=0, num_hidden_layers=1, rms_norm_eps=1e-3), full_length_inputs),
    Case("Qwen3ForCausalLM", "tied", dict(tie_word_embeddings=True, num_hidden_layers=1), language_inputs),
    Case("Qwen3ForSequenceClassification", "main", dict(num_labels=3, num_hidden_layers=1), class_inputs),
    Case("Qwen3ForTokenClassification", "main",
         dict(num_labels=3, classifier_dropout=0.0, num_hidden_layers=1), token_class_inputs),
    Case("Qwen3ForQuestionAnswering", "main", dict(num_hidden_layers=1), answer_inputs),
]
