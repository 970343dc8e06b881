#!/usr/bin/env python3
"""Makes the oracle tensors of the GLM-4.5 classes: see model_oracle.py."""

import sys
from pathlib import Path

import transformers

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import rotary_decoder  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402

if __name__ == "__main__":
    rotary_decoder.main("GLM-4.5", FOLDER, transformers.Glm4MoeConfig, BASE_CONFIG, CASES)
