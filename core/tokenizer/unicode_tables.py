#!/usr/bin/env python3
"""Writes the tables of the Unicode character database that the tokenizers use: unicode_data.cpp and normal_data.cpp.

  unicode_tables.py dump FILE           what `unicodedata2` (or else `unicodedata`) and `regex` of this Python know
  unicode_tables.py write 9 16 17 DIR   the sources, out of the dumps of Unicode 9.0, 16.0 and 17.0

The dumps come from Python 3.6, whose unicodedata is that of 9.0; from unicodedata2 16.0.0; and from unicodedata2
17.0.0 with regex 2025.10 or later. The same dumps give the same files.

Hugging Face's tokenizers 0.23 mixes versions, so the tables do as well:
  16.0  patterns (Oniguruma 6.9.10, the crate regex): general categories, case folding
  17.0  Rust's char: lower case, numbers; the crate unicode-segmentation: grapheme clusters
   9.0  the crate unicode-normalization-alignments: decompositions, combining classes, marks
   8.0  the crate unicode_categories: nonspacing marks, punctuation and controls of the normalizer and the
        pre-tokenizer of WordPiece. It is 9.0 without NEW_IN_9.
"""
import json
import os
import sys

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
BREAKS = "Other CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT Pictographic".split()
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
NEW_IN_9 = ((0x8D4, 0x8E2), (0x1885, 0x1886), (0x1DFB, 0x1DFB), (0x2E43, 0x2E44), (0xA8C5, 0xA8C5),
            (0x1123E, 0x1123E), (0x11400, 0x1145F), (0x11660, 0x1166C), (0x11C00, 0x11CBF), (0x1E000, 0x1E02F),
            (0x1E900, 0x1E95F))
POINTS = range(0x110000)


def dump(path):
    import unicodedata as known
    try:
        import unicodedata2 as database
    except ImportError:
        database = known

    def lower(text):
        if known.category(text) != "Cn" or database.category(text) != "Lu":
            return text.lower()
        # A capital letter that is newer than this Python: names pair it with its small letter.
        try:
            return database.lookup(database.name(text).replace("CAPITAL", "SMALL"))
        except KeyError:
            return text

    def fold(text):  # full case folding
        folded = text.casefold()
        return lower(text) if folded == text and known.category(text) == "Cn" else folded

    texts = [chr(c) for c in POINTS]
    facts = {"version": database.unidata_version, "category": [database.category(t) for t in texts],
             "combining": [database.combining(t) for t in texts],
             "decomposition": [database.decomposition(t) for t in texts],
             "excluded": [c for c, t in enumerate(texts) if database.normalize("NFC", t) != t],
             "lower": [lower(t) for t in texts], "fold": [fold(t) for t in texts]}
    try:
        import regex
        facts["break"] = [0] * len(texts)
        for kind in BREAKS[1:]:
            name = "Extended_Pictographic" if kind == "Pictographic" else "GCB=" + kind
            member = regex.compile(r"\p{%s}" % name)
            for c in POINTS:
                if not facts["break"][c] and member.match(texts[c]):
                    facts["break"][c] = BREAKS.index(kind)
    except ImportError:
        pass
    with open(path, "w") as file:
        json.dump(facts, file)


def number(value):
    """A number as digits of 5 bits, the lowest first; a digit that is not the last has bit 5."""
    text = ""
    while value >= 32:
        text += DIGITS[value % 32 + 32]
        value //= 32
    return text + DIGITS[value]


def signed(value):
    return number(value * 2 if value >= 0 else -value * 2 - 1)


def runs(values):
    """(length, value) of each run of equal values."""
    text, begin = "", 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[begin]:
            text += number(i - begin) + number(values[begin])
            begin = i
    return text


def mapping(pairs):
    """(distance from the previous point, signed distance to the target) of each pair."""
    text, previous = "", 0
    for point, target in pairs:
        text += number(point - previous) + signed(target - point)
        previous = point
    return text


def decompositions(facts, compatibility):
    """(distance from the previous point, 2 * size + excluded from composition, the points as signed distances)."""
    text, previous, last = "", 0, 0
    for point, entry in enumerate(facts["decomposition"]):
        if not entry or entry.startswith("<") != compatibility:
            continue
        parts = [int(p, 16) for p in entry.split() if not p.startswith("<")]
        text += number(point - previous) + number(2 * len(parts) + (point in facts["excluded"]))
        previous = point
        for part in parts:
            text += signed(part - last)
            last = part
    return text


def smallest_of_case(facts):
    classes = {}
    for point in POINTS:
        classes.setdefault(facts["fold"][point], []).append(point)
    return sorted((p, members[0]) for members in classes.values() for p in members[1:])


def long_folds(facts):
    """(distance from the previous point, size, the points as signed distances) of each folding of several points."""
    text, previous, last = "", 0, 0
    for point, folded in enumerate(facts["fold"]):
        if len(folded) > 1:
            text += number(point - previous) + number(len(folded))
            previous = point
            for part in map(ord, folded):
                text += signed(part - last)
                last = part
    return text


def write_source(path, comment, tables):
    lines = ["// " + comment, "// Written by unicode_tables.py; change that instead.",
             '#include "tokenizer/unicode_data.hpp"', "", "// clang-format off", "namespace weft::tokenizer::data {"]
    for name, text in tables:
        lines += ["", f"const std::string_view {name} ="]
        parts = [text[i:i + 106] for i in range(0, len(text), 106)]
        lines += [f'"{part}"' for part in parts[:-1]] + [f'"{parts[-1]}";']
    with open(path, "w") as file:
        file.write("\n".join(lines + ["", "}  // namespace weft::tokenizer::data", ""]))


def write(paths, folder):
    old, patterns, new = [json.load(open(path)) for path in paths]
    for facts, version in ((old, "9.0.0"), (patterns, "16.0.0"), (new, "17.0.0")):
        if facts["version"] != version or version == "17.0.0" and "break" not in facts:
            sys.exit(f"the dump is of Unicode {facts['version']}, must be of {version}; 17.0.0 needs the module regex")
    old["excluded"] = set(old["excluded"])
    category = old["category"]
    first = list(category)
    for begin, end in NEW_IN_9:
        first[begin:end + 1] = ["Cn"] * (end + 1 - begin)

    def members(test):
        return runs([int(test(c)) for c in POINTS])

    two = [c for c in POINTS if len(new["lower"][c]) > 1]
    assert two == [0x130], two  # unicode.cpp knows this one
    write_source(os.path.join(folder, "unicode_data.cpp"), "Properties of Unicode 16.0, 17.0, 9.0 and 8.0.", [
        ("kCategories", runs([CATEGORIES.index(c) for c in patterns["category"]])),
        ("kCaseClasses", mapping(smallest_of_case(patterns))),
        ("kLongFolds", long_folds(patterns)),
        ("kLowerCase", mapping((c, ord(t)) for c, t in enumerate(new["lower"]) if len(t) == 1 and ord(t) != c)),
        ("kNumbers", members(lambda c: new["category"][c][0] == "N")),
        ("kBreaks", runs(new["break"])),
        ("kMarks", members(lambda c: category[c][0] == "M")),
        ("kNonspacingMarks", members(lambda c: first[c] == "Mn")),
        ("kPunctuation", members(lambda c: first[c][0] == "P")),
        ("kControls", members(lambda c: first[c] in ("Cc", "Cf", "Co"))),
    ])
    write_source(os.path.join(folder, "normal_data.cpp"), "Decompositions of Unicode 9.0.", [
        ("kCombiningClasses", runs(old["combining"])),
        ("kCanonical", decompositions(old, False)),
        ("kCompatibility", decompositions(old, True)),
    ])


if __name__ == "__main__":
    if sys.argv[1:2] == ["dump"] and len(sys.argv) == 3:
        dump(sys.argv[2])
    elif sys.argv[1:2] == ["write"] and len(sys.argv) == 6:
        write(sys.argv[2:5], sys.argv[5])
    else:
        sys.exit(__doc__)
