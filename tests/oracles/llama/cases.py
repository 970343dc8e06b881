"""The Llama oracle cases: for each a class, a config and a batch. Odd sizes let no transposition go unseen.

B batch, T positions, H heads of queries, G of keys and values, D channels of a head.
"""

from batches import (
    Case, class_inputs, full_length_inputs, language_inputs, multi_label_inputs, single_regression_inputs,
    single_row_inputs)
from rotary_decoder import answer_inputs, base_config, base_inputs, packed_inputs, token_class_inputs

BASE_CONFIG = base_config()
# The low half of the frequencies is divided, the high one kept, and there is one between.
LLAMA3 = dict(rope_type="llama3", rope_theta=50.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0,
              original_max_position_embeddings=24)

CASES = [
    Case("LlamaModel", "main", dict(), base_inputs),
    Case("LlamaModel", "one_key_head", dict(num_key_value_heads=1, hidden_act="gelu"), base_inputs),
    Case("LlamaForCausalLM", "main", dict(), language_inputs),
    Case("LlamaForCausalLM", "grouped",
         dict(hidden_size=24, num_attention_heads=6, num_key_value_heads=2, head_dim=6), language_inputs),
    # 16 channels a head: the fused kernels, where nothing is masked.
    Case("LlamaForCausalLM", "head_dim",
         dict(hidden_size=12, num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-3),
         full_length_inputs),
    Case("LlamaForCausalLM", "tied", dict(tie_word_embeddings=True, num_hidden_layers=1), language_inputs),
    Case("LlamaForCausalLM", "biases", dict(attention_bias=True, mlp_bias=True), full_length_inputs),
    Case("LlamaForCausalLM", "linear_scaling",
         dict(rope_parameters=dict(rope_type="linear", rope_theta=100.0, factor=2.5), num_hidden_layers=1),
         full_length_inputs),
    Case("LlamaForCausalLM", "llama3_scaling",
         dict(rope_parameters=LLAMA3, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
              num_hidden_layers=1), full_length_inputs),
    Case("LlamaForCausalLM", "packed", dict(num_hidden_layers=1), packed_inputs),
    Case("LlamaForSequenceClassification", "main", dict(num_labels=3, num_key_value_heads=1), class_inputs),
    Case("LlamaForSequenceClassification", "multi_label",
         dict(num_labels=3, problem_type="multi_label_classification", num_hidden_layers=1),
         multi_label_inputs),
    Case("LlamaForSequenceClassification", "single_regression", dict(num_labels=1, num_hidden_layers=1),
         single_regression_inputs),
    Case("LlamaForSequenceClassification", "no_padding_token",
         dict(num_labels=3, pad_token_id=None, problem_type="single_label_classification",
              num_hidden_layers=1), single_row_inputs),
    Case("LlamaForTokenClassification", "main",
         dict(num_labels=3, classifier_dropout=0.0, num_hidden_layers=1), token_class_inputs),
    Case("LlamaForTokenClassification", "no_bias",
         dict(num_labels=3, classifier_dropout=0.0, num_hidden_layers=1, token_classification_bias=False),
         token_class_inputs),
    Case("LlamaForQuestionAnswering", "main", dict(num_hidden_layers=1), answer_inputs),
]
