#!/usr/bin/env python3
"""Makes the oracle tensors of the Qwen3 classes: see model_oracle.py."""

import sys
from pathlib import Path

import transformers

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import rotary_decoder  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402

if __name__ == "__main__":
    rotary_decoder.main("Qwen3", FOLDER, transformers.Qwen3Config, BASE_CONFIG, CASES)
