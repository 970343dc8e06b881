#!/usr/bin/env python3
"""Loads a model folder with transformers; fails where a key is missing, unexpected or of another shape.

    roundtrip.py MODEL_DIR CLASS [ORACLE.safetensors] [--tolerance 2e-5]

With an oracle file (see <family>/generate.py) the model also runs on its input.* tensors and must give its
output.* tensors, within the tolerance relative to the largest value of each; prints the largest differences.
"""

import argparse
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file


def load(folder, class_name):
    """Returns the model and what is wrong with its keys."""
    model_class = getattr(transformers, class_name, None)
    if model_class is None:
        sys.exit(f"roundtrip.py: transformers {transformers.__version__} has no class '{class_name}'")
    if not (Path(folder) / "config.json").is_file():
        sys.exit(f"roundtrip.py: no config.json in {folder}: give a model folder")
    model, report = model_class.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager", dtype=torch.float32,
        local_files_only=True, ignore_mismatched_sizes=True)
    return model, {name: found for name, found in report.items() if found}


def differences(model, oracle):
    """Yields name, largest absolute difference, and the same relative to the largest value of the oracle."""
    tensors = load_file(oracle)
    group = dict(input={}, output={}, defined={})
    for name, value in tensors.items():
        prefix, short_name = name.split(".", 1)
        if prefix in group:
            group[prefix][short_name] = value
    group["input"].pop("cotangent", None)
    if not group["output"]:
        sys.exit(f"roundtrip.py: {oracle} has no output.* tensor")
    with torch.no_grad():
        result = model.eval()(**group["input"])
    for name, wanted in group["output"].items():
        found = result[name]
        if found.shape != wanted.shape:
            sys.exit(f"roundtrip.py: {name} is {list(found.shape)}, {oracle} has {list(wanted.shape)}")
        if name in group["defined"]:
            where = group["defined"][name].bool()
            found, wanted = found[where], wanted[where]
        absolute = (found - wanted).abs().max().item()
        yield name, absolute, absolute / (wanted.abs().max().item() or 1.0)


def main():
    parser = argparse.ArgumentParser(description="loads a model folder with transformers, checks it")
    parser.add_argument("folder", metavar="MODEL_DIR")
    parser.add_argument("class_name", metavar="CLASS")
    parser.add_argument("oracle", metavar="ORACLE", nargs="?")
    parser.add_argument("--tolerance", type=float, default=2e-5)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    model, problems = load(options.folder, options.class_name)
    failures = [f"{name}: {sorted(found) if isinstance(found, (set, list)) else found}"
                for name, found in problems.items()]
    if options.oracle:
        for name, absolute, relative in differences(model, options.oracle):
            print(f"{name}: max abs diff {absolute:.3e}, relative {relative:.1e}")
            if not relative <= options.tolerance:
                failures.append(f"{name}: relative difference {relative:.1e}, allowed {options.tolerance}")
    for failure in failures:
        print(f"roundtrip.py: {options.folder}: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
