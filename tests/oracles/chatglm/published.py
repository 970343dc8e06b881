"""Runs the published code of ChatGLM2 on the oracle files: see main(). Its licence is for research, so Weft has no copy.

FOLDER has modeling_chatglm.py and configuration_chatglm.py, as the source archive of colossalai 0.5.0 on PyPI does in
colossalai/shardformer/modeling/chatglm2_6b (pip download colossalai==0.5.0 --no-deps --no-binary colossalai).
"""

import importlib
import json
import sys
import types

import torch
import transformers
from safetensors import safe_open

OUTPUTS, GRADIENTS = 2e-5, 1e-4  # fp32, relative to the largest value of each tensor


def classes(folder):
    """Imports the two files as a package, with what transformers 5 wants of them."""
    package = types.ModuleType("published_chatglm")
    package.__path__ = [folder]
    sys.modules["published_chatglm"] = package
    configuration = importlib.import_module("published_chatglm.configuration_chatglm")
    configuration.ChatGLMConfig.use_cache = False
    return configuration.ChatGLMConfig, importlib.import_module("published_chatglm.modeling_chatglm")


def model_of(file, config_class, modeling):
    config = config_class(**json.loads(file.metadata()["config"]))
    config.max_length = config.seq_length
    model = getattr(modeling, file.metadata()["class"])(config, empty_init=False)
    weights = {name.removeprefix("weight."): file.get_tensor(name) for name in file.keys()
               if name.startswith("weight.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    allowed = {"rotary_pos_emb.inv_freq"} | ({"output_layer.weight"} if "ChatGLMModel" in type(model).__name__ else set())
    if unexpected or not {name.removeprefix("transformer.") for name in missing} <= allowed:
        raise SystemExit(f"published.py: missing {missing}, unexpected {unexpected}")
    return model.train()


def results(model, inputs):
    """Returns outputs, batch first, and gradients."""
    cotangent = inputs.pop("cotangent", None)
    found = model(**inputs, return_dict=True)
    if cotangent is None:
        found.loss.backward()
        outputs = dict(loss=found.loss, logits=found.logits)
    else:
        outputs = dict(last_hidden_state=found.last_hidden_state.transpose(0, 1))
        (cotangent * outputs["last_hidden_state"]).sum().backward()
    return outputs, {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def difference(found, file, group):
    names = {name.removeprefix(group) for name in file.keys() if name.startswith(group)}
    if names != set(found):
        raise SystemExit(f"published.py: these are in one only: {sorted(names ^ set(found))}")
    wanted = {name: file.get_tensor(group + name) for name in found}
    return max(((found[name] - value).abs().max() / value.abs().max()).item() for name, value in wanted.items())


def main(files, folder):
    """Prints the largest differences of each file of `files`; returns 1 if one is too large."""
    transformers.logging.set_verbosity_error()
    config_class, modeling = classes(folder)
    status = 0
    for path in sorted(files.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            model = model_of(file, config_class, modeling)
            inputs = {name.removeprefix("input."): file.get_tensor(name) for name in file.keys()
                      if name.startswith("input.")}
            outputs, gradients = results(model, inputs)
            found = difference(outputs, file, "output."), difference(gradients, file, "grad.")
        print(f"{path.name}: outputs {found[0]:.1e}, gradients {found[1]:.1e}")
        status |= not (found[0] <= OUTPUTS and found[1] <= GRADIENTS)
    return status
