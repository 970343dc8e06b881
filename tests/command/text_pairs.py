"""Makes a T5 with a tokenizer, prompts with completions, and what transformers makes of them.

  text_pairs.py FOLDER    writes FOLDER/t5, FOLDER/pairs.jsonl and FOLDER/expected.json: the mean loss over all tokens of the completions,
                          with a tokenizer that ends each sequence, in FOLDER/bare with one that adds nothing, and in
                          FOLDER/left with the first one cutting sequences to 12 tokens on the left
"""
import json
import os
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors  # noqa: E402
from transformers import DataCollatorForSeq2Seq, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration  # noqa: E402

PAIRS = [("translate: hello", " hallo"), ("translate: a longer sentence", "ein viel längerer Satz"), ("x", "")]


def tokenizer_with(ends, **parts):
    alphabet = ["<pad>", "</s>"] + sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>", **parts)


def main():
    folder = sys.argv[1]
    torch.manual_seed(5)
    config = T5Config(vocab_size=258, d_model=16, d_kv=4, d_ff=32, num_layers=1, num_heads=2, dropout_rate=0.0, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    expected = {}
    for name, ends, length, parts in (("t5", True, 40, {}), ("bare", False, 40, {}), ("left", True, 12, dict(truncation_side="left"))):
        tokenizer = tokenizer_with(ends, **parts)
        cut = dict(truncation=True, max_length=length)
        model.save_pretrained(os.path.join(folder, name))
        tokenizer.save_pretrained(os.path.join(folder, name))
        samples = [dict(tokenizer(prompt, **cut), labels=tokenizer(text_target=completion, **cut)["input_ids"] + ([] if ends else [1]))
                   for prompt, completion in PAIRS]
        batch = DataCollatorForSeq2Seq(tokenizer, padding="max_length", max_length=length)(samples)
        with torch.no_grad():
            expected[name] = dict(loss=model(**batch).loss.item(), labels=int((batch["labels"] != -100).sum()))
    with open(os.path.join(folder, "pairs.jsonl"), "w") as file:
        file.writelines(json.dumps({"prompt": prompt, "completion": completion}) + "\n" for prompt, completion in PAIRS)
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(expected, file)


main()
