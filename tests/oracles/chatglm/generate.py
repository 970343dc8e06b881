#!/usr/bin/env python3
"""Makes the oracle tensors of the ChatGLM2 classes: see model_oracle.py.

Transformers has no ChatGLM2. It has GLM, which is the same model with other names. What only ChatGLM2 has is
added to it here: biases, LayerNorm, the residual after a norm, no last norm, and padding that attends to every
position. The weights and gradients are written in ChatGLM2's layout under its names.

    generate.py --published FOLDER    compares the files with the published code: see published.py
"""

import json
import sys
from pathlib import Path
from types import MethodType

import torch
import transformers

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
import rotary_decoder  # noqa: E402
from cases import BASE_CONFIG, CASES, CLASSES  # noqa: E402

NAMES = {"embed_tokens": "embedding.word_embeddings", "norm": "encoder.final_layernorm", "lm_head": "output_layer"}
LAYER_NAMES = {"input_layernorm": "input_layernorm", "post_attention_layernorm": "post_attention_layernorm",
               "self_attn.o_proj": "self_attention.dense", "mlp.gate_up_proj": "mlp.dense_h_to_4h",
               "mlp.down_proj": "mlp.dense_4h_to_h"}
KEYS = dict(num_layers="num_hidden_layers", padded_vocab_size="vocab_size", hidden_size="hidden_size",
            ffn_hidden_size="intermediate_size", kv_channels="head_dim", num_attention_heads="num_attention_heads",
            multi_query_group_num="num_key_value_heads", multi_query_attention="multi_query_attention",
            seq_length="max_position_embeddings", layernorm_epsilon="rms_norm_eps", add_qkv_bias="attention_bias",
            attention_dropout="attention_dropout", rmsnorm="rmsnorm", post_layer_norm="post_layer_norm",
            add_bias_linear="add_bias_linear",
            apply_residual_connection_post_layernorm="apply_residual_connection_post_layernorm")


def block(self, hidden_states, position_embeddings=None, attention_mask=None, **_):
    """GLM's block with the residuals of "apply_residual_connection_post_layernorm"."""
    normed = self.input_layernorm(hidden_states)
    hidden_states = normed + self.self_attn(normed, position_embeddings, attention_mask)[0]
    normed = self.post_attention_layernorm(hidden_states)
    return normed + self.mlp(normed)


def masked_by_query(model, positional, arguments):
    """A token attends to the tokens up to itself, padding to every position. mask: (B, T) -> (B, 1, T, T)"""
    mask = arguments.get("attention_mask")
    if mask is None:
        return None
    tokens = mask.bool()
    earlier = torch.ones(mask.shape[1], mask.shape[1], dtype=torch.bool).tril()
    allowed = (tokens[:, None, :] & earlier) | ~tokens[:, :, None]
    dtype = next(model.parameters()).dtype
    additive = torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)
    return positional, arguments | dict(attention_mask=additive[:, None])


def adjust(model):
    """Gives a GLM what its configuration says of ChatGLM2."""
    config, base = model.config, getattr(model, "model", model)
    norm = torch.nn.LayerNorm if not config.rmsnorm else type(base.norm)
    if not config.rmsnorm:
        base.norm = norm(config.hidden_size, eps=config.rms_norm_eps)
    if not config.post_layer_norm:
        base.norm = torch.nn.Identity()
    for layer in base.layers:
        if not config.rmsnorm:
            layer.input_layernorm = norm(config.hidden_size, eps=config.rms_norm_eps)
            layer.post_attention_layernorm = norm(config.hidden_size, eps=config.rms_norm_eps)
        if config.add_bias_linear:
            for parent, name in ((layer.self_attn, "o_proj"), (layer.mlp, "gate_up_proj"), (layer.mlp, "down_proj")):
                linear = getattr(parent, name)
                setattr(parent, name, torch.nn.Linear(linear.in_features, linear.out_features))
        if config.apply_residual_connection_post_layernorm:
            layer.forward = MethodType(block, layer)
    model.register_forward_pre_hook(masked_by_query, with_kwargs=True)


def fused(q, k, v, config):
    """Queries, keys and values side by side, or, without groups, head by head."""
    if config["multi_query_attention"]:
        return torch.cat([q, k, v])
    heads = [part.unflatten(0, (config["num_attention_heads"], -1)) for part in (q, k, v)]
    return torch.cat(heads, 1).flatten(0, 1)


def renamed(tensors, config, prefix):
    """Returns GLM's tensors as those of ChatGLM2."""
    result = {}
    for name, value in tensors.items():
        name = name.removeprefix("model.")
        stem, leaf = name.rsplit(".", 1)
        if not stem.startswith("layers."):
            result[f"{prefix}{NAMES[stem]}.{leaf}"] = value
            continue
        _, layer, stem = stem.split(".", 2)
        if stem in LAYER_NAMES:
            result[f"{prefix}encoder.layers.{layer}.{LAYER_NAMES[stem]}.{leaf}"] = value
    for name in tensors:
        if ".q_proj." not in name:
            continue
        parts = [tensors[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
        layer, leaf = name.removeprefix("model.").split(".")[1], name.rsplit(".", 1)[1]
        result[f"{prefix}encoder.layers.{layer}.self_attention.query_key_value.{leaf}"] = fused(*parts, config)
    return result


def translate(tensors, metadata):
    """Returns a file of GLM as one of ChatGLM2."""
    config, model_class = json.loads(metadata["config"]), CLASSES[metadata["class"]]
    prefix = "" if model_class == "ChatGLMModel" else "transformer."
    groups = {}
    for name, value in tensors.items():
        group, name = name.split(".", 1)
        groups.setdefault(group, {})[name] = value
    for group in ("weight", "grad"):
        groups[group] = renamed(groups[group], config, prefix)
    chatglm = {key: config[name] for key, name in KEYS.items()} | dict(
        model_type="chatglm", architectures=[model_class], use_cache=False)
    return ({f"{group}.{name}": value.contiguous() for group, named in groups.items() for name, value in named.items()},
            metadata | {"class": model_class, "config": json.dumps(chatglm, indent=2, sort_keys=True) + "\n"})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--published"]:
        import published
        sys.exit(published.main(FOLDER, sys.argv[2]))
    rotary_decoder.main("ChatGLM2", FOLDER, transformers.GlmConfig, BASE_CONFIG, CASES,
                        adjust=adjust, has_undefined=False, translate=translate)
