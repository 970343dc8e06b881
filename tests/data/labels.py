"""Makes classifiers with tokenizers, rows with labels, and what transformers makes of them.

  labels.py FOLDER    writes FOLDER/{rows.csv,pairs.jsonl,scores.tsv,several.jsonl}, and for bert, opt and llama a folder for each of
                      these files (FOLDER/bert/rows, ...) with a model, its tokenizer and expected.json: the batches of 4 rows, the
                      loss over all of them, that of the first 4 with weights of the classes, and the logits; FOLDER/tags.jsonl, and
                      for bert, t5 and llama FOLDER/bert/tags with the batches and losses of "first" and "all". Folders of rows, pairs
                      and tags with "_left" behind their names have a tokenizer that pads and truncates on the left. Batches of tags are
                      padded there, batches of texts on the right; all losses and logits are those of padding on the right
"""
import json
import os
import random
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import (AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification,  # noqa: E402
                          DataCollatorForTokenClassification, DataCollatorWithPadding, PreTrainedTokenizerFast)

LENGTH, BATCH = 20, 4
WORDS = "the river runs (slowly), and its \"banks\" don't flood; naïve visitors say: 東京 is far; well - 42 of 100 agree.".split(" ")
NAMES = ["Zebra", "apple", "Äpfel", "neutral"]  # in the order of their code points: Zebra, apple, neutral, Äpfel
WEIGHTS = {"Zebra": 0.5, "apple": 2.0, "neutral": 1.25, "Äpfel": 3.0}


def word_piece(texts, **parts):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=120, show_progress=False,
                                                                   special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
                                   model_input_names=["input_ids", "token_type_ids", "attention_mask"], **parts)


def byte_level(texts, single, pair, **parts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=300, show_progress=False, special_tokens=["<s>", "</s>", "<pad>"],
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[("<s>", 0), ("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                                   model_input_names=["input_ids", "attention_mask"], **parts)


def family(name, texts, side):
    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64)
    sides = dict(padding_side=side, truncation_side=side)
    if name == "bert":
        return word_piece(texts, **sides), dict(sizes, intermediate_size=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    if name == "t5":
        return (byte_level(texts, "$A </s>", "$A </s> $B </s>", pad_token="<pad>", **sides),
                dict(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0, eos_token_id=1))
    if name == "opt":
        return (byte_level(texts, "</s> $A", "</s> $A </s> $B", pad_token="<pad>", **sides),
                dict(sizes, ffn_dim=32, word_embed_proj_dim=16, dropout=0.0, pad_token_id=2, bos_token_id=0, eos_token_id=1))
    # Without a token for padding, and with an end that a text keeps.
    return (byte_level(texts, "<s> $A </s>", "<s> $A </s> $B </s>", **sides),
            dict(sizes, intermediate_size=32, bos_token_id=0, eos_token_id=1, num_key_value_heads=1))


def make_rows(draw):
    def text():
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 25)))
    return [{"text": text(), "other": text(), "name": draw.choice(NAMES), "score": draw.randint(-20, 20) / 8,
             "several": draw.sample(NAMES, draw.randint(0, 3))} for _ in range(11)]


def csv_field(text):
    return '"' + text.replace('"', '""') + '"' if '"' in text or "," in text else text


def encode(tokenizer, rows, pairs, truncation=True):
    texts = [row["text"] for row in rows]
    return tokenizer(texts, [row["other"] for row in rows] if pairs else None, truncation=truncation, max_length=LENGTH)


def padded(tokenizer, collate, features, side="right"):
    own, tokenizer.padding_side = tokenizer.padding_side, side
    batch = dict(collate([dict(feature) for feature in features]))
    tokenizer.padding_side = own
    return batch


def expected_of(model, tokenizer, rows, labels, pairs, weights):
    collate = DataCollatorWithPadding(tokenizer)
    batches, losses, logits, weighted = [], [], [], None
    for begin in range(0, len(rows), BATCH):
        own = labels[begin:begin + BATCH]
        encoded = encode(tokenizer, rows[begin:begin + BATCH], pairs)
        features = [dict({name: values[i] for name, values in encoded.items()}, labels=own[i]) for i in range(len(own))]
        batch = padded(tokenizer, collate, features)
        with torch.no_grad():
            outputs = model(**batch)
        batches.append({name: tensor.tolist() for name, tensor in batch.items()})
        losses.append(outputs.loss.item() * len(own))
        logits += outputs.logits.tolist()
        if begin == 0 and weights is not None:
            weighted = torch.nn.functional.cross_entropy(outputs.logits, batch["labels"], torch.tensor(weights)).item()
    return dict(batches=batches, loss=sum(losses) / len(rows), logits=logits, weighted=weighted,
                truncated=sum(len(ids) > LENGTH for ids in encode(tokenizer, rows, pairs, False)["input_ids"]))


def make(folder, name, file, rows, side="right"):
    texts = [row[key] for row in rows for key in ("text", "other")]
    tokenizer, settings = family(name, texts, side)
    classes, ids = sorted(NAMES), {name: i for i, name in enumerate(sorted(NAMES))}
    if file == "scores":
        classes, labels, problem = ["LABEL_0"], [row["score"] for row in rows], "regression"
    elif file == "several":
        labels, problem = [[float(c in row["several"]) for c in classes] for row in rows], "multi_label_classification"
    else:
        labels, problem = [ids[row["name"]] for row in rows], "single_label_classification"
    torch.manual_seed(7)
    config = AutoConfig.for_model(name, vocab_size=len(tokenizer), id2label=dict(enumerate(classes)),
                                  label2id={c: i for i, c in enumerate(classes)}, problem_type=problem, **settings)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    if config.pad_token_id is None or name == "bert":
        model.config.pad_token_id = None if name == "llama" else 0
    path = os.path.join(folder, name, file + ("_left" if side == "left" else ""))
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    if name == "llama":  # what people do to get batches; the end of a text is then taken for padding, but for the mask
        tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = -1
        score = model.score

        def last_token(hidden, mask):
            return score(hidden)[torch.arange(len(mask)), mask.sum(-1) - 1]
        model = LastToken(model, last_token)
    expected = expected_of(model, tokenizer, rows, labels, file == "pairs", [WEIGHTS[c] for c in classes] if file == "rows" else None)
    with open(os.path.join(path, "expected.json"), "w", encoding="utf-8") as out:
        json.dump(expected, out)


TAGS = ["B-LOC", "B-PER", "I-LOC", "O"]  # no I-PER


def make_tags(folder, name, rows, texts, side="right"):
    """As run_ner.py of transformers' examples, with and without --label_all_tokens."""
    tokenizer, settings = family(name, texts, side)
    torch.manual_seed(9)
    config = AutoConfig.for_model(name, vocab_size=len(tokenizer), id2label=dict(enumerate(TAGS)),
                                  label2id={tag: i for i, tag in enumerate(TAGS)}, pad_token_id=2 if name == "t5" else 0, **settings)
    model = AutoModelForTokenClassification.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    path = os.path.join(folder, name, "tags" + ("_left" if side == "left" else ""))
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.bos_token  # id 0
    inside = [TAGS.index("I-" + tag[2:]) if tag.startswith("B-") and "I-" + tag[2:] in TAGS else i for i, tag in enumerate(TAGS)]
    expected = {}
    for subwords in ("first", "all"):
        encoded = tokenizer([row["tokens"] for row in rows], truncation=True, max_length=LENGTH, is_split_into_words=True)
        all_labels = []
        for i, row in enumerate(rows):
            labels, before = [], None
            for word in encoded.word_ids(i):
                tag = None if word is None else TAGS.index(row["tags"][word])
                labels.append(-100 if word is None else tag if word != before else inside[tag] if subwords == "all" else -100)
                before = word
            all_labels.append(labels)
        batches, loss, count, predicted = [], 0.0, 0, []
        for begin in range(0, len(rows), BATCH):
            features = [dict({key: encoded[key][i] for key in encoded}, labels=all_labels[i])
                        for i in range(begin, min(begin + BATCH, len(rows)))]
            collate = DataCollatorForTokenClassification(tokenizer)
            batch = padded(tokenizer, collate, features)
            with torch.no_grad():
                outputs = model(**batch)
            own = int((batch["labels"] != -100).sum())
            loss, count = loss + outputs.loss.item() * own, count + own
            batches.append({key: tensor.tolist() for key, tensor in padded(tokenizer, collate, features, side).items()})
            for i, logits in enumerate(outputs.logits):
                words = encoded.word_ids(begin + i)
                predicted.append([TAGS[int(logits[words.index(w)].argmax())] if w in words else None
                                  for w in range(len(rows[begin + i]["tokens"]))])
        expected[subwords] = dict(batches=batches, loss=loss / count, labels=count, predicted=predicted)
    with open(os.path.join(path, "expected.json"), "w", encoding="utf-8") as out:
        json.dump(expected, out)


class LastToken:
    """A Llama whose last token is the last one that the mask has."""
    def __init__(self, model, last_token):
        self.model, self.last_token = model, last_token

    def __call__(self, input_ids, attention_mask, labels):
        hidden = self.model.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits = self.last_token(hidden, attention_mask)
        loss = self.model.loss_function(labels=labels, logits=logits, pooled_logits=logits, config=self.model.config)
        return type("Outputs", (), dict(loss=loss, logits=logits))


def main():
    folder, draw = sys.argv[1], random.Random(3)
    rows = make_rows(draw)

    def write(name, lines, ends="\n"):
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as file:
            file.write("".join(line + ends for line in lines))

    write("rows.csv", ["label,id,text"] + [f"{csv_field(row['name'])},{i},{csv_field(row['text'])}" for i, row in enumerate(rows)], "\r\n")
    write("pairs.jsonl", [json.dumps(dict(first=row["text"], second=row["other"], label=row["name"])) for row in rows])
    write("scores.tsv", ["text\tlabel"] + ['"' + row["text"].replace('"', '""') + f'"\t{row["score"]}' for row in rows])
    write("several.jsonl", [json.dumps(dict(text=row["text"], label=row["several"]), ensure_ascii=False) for row in rows])
    write("weights.json", [json.dumps(WEIGHTS)])
    tagged = []
    for row in rows:
        words = row["text"].split(" ")
        if len(words) > 3:
            words[2] = "\u200b"  # of which BERT's tokenizer makes no token
        tagged.append(dict(tokens=words, tags=[draw.choice(TAGS) for _ in words]))
    tagged[0]["tags"] = (TAGS * 7)[:len(tagged[0]["tags"])]
    write("tags.jsonl", [json.dumps(row) for row in tagged])
    for name in ("bert", "llama", "t5"):
        for side in ("right", "left"):
            make_tags(folder, name, tagged, [row[key] for row in rows for key in ("text", "other")], side)
    for name in ("bert", "opt", "llama"):
        for file in ("rows", "pairs", "scores", "several"):
            make(folder, name, file, rows)
        for file in ("rows", "pairs"):
            make(folder, name, file, rows, "left")


main()
