"""Generates patterns and texts, and what Hugging Face's tokenizers (Oniguruma) cut the texts into.

  patterns.py FILE COUNT SEED    writes FILE: for each case the pattern, the text and the pieces with U+001F between
                                 them, a NUL behind each of the three
"""
import random
import sys

from tokenizers import Regex, pre_tokenizers

# What folds to several characters, what these are, and letters with more than two cases.
LETTERS = ["s", "S", "ſ", "ß", "ẞ", "f", "F", "i", "I", "l", "t", "ﬀ", "ﬁ", "ﬃ", "ﬅ", "ﬆ", "İ", "i̇", "k", "\u212a", "x", "1", " ",
           "ι", "\u0345", "α", "ᾳ", "ᾼ", "ᾶ", "ᾷ", "ΐ", "\u0390", "ΐ", "ŉ", "ʼn", "եւ", "և", "Ꮳ", "ꭳ", "σ", "ς", "Σ"]
WORDS = ["ss", "SS", "ff", "fi", "ffi", "st", "ſt", "αι", "ᾶι", "sss", "ßs", "sß", "ffx", "ʼn", "ΐ"]
ESCAPES = [r"\x{73}", r"\x{df}", r"\u0073", r"\x73", r"\163", r"\0611", r"\8", r"\w", r"\W", r"\d", r"\s", r"\p{Lu}", r"\P{Lu}", r"\p{Ll}", "."]
REPEATS = ["", "", "", "", "", "", "+", "*", "?", "+?", "*?", "??", "++", "{2}", "{1}", "{1,2}", "{0,2}?"]


def bracket(draw, depth=0):
    members = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.random()
        if kind < 0.6:
            members.append(draw.choice([letter for letter in LETTERS if len(letter) == 1]))
        elif kind < 0.75:
            members.append(draw.choice(["a-z", "A-T", "ß-ÿ", "α-ω", "ﬀ-ﬆ", "s-t"]))
        elif kind < 0.9 or depth:
            members.append(draw.choice([r"\p{Lu}", r"\w", r"\s", r"\P{Ll}", r"\W", r"\S"]))
        else:
            members.append(bracket(draw, depth + 1))
    return "[" + draw.choice(["", "", "^"]) + "".join(members) + "]"


REFERENCES = {"number": [r"\1", r"\2", r"\3", r"\k<1>", r"\k'2'", r"\k<-1>", r"\k<-2>"], "name": [r"\k<x>", r"\k<y>", r"\k'x'"]}


def atom(draw, depth, references):
    """An item, and whether it may match nothing."""
    if references and draw.random() < 0.2:
        return draw.choice(REFERENCES[references]), True
    kind = draw.random()
    if kind < 0.35:
        return draw.choice(LETTERS), False
    if kind < 0.55:
        return draw.choice(WORDS), False
    if kind < 0.62:
        return draw.choice(ESCAPES), False
    if kind < 0.75:
        return bracket(draw), False
    if depth >= 3:
        return draw.choice("st"), False
    begin = draw.choice(["(?:", "(?:", "(", "(", "(", "(?i:", "(?-i:", "(?>", "(?=", "(?!", "(?i)", "(?-i)"])
    if begin == "(" and references == "name":
        begin = draw.choice(["(", "(?<x>", "(?<y>", "(?'x'"])
    text, empty = branches(draw, depth + 1, references)
    return begin + text + (")" if begin[-1] != ")" else ""), empty or begin in ("(?=", "(?!")


def branches(draw, depth, references):
    made, may_be_empty = [], False
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        sequence, all_empty = "", True
        for _ in range(draw.randint(1, 3)):
            item, empty = atom(draw, depth, references)
            # Without references, repetitions of nothing end in another way. With some, Oniguruma takes long for them.
            repeat = "" if item.startswith(("(?=", "(?!", "(?i)", "(?-i)")) else draw.choice(
                [r for r in REPEATS if r in ("", "?") or not empty or references == "number"])
            sequence += item + repeat
            all_empty = all_empty and (empty or repeat[:1] in ("*", "?") or repeat[:2] == "{0")
        made.append(sequence)
        may_be_empty = may_be_empty or all_empty
    return "|".join(made), may_be_empty


def case(draw):
    references = draw.choice(["", "number", "name"])
    pattern, _ = branches(draw, 0, references)
    while references and not any(reference in pattern for reference in REFERENCES[references]):
        pattern, _ = branches(draw, 0, references)
    if draw.random() < 0.8:
        pattern = "(?i:" + pattern + ")"
    some = [draw.choice(LETTERS + WORDS) for _ in range(draw.randint(1, 8))]
    return pattern, "".join(draw.choice(some) for _ in range(draw.randint(1, 10)))


def every_case():
    """Each letter that has cases, in a text and in a class, with all forms of it."""
    for letter in map(chr, range(0x80, 0x110000)):
        forms = {letter, letter.casefold(), letter.lower(), letter.upper(), letter.title()}
        if len(forms) == 1 or "\ud800" <= letter <= "\udfff":
            continue
        text = " ".join(sorted(forms | {form.swapcase() for form in forms}))
        for pattern in (letter, letter.casefold(), letter.upper(), "[" + letter + "]", "[^ " + letter + "]"):
            yield f"(?i:{pattern})", text


def cases(draw):
    yield from every_case()
    while True:
        yield case(draw)


def main():
    path, count, draw = sys.argv[1], int(sys.argv[2]), random.Random(int(sys.argv[3]))
    with open(path, "wb") as file:
        for pattern, text in cases(draw):
            try:
                cut = pre_tokenizers.Split(Regex(pattern), "isolated")
                pieces = [piece for piece, _ in cut.pre_tokenize_str(text)]
            except BaseException as error:  # refused, or a PanicException: Oniguruma needs too many tries
                if isinstance(error, KeyboardInterrupt):
                    raise
                continue
            file.write(b"".join(part.encode() + b"\0" for part in (pattern, text, "\x1f".join(pieces))))
            count -= 1
            if count == 0:
                break


main()
