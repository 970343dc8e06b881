"""Transformers' side of PackedDocuments in text_data_test.cpp.

    packed_documents.py FOLDER EXPECTED
        EXPECTED: {loss, labels} of FOLDER/documents.jsonl, each document by itself, with the model in FOLDER
"""

import json
import sys
from pathlib import Path

import torch
import transformers

folder = Path(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
total, labels = 0.0, 0
for line in (folder / "documents.jsonl").read_text().splitlines():
    ids = torch.tensor([tokenizer(json.loads(line)["text"]).input_ids + [tokenizer.eos_token_id]])
    with torch.no_grad():
        predicted = ids.shape[1] - 1
        total += model(input_ids=ids, labels=ids).loss.item() * predicted
    labels += predicted
Path(sys.argv[2]).write_text(json.dumps(dict(loss=total / labels, labels=labels)))
