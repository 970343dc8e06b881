#!/usr/bin/env python3
"""Makes the oracle tensors of the Whisper classes: see model_oracle.py."""

import sys
from pathlib import Path

import transformers

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import model_oracle  # noqa: E402
from cases import BASE_CONFIG, CASES  # noqa: E402

if __name__ == "__main__":
    sys.exit(model_oracle.main(model_oracle.Family(
        "Whisper", FOLDER, transformers.WhisperConfig, BASE_CONFIG, CASES,
        is_norm=lambda name: "layer_norm" in name, make_exact=lambda model: None)))
