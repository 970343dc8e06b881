"""Prints the bits per byte of the lines of a file, each a document, of a model folder that transformers opens."""
import json
import math
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, data = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder).eval().double()
nats = bytes_of_text = 0
with open(data, encoding="utf-8") as file, torch.no_grad():
    for line in file:
        ids = tokenizer(json.loads(line)["text"])["input_ids"] + [tokenizer.eos_token_id]
        logits = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        predicted = [(i, label) for i, label in enumerate(ids[1:]) if label not in tokenizer.all_special_ids]
        nats -= sum(logits[i, label].item() for i, label in predicted)
        bytes_of_text += len(tokenizer.decode([label for _, label in predicted]).encode())
print(nats / math.log(2) / bytes_of_text)
