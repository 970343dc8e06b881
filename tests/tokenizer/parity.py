"""Makes small tokenizers of the kinds that models use, and what Hugging Face's tokenizers, or SentencePiece, return for a text.

  parity.py FOLDER BYTES SEED    writes FOLDER/texts.bin (texts, a NUL behind each) and for each kind a folder with
                                 tokenizer.json or tokenizer.model, ids.bin (for each text the number of ids and the ids, 32 bits each)
                                 and decoded.bin (texts, a NUL behind each); prints the speed of each kind
"""
import array
import io
import json
import os
import random
import re
import sys
import time
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import sentencepiece  # noqa: E402
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + TAIL
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + TAIL
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
SCRIPTS = [(0x41, 0x7A), (0xC0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x6FF), (0x900, 0x97F),
           (0xE01, 0xE5B), (0x1E00, 0x1EFF), (0x3041, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xADFF), (0xFB00, 0xFB06),
           (0xFF01, 0xFF5E), (0x1D400, 0x1D450), (0x2150, 0x218B), (0x660, 0x669), (0x1F300, 0x1F5FF), (0x2000, 0x206F)]
MARKS = [chr(c) for c in range(0x300, 0x340)]
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u200b", "    ", "\n\n", " \n ", "\u2028"]
PIECES = ["👩\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈", "don't", "WE'VE", "'ſ", "I'LL", "x = f(y)[0];", "{\n        return 1;\n}", "...",
          "3.14159", "2026", "١٢٣", "naïve", "e\u0301", "ﬁne", "№", "½", "™", "ΑΣ", "İstanbul", "STRASSE", "ß", "한국어", "漢字かな", "<|endoftext|>",
          "<s>", "</s>", "[MASK]", "a b [SEP]", "\u0001", "\ufffd", "▁", "Ġ", "#include <x>", "https://example.org/a?b=c", "a" * 30]


def repository():
    texts = []
    for folder in ("sdk/docs", "core/api/booster", "tests/abi", "kernels"):
        for path, folders, names in sorted(os.walk(os.path.join(ROOT, folder))):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".md", ".cpp", ".hpp", ".py")):
                    with open(os.path.join(path, name), encoding="utf-8") as file:
                        texts.append(file.read())
    return texts


def word(draw):
    first, last = draw.choice(SCRIPTS)
    points = [draw.randint(first, last) for _ in range(draw.randint(1, 9))]
    letters = [chr(p) for p in points if unicodedata.category(chr(p)) not in ("Cn", "Cs", "Co")]
    return "".join(c + draw.choice(MARKS) if draw.random() < 0.03 else c for c in letters)


def generated(draw):
    parts = []
    for _ in range(draw.randint(5, 120)):
        kind = draw.random()
        parts.append(word(draw) if kind < 0.6 else draw.choice(PIECES) if kind < 0.95 else " " * draw.randint(1, 300))
        parts.append(draw.choice(SPACES) if draw.random() < 0.3 else " " if draw.random() < 0.8 else "")
    raw = "".join(parts).encode()
    if draw.random() < 0.3:  # broken
        at = draw.randrange(len(raw))
        raw = raw[:at] + bytes(draw.randint(1, 255) for _ in range(draw.randint(1, 6))) + raw[at + draw.randint(0, 3):]
    return raw.replace(b"\0", b"")


def texts_of(size, draw):
    sources = [t.encode() for t in repository()]
    texts = [b"", b" ", b"a", b"\n", b" " * 20000 + b"x", b"ab" * 5000, "é漢".encode() * 3000, b"\xff\xfe", b"'"]
    count = sum(map(len, texts))
    while count < size:
        if draw.random() < 0.5:
            source = draw.choice(sources)
            at = draw.randrange(len(source))
            text = source[at:at + draw.randint(1, 6000)]
        else:
            text = generated(draw)
        texts.append(text)
        count += len(text)
    return texts


def byte_level_bpe(training, pre, specials=("<|endoftext|>",), **parts):
    tokenizer = Tokenizer(models.BPE(**parts))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=3000, show_progress=False, special_tokens=list(specials),
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(training, trainer)
    return tokenizer


def split(expression):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def template(single, pair, tokenizer, tokens):
    return processors.TemplateProcessing(single=single, pair=pair,
                                         special_tokens=[(t, tokenizer.token_to_id(t)) for t in tokens])


def gpt2(training):
    return byte_level_bpe(training, pre_tokenizers.ByteLevel(add_prefix_space=False))


def opt(training):
    made = byte_level_bpe(training, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<s>", "<pad>", "</s>", "<unk>"])
    made.post_processor = template("</s> $A", "</s> $A </s> $B", made, ["</s>"])
    return made


def roberta(training):
    made = byte_level_bpe(training, pre_tokenizers.ByteLevel(add_prefix_space=True), ["<s>", "</s>", "<mask>"])
    made.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return made


def llama3(training):
    made = byte_level_bpe(training, split(LLAMA3), ["<|begin_of_text|>", "<|endoftext|>"], ignore_merges=True)
    made.post_processor = processors.Sequence([
        processors.ByteLevel(), template("<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", made,
                                         ["<|begin_of_text|>"])])
    return made


def qwen2(training):
    made = byte_level_bpe(training, split(QWEN2))
    made.normalizer = normalizers.NFC()
    return made


def bloom(training):
    return byte_level_bpe(training, split(BLOOM), ["<unk>", "<s>", "</s>", "<pad>"])


def o200k(training):
    return byte_level_bpe(training, split(O200K))


def whisper(training):
    specials = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
    made = byte_level_bpe(training, pre_tokenizers.ByteLevel(add_prefix_space=False), specials)
    made.post_processor = template("<|startoftranscript|> <|notimestamps|> $A <|endoftext|>",
                                   "<|startoftranscript|> <|notimestamps|> $A $B <|endoftext|>", made, specials)
    return made


def with_byte_fallback(training, normalizer, pre, decoder):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    of_bytes = [f"<0x{b:02X}>" for b in range(256)]
    tokenizer.train_from_iterator(training, trainers.BpeTrainer(
        vocab_size=3000, show_progress=False, limit_alphabet=300, special_tokens=["<unk>", "<s>", "</s>"] + of_bytes))
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = described["added_tokens"][:3]
    described["model"]["byte_fallback"] = True
    described["pre_tokenizer"] = None
    made = Tokenizer.from_str(json.dumps(described))
    if pre:
        made.pre_tokenizer = pre
    made.decoder = decoder
    made.post_processor = template("<s> $A", "<s> $A <s>:1 $B:1", made, ["<s>"])
    return made


def llama2(training):
    return with_byte_fallback(
        training, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))


def mistral(training):
    return with_byte_fallback(
        training, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        decoders.Sequence([decoders.Metaspace(prepend_scheme="first", split=False), decoders.ByteFallback(), decoders.Fuse()]))


def t5(training):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(training[:150], trainers.UnigramTrainer(
        vocab_size=4000, show_progress=False, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>"))
    tokenizer.post_processor = template("$A </s>", "$A </s> $B </s>", tokenizer, ["</s>"])
    return tokenizer


def bert(training):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(training, trainers.WordPieceTrainer(
        vocab_size=3000, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.post_processor = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", tokenizer, ["[CLS]", "[SEP]"])
    return tokenizer


class SentencePiece:
    """A model of SentencePiece. As in transformers, special tokens in a text are found first."""

    def __init__(self, training, name, before=(), **options):
        file = io.BytesIO()
        sentences = [line for text in training for line in text.split("\n") if 0 < len(line) < 1000]
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=file, vocab_size=3000,
                                                 minloglevel=2, num_threads=1, **options)
        self.bytes, self.name, self.before = file.getvalue(), name, list(before)
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=self.bytes)

    def save(self, path):
        folder = os.path.dirname(path)
        with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
            file.write(self.bytes)
        if self.name:
            with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
                json.dump({"tokenizer_class": self.name}, file)

    def encode(self, text):
        self.ids = list(self.before)
        for part in re.split("(<unk>|<s>|</s>)", text):
            special = part in ("<unk>", "<s>", "</s>")
            self.ids += [self.processor.piece_to_id(part)] if special else self.processor.encode(part)
        return self

    def decode(self, ids):
        return self.processor.decode([id for id in ids if 3 <= id < self.processor.vocab_size()])


def model_of_llama(training):
    return SentencePiece(training, "LlamaTokenizer", [1], model_type="bpe", byte_fallback=True, character_coverage=0.99,
                         normalization_rule_name="identity", remove_extra_whitespaces=False)


def model_of_chatglm(training):
    return SentencePiece(training, "ChatGLMTokenizer", [3001, 3003], model_type="bpe", byte_fallback=True,
                         character_coverage=0.99)


def model_unigram(training):
    return SentencePiece(training[:150], None, model_type="unigram", character_coverage=0.995)


def model_unigram_bytes(training):
    return SentencePiece(training[:150], None, model_type="unigram", byte_fallback=True, character_coverage=0.98)


KINDS = [model_of_llama, model_of_chatglm, model_unigram, model_unigram_bytes, gpt2, opt, roberta, llama3, qwen2, bloom, o200k,
         whisper, llama2, mistral, t5, bert]


def main():
    folder, size, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    draw = random.Random(seed)
    texts = texts_of(size, draw)
    training = [t.decode("utf-8", "replace") for t in texts_of(400_000, draw)[9:]]
    with open(os.path.join(folder, "texts.bin"), "wb") as file:
        file.write(b"".join(text + b"\0" for text in texts))
    texts = [text.decode("utf-8", "replace") for text in texts]
    for kind in KINDS:
        tokenizer = kind(training)
        own = os.path.join(folder, kind.__name__)
        os.makedirs(own, exist_ok=True)
        tokenizer.save(os.path.join(own, "tokenizer.json"))
        begin = time.perf_counter()
        encoded = [tokenizer.encode(text).ids for text in texts]
        seconds = time.perf_counter() - begin
        ids = array.array("I")
        for one in encoded:
            ids.append(len(one))
            ids.extend(one)
        with open(os.path.join(own, "ids.bin"), "wb") as file:
            ids.tofile(file)
        with open(os.path.join(own, "decoded.bin"), "wb") as file:
            file.write(b"".join(tokenizer.decode(one).replace("\0", "").encode() + b"\0" for one in encoded))
        print(f"{kind.__name__}: the other {size / seconds / 1e6:.2f} MB/s", flush=True)


main()
