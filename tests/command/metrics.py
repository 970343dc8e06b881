"""The metrics of metrics_test.cpp from transformers' outputs, by the plain definitions.

    metrics.py (MODEL INPUTS.safetensors)...    prints a JSON object of accuracy, or exact_match and f1, by class
"""

import json
import sys
from collections import Counter
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file


def accuracy(logits, labels):
    right = [int(row.argmax() == label) for row, label in zip(logits.flatten(0, -2), labels.flatten()) if label != -100]
    return {"accuracy": sum(right) / len(right)}


def f1_of(predicted, labelled):
    common = sum((Counter(predicted) & Counter(labelled)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(predicted), common / len(labelled)
    return 2 * precision * recall / (precision + recall)


def answers(begins, ends, inputs):
    exact, f1 = [], []
    for n, ids in enumerate(inputs["input_ids"].tolist()):
        first, last = (max(0, int(inputs[name][n])) for name in ("start_positions", "end_positions"))
        if max(first, last) >= len(ids):
            continue
        spans = [(begins[n, i] + ends[n, j], i, j) for j in range(len(ids)) for i in range(j + 1)
                 if inputs["attention_mask"][n, i] and inputs["attention_mask"][n, j]]
        _, i, j = max(spans, key=lambda span: span[0])
        predicted, labelled = ids[i:j + 1], ids[first:last + 1]
        exact.append(predicted == labelled)
        f1.append(f1_of(predicted, labelled))
    return {"exact_match": sum(exact) / len(exact), "f1": sum(f1) / len(f1)}


def metrics(folder, path):
    inputs = load_file(path)
    name = json.loads((Path(folder) / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32).eval()
    labels = {"labels", "start_positions", "end_positions"}
    with torch.no_grad():
        outputs = model(**{key: value for key, value in inputs.items() if key not in labels})
    if "QuestionAnswering" in name:
        return name, answers(outputs.start_logits.double(), outputs.end_logits.double(), inputs)
    return name, accuracy(outputs.logits, inputs["labels"])


print(json.dumps(dict(metrics(*pair) for pair in zip(sys.argv[1::2], sys.argv[2::2]))))
