"""The Qwen2 oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen."""

from batches import Case, class_inputs, full_length_inputs, language_inputs
from rotary_decoder import answer_inputs, base_config, base_inputs, packed_inputs, token_class_inputs

BASE_CONFIG = base_config()
WINDOWS = dict(use_sliding_window=True, sliding_window=4)

CASES = [
    Case("Qwen2Model", "main", WINDOWS | dict(max_window_layers=1, num_key_value_heads=1), base_inputs),
    Case("Qwen2ForCausalLM", "main", dict(num_key_value_heads=1), language_inputs),
    # A window that no layer has.
    Case("Qwen2ForCausalLM", "switched_off", dict(sliding_window=3, max_window_layers=0, num_hidden_layers=1),
         full_length_inputs),
    Case("Qwen2ForCausalLM", "windows", WINDOWS | dict(max_window_layers=0, num_hidden_layers=1), language_inputs),
    Case("Qwen2ForCausalLM", "layer_types",
         WINDOWS | dict(layer_types=["sliding_attention", "full_attention"], num_key_value_heads=1), language_inputs),
    # 16 channels a head: the fused kernels, where nothing is masked.
    Case("Qwen2ForCausalLM", "grouped",
         WINDOWS | dict(hidden_size=32, num_attention_heads=2, num_key_value_heads=1, max_window_layers=0,
                        num_hidden_layers=1), full_length_inputs),
    Case("Qwen2ForCausalLM", "packed", WINDOWS | dict(num_hidden_layers=1, max_window_layers=0), packed_inputs),
    Case("Qwen2ForCausalLM", "tied", dict(tie_word_embeddings=True, num_hidden_layers=1), language_inputs),
    Case("Qwen2ForSequenceClassification", "main", dict(num_labels=3, num_hidden_layers=1), class_inputs),
    Case("Qwen2ForTokenClassification", "main",
         dict(num_labels=3, classifier_dropout=0.0, num_hidden_layers=1), token_class_inputs),
    Case("Qwen2ForQuestionAnswering", "main", dict(num_hidden_layers=1), answer_inputs),
]
