#!/usr/bin/env python3
"""Makes the oracle tensors of the BERT classes: see model_oracle.py."""

import sys
from pathlib import Path

import transformers

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402


# Every position of the cases attends to some other one. What attention reads is normed, so weights are smaller
# than others': a softmax of large scores is all noise.
if __name__ == "__main__":
    sys.exit(model_oracle.main(model_oracle.Family(
        "BERT", FOLDER, transformers.BertConfig, BASE_CONFIG, CASES, is_norm=lambda name: "LayerNorm" in name,
        make_exact=lambda model: None, has_undefined=False, matrix_scale=0.25)))
