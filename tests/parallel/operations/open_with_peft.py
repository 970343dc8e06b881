"""PEFT's side of peft_test.cpp: `open_with_peft.py FOLDER` opens FOLDER/base and FOLDER/adapted and compares their logits."""

import sys
from pathlib import Path

import numpy
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

folder = Path(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(folder / "base").eval()


def numbers(name):
    return torch.from_numpy(numpy.fromfile(folder / name, dtype=numpy.float32))


def differs(name):
    with torch.no_grad():
        logits = model(ids).logits
    difference = (logits.flatten() - numbers(name)).abs().max().item()
    print(f"{name}: {difference:.2e} of {logits.abs().max().item():.2f}")
    return difference > 2e-4


ids = numbers("ids.bin").long().view(6, -1)
failed = differs("before.bin")
model = PeftModel.from_pretrained(model, folder / "adapted").eval()
failed |= differs("after.bin")
sys.exit(failed)
