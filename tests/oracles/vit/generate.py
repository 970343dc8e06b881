#!/usr/bin/env python3
"""Makes the oracle tensors of the ViT classes: see model_oracle.py."""

import re
import sys
from pathlib import Path

import transformers

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402

# Transformers 5 renames the layers of a checkpoint when it opens one, and back when it saves one.
STORED = {
    r"layers\.(\d+)": r"encoder.layer.\1",
    r"attention\.q_proj": "attention.attention.query",
    r"attention\.k_proj": "attention.attention.key",
    r"attention\.v_proj": "attention.attention.value",
    r"attention\.o_proj": "attention.output.dense",
    r"mlp\.fc1": "intermediate.dense",
    r"mlp\.fc2": "output.dense",
}


def stored_name(name):
    for pattern, stored in STORED.items():
        name = re.sub(pattern, stored, name)
    return name


# Eager attention rounds its probabilities to fp32.
if __name__ == "__main__":
    sys.exit(model_oracle.main(model_oracle.Family(
        "ViT", FOLDER, transformers.ViTConfig, BASE_CONFIG, CASES, is_norm=lambda name: "layernorm" in name,
        make_exact=lambda model: None, exact_attention="sdpa", stored_name=stored_name,
        arguments=lambda config: dict(interpolate_pos_encoding=getattr(config, "interpolate_pos_encoding", False)))))
