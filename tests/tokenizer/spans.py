"""Makes small tokenizers, and where transformers' fast tokenizers find the tokens of a text.

  spans.py FOLDER    writes for each kind a folder with tokenizer.json and spans.json: a list of [text, [[id, begin, end], ...]] with
                     bytes as positions, without white space around the text of a token
"""
import json
import os
import sys
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

SENTENCES = [
    "In 1815, Napoléon Bonaparte's army was beaten at Waterloo (Belgium) by 68,000 soldiers.",
    "Die Größe der Stadt Köln: über 1.085.664 Einwohner, davon 50 % Männer; Straße und Fußgänger.",
    "Le théâtre où l'Étranger a été joué s'appelle « Les Célestins » — déjà connu en 1877.",
    "Москва — столица России, город федерального значения. Ёлки и йод.",
    "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας. ΟΔΟΣ Αθηνάς.",
    "北京是中华人民共和国的首都，位于华北平原的北部。GPT的分词器。",
    "東京は日本の首都です。カタカナとひらがな、ﾊﾝｶｸ。",
    "대한민국의 수도는 서울이다. 한국어 문장.",
    "القاهرة هي عاصمة مصر، وأكبر مدنها.",
    "दिल्ली भारत की राजधानी है। हिन्दी में लिखा है।",
    "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย",
    "  Two  spaces,\ttabs\nand\n\nline breaks \r\n at the end. ",
    "I think 🙂 that 👩‍👩‍👧 emoji are 100% “fine”… don't you? U.S.A. e-mail: a.b@c.org ½ ﬁne №5 ™",
    "İstanbul, naïve façade, ŁÓDŹ, Ångström, crème brûlée, ǅ, ß, ﬃ",
    "unknown ☃the the the ☃ ❄❅ x☃y the end, the ☃. The End",
    "a", " ", "", "☃", "the",
]


def trainable():
    return SENTENCES[:5] + SENTENCES[11:14] + ["the end of the text, and this is the end."] * 3


def word_piece(lower):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    # Of the other sentences only some characters are known.
    tokenizer.train_from_iterator([s.replace("☃", "").replace("❄", "") for s in trainable() + SENTENCES[5:11:2]],
                                  trainers.WordPieceTrainer(vocab_size=400, show_progress=False,
                                                            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    return tokenizer


def uncased():
    return word_piece(True)


def cased():
    return word_piece(False)


def byte_level(prefix):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(trainable(), trainers.BpeTrainer(
        vocab_size=500, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def gpt2():
    return byte_level(False)


def roberta():
    return byte_level(True)


def llama3():
    tokenizer = byte_level(False)
    expression = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                  r"\s+(?!\S)|\s+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(expression), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def mistral():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(trainable(), trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=["<unk>"] + [f"<0x{b:02X}>" for b in range(256)]))
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = described["added_tokens"][:1]
    described["model"]["byte_fallback"] = True
    described["pre_tokenizer"] = None
    made = Tokenizer.from_str(json.dumps(described))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    made.decoder = decoders.Sequence([decoders.Metaspace(prepend_scheme="first", split=False), decoders.ByteFallback(),
                                      decoders.Fuse()])
    return made


def positions(tokenizer, text):
    """Marks that a normalizer removed belong to the character before them, which transformers does not count."""
    encoded = PreTrainedTokenizerFast(tokenizer_object=tokenizer)(text, add_special_tokens=False, return_offsets_mapping=True)
    result = []
    begins = {begin for begin, _ in encoded["offset_mapping"]}
    for token, (begin, end) in zip(encoded["input_ids"], encoded["offset_mapping"]):
        while end < len(text) and end not in begins and unicodedata.category(text[end]).startswith("M"):
            end += 1
        part = text[begin:end]
        if part.strip():
            begin += len(part) - len(part.lstrip())
            end -= len(part) - len(part.rstrip())
        result.append([token, len(text[:begin].encode()), len(text[:end].encode())])
    return result


def main():
    for kind in (uncased, cased, gpt2, roberta, llama3, mistral):
        own = os.path.join(sys.argv[1], kind.__name__)
        os.makedirs(own)
        tokenizer = kind()
        tokenizer.save(os.path.join(own, "tokenizer.json"))
        with open(os.path.join(own, "spans.json"), "w", encoding="utf-8") as file:
            json.dump([[text, positions(tokenizer, text)] for text in SENTENCES], file)


main()
