"""The Mistral oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen."""

from batches import Case, class_inputs, full_length_inputs, language_inputs
from rotary_decoder import answer_inputs, base_config, base_inputs, packed_inputs, token_class_inputs

BASE_CONFIG = base_config(sliding_window=4)

CASES = [
    Case("MistralModel", "main", dict(num_key_value_heads=1), base_inputs),
    Case("MistralForCausalLM", "main", dict(sliding_window=3, num_key_value_heads=1), language_inputs),
    Case("MistralForCausalLM", "no_window", dict(sliding_window=None, num_hidden_layers=1), language_inputs),
    # The window is one position shorter than the sequence, or as long.
    Case("MistralForCausalLM", "window_of_12", dict(sliding_window=12, num_hidden_layers=1), full_length_inputs),
    Case("MistralForCausalLM", "window_of_13", dict(sliding_window=13, num_hidden_layers=1), full_length_inputs),
    Case("MistralForCausalLM", "window_of_1", dict(sliding_window=1, num_hidden_layers=1), language_inputs),
    # 16 channels a head: the fused kernels, where nothing is masked.
    Case("MistralForCausalLM", "head_dim",
         dict(hidden_size=10, num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-3,
              rope_parameters=dict(rope_type="default", rope_theta=300.0)), full_length_inputs),
    Case("MistralForCausalLM", "packed", dict(num_hidden_layers=1, sliding_window=3), packed_inputs),
    Case("MistralForCausalLM", "tied", dict(tie_word_embeddings=True, num_hidden_layers=1), full_length_inputs),
    Case("MistralForSequenceClassification", "main",
         dict(num_labels=3, num_hidden_layers=1, sliding_window=5), class_inputs),
    Case("MistralForTokenClassification", "main",
         dict(num_labels=3, classifier_dropout=0.0, num_hidden_layers=1), token_class_inputs),
    Case("MistralForQuestionAnswering", "main", dict(num_hidden_layers=1), answer_inputs),
]
