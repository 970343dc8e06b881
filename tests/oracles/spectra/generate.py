#!/usr/bin/env python3
"""Writes spectra.json: what transformers' WhisperFeatureExtractor makes of noise that both sides can compute.

    processing   the values of a preprocessor_config.json
    samples      how many samples of noise() the recording has
    spectrum     its input_features, by mel bin and frame
    mask         its attention_mask, if the processing asks for one

    generate.py            writes spectra.json if it is missing or differs
    generate.py --check    makes it again and compares; exit status 1 where it differs
"""

import sys
from pathlib import Path

import numpy
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import json_oracle

FILE = Path(__file__).resolve().parent / "spectra.json"
CASES = [
    ({"feature_size": 20, "chunk_length": 1}, 3000),
    ({"feature_size": 80, "chunk_length": 1}, 16000),
    ({"feature_size": 12, "chunk_length": 2, "sampling_rate": 8000, "n_fft": 256, "hop_length": 200, "padding_value": 0.125,
      "return_attention_mask": True}, 7001),
    ({"feature_size": 7, "chunk_length": 1, "sampling_rate": 22050, "n_fft": 512, "hop_length": 441}, 12345),
]


def noise(count):
    """Steps of a linear congruential generator that grow louder four times a second."""
    values, state = numpy.zeros(count, numpy.float32), 1
    for i in range(count):
        state = (1103515245 * state + 12345) % 2**31
        values[i] = ((state >> 15) - 32768) / 32768 * (i % 4000) / 4000
    return values


def make():
    made = []
    for processing, count in CASES:
        extractor = transformers.WhisperFeatureExtractor(**processing)
        result = extractor(noise(count), sampling_rate=extractor.sampling_rate, return_tensors="np")
        one = {"processing": processing, "samples": count,
               "spectrum": [[round(float(value), 5) for value in row] for row in result["input_features"][0]]}
        if "attention_mask" in result:
            one["mask"] = result["attention_mask"][0].tolist()
        made.append(one)
    return {"cases": made}


if __name__ == "__main__":
    sys.exit(json_oracle.main(FILE, make, 5e-5, "Spectra of recordings"))
