"""Makes tokenizers, questions and logits, and what transformers and SQuAD's script make of them.

  questions.py FOLDER    writes FOLDER/questions.json (SQuAD's form), FOLDER/lines.jsonl (a question in each line), and for each kind of
                         tokenizer a folder with tokenizer.json and expected.json: the samples, logits for them, and the answers
                         that they give; and FOLDER/scores.json: pairs of answers with their normal form and scores
"""
import collections
import json
import os
import random
import re
import string
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

LENGTH, OVERLAP, MOST_TOKENS = 64, 12, 9
WORDS = ("the city of Rome was not built in a day, but its walls stood for 1,700 years; a river (the Tiber) flows through it. "
         "An emperor's army can't march on an empty stomach: \"bread and games\", they said. In 1871 it became the capital.").split(" ")
OTHERS = ["Köln", "Straße", "naïve", "Москва", "Αθήνα", "東京", "서울", "हिन्दी", "☃", "“quoted”", "£50", "e\u0301t\u00e9", "the", "A", "an"]


def word_piece(texts):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator([t.replace("☃", "") for t in texts], trainers.WordPieceTrainer(
        vocab_size=300, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
                                   sep_token="[SEP]")


def byte_level(texts, **parts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=["<s>", "</s>", "<pad>"],
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", **parts)


def plain(texts):
    return byte_level(texts)


def left(texts, **parts):
    made = byte_level(texts, padding_side="left", cls_token="<s>", **parts)
    made._tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A </s> </s> $B </s>",
                                                                   special_tokens=[("<s>", 0), ("</s>", 1)])
    return made


def left_cut(texts):
    return left(texts, truncation_side="left")


def make_questions(draw):
    """Returns paragraphs as SQuAD has them. The first half is ASCII, where each byte-level token is whole characters."""
    paragraphs = []
    for number in range(12):
        words = [draw.choice(WORDS if number < 6 or draw.random() < 0.7 else OTHERS) for _ in range(draw.randint(3, 120))]
        context = " ".join(words).replace(" A ", "  A ")
        questions = []
        for at in range(4):
            question = {"id": f"{number}-{at}", "question": "What " + " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 15))) + "?",
                        "answers": [], "is_impossible": at == 3}
            for _ in range(0 if at == 3 else draw.randint(1, 3)):
                spaces = [0] + [m.end() for m in re.finditer(r"\s+", context)]
                begin = draw.choice(spaces)
                end = min(len(context.rstrip()), begin + draw.randint(1, 30))
                text = context[begin:end].rstrip()
                if len(text) == 0 or (draw.random() < 0.7 and " " in text):
                    text = context[begin:].split()[0]
                question["answers"].append({"text": text, "answer_start": begin})
            questions.append(question)
        paragraphs.append({"context": context, "qas": questions})
    return paragraphs


def samples_of(tokenizer, paragraphs):
    """As run_qa.py of transformers' examples."""
    contexts = [p["context"] for p in paragraphs for _ in p["qas"]]
    questions = [q for p in paragraphs for q in p["qas"]]
    encoded = tokenizer([q["question"] for q in questions], contexts, truncation="only_second", max_length=LENGTH, stride=OVERLAP,
                        return_overflowing_tokens=True, return_offsets_mapping=True, padding="max_length",
                        return_token_type_ids=True, return_attention_mask=True)
    samples = []
    for i, ids in enumerate(encoded["input_ids"]):
        question = encoded["overflow_to_sample_mapping"][i]
        mask = encoded["attention_mask"][i]
        offsets, sequences = encoded["offset_mapping"][i], encoded.sequence_ids(i)
        first = mask.index(1)
        start = end = first
        if questions[question]["answers"]:
            answer = questions[question]["answers"][0]
            begin_char, end_char = answer["answer_start"], answer["answer_start"] + len(answer["text"])
            from_token, to_token = sequences.index(1), len(sequences) - 1 - sequences[::-1].index(1)
            if offsets[from_token][0] <= begin_char and offsets[to_token][1] >= end_char:
                while from_token < len(offsets) and offsets[from_token][0] <= begin_char and sequences[from_token] == 1:
                    from_token += 1
                while offsets[to_token][1] >= end_char:
                    to_token -= 1
                start, end = from_token - 1, to_token + 1
        samples.append({"question": question, "input_ids": ids, "attention_mask": mask, "token_type_ids": encoded["token_type_ids"][i],
                        "start": start, "end": end, "first": first,
                        "offsets": [o if s == 1 else None for o, s in zip(offsets, sequences)]})
    return samples


def answers_of(paragraphs, samples, logits):
    """As postprocess_qa_predictions of run_qa.py with version_2_with_negative, and all positions as candidates."""
    contexts = [p["context"] for p in paragraphs for _ in p["qas"]]
    best, none = {}, {}
    for sample, (starts, ends) in zip(samples, logits):
        question, offsets = sample["question"], sample["offsets"]
        null = starts[sample["first"]] + ends[sample["first"]]
        none[question] = min(none.get(question, null), null)
        for start in range(len(offsets)):
            for end in range(len(offsets)):
                if offsets[start] is None or offsets[end] is None or end < start or end - start + 1 > MOST_TOKENS:
                    continue
                score = starts[start] + ends[end]
                if question not in best or score > best[question][0]:
                    best[question] = (score, contexts[question][offsets[start][0]:offsets[end][1]])
    return ["" if none[q] > best[q][0] else best[q][1].strip() for q in range(len(contexts))]


# From evaluate-v2.0.py of SQuAD.
def normalize_answer(s):
    def remove_articles(text):
        return re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text)

    def white_space_fix(text):
        return " ".join(text.split())

    def remove_punc(text):
        exclude = set(string.punctuation)
        return "".join(ch for ch in text if ch not in exclude)

    return white_space_fix(remove_articles(remove_punc(s.lower())))


def compute_f1(a_gold, a_pred):
    gold_toks, pred_toks = normalize_answer(a_gold).split(), normalize_answer(a_pred).split()
    num_same = sum((collections.Counter(gold_toks) & collections.Counter(pred_toks)).values())
    if len(gold_toks) == 0 or len(pred_toks) == 0:
        return int(gold_toks == pred_toks)
    if num_same == 0:
        return 0
    precision, recall = num_same / len(pred_toks), num_same / len(gold_toks)
    return (2 * precision * recall) / (precision + recall)


def scores_of(draw):
    """Weft compares both forms of sigma as one."""
    pieces = WORDS + OTHERS + ["THE", "theatre", "a-b", "an_", "ΟΔΟΣ", "ὁδός", "the\u0301", "can't", "\u00a0", "\u2003", "½", "漢a字", "Ａ", "İ", "&"]
    result = []
    for _ in range(400):
        texts = [draw.choice([" ", "  ", "\t", "-"]).join(draw.choice(pieces) for _ in range(draw.randint(0, 5)))
                 for _ in range(draw.randint(1, 4))]
        found = draw.choice([texts[-1].upper(), texts[-1] + " the.", texts[-1], draw.choice(pieces), ""])
        gold = [t for t in texts if normalize_answer(t)] or [""]
        result.append({"found": found, "right": texts, "normal": normalize_answer(found).replace("ς", "σ"),
                       "exact_match": max(int(normalize_answer(g) == normalize_answer(found)) for g in gold),
                       "f1": max(compute_f1(g, found) for g in gold)})
    return result


def main():
    folder, draw = sys.argv[1], random.Random(5)
    paragraphs = make_questions(draw)

    def write(name, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    write("questions.json", json.dumps({"version": "v2.0", "data": [{"title": "Rome", "paragraphs": paragraphs[:2]},
                                                                    {"title": "Others", "paragraphs": paragraphs[2:]}]}))
    lines = [{"id": q["id"], "title": "", "context": p["context"], "question": q["question"],
              "answers": {"text": [a["text"] for a in q["answers"]], "answer_start": [a["answer_start"] for a in q["answers"]]}}
             for p in paragraphs[:6] for q in p["qas"]]
    write("lines.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    write("scores.json", json.dumps(scores_of(draw)))
    for kind in (word_piece, plain, left, left_cut):
        own = paragraphs if kind is word_piece else paragraphs[:6]
        tokenizer = kind([p["context"] for p in paragraphs])
        tokenizer.save_pretrained(os.path.join(folder, kind.__name__))
        samples = samples_of(tokenizer, own)
        if kind in (left, left_cut):  # whose template has type 0 alone, which transformers forgets in all windows but the first
            for sample in samples:
                sample["token_type_ids"] = [0] * LENGTH
        logits = numpy.random.default_rng(3).normal(size=(len(samples), 2, LENGTH))
        for sample, of_sample in zip(samples, logits):
            of_sample[:, sample["first"]] += 1.5
        write(f"{kind.__name__}/expected.json", json.dumps({"length": LENGTH, "overlap": OVERLAP, "most_tokens": MOST_TOKENS,
                                                            "samples": samples, "logits": logits.tolist(),
                                                            "answers": answers_of(own, samples, logits)}))


main()
