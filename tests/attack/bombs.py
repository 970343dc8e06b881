"""Kind "bombs": a tokenizer.json or a chat template that would take for ever, fill the memory or exhaust the stack. It
works, or it is refused with a message, in little time and memory."""
import json
import os
import shutil

import mutate

SECONDS = 60.0  # a command takes one or two; several where the machine is busy
MEMORY = 6 << 30  # bytes of address space, of which the libraries of the engine take a part
LONGEST = 500_000  # letters of an expression, a template or a list of rules
LETTERS = "ab \u00e9"


def repeated(rng, text):
    return text * rng.choice([1, 10, 30, 300, 3000, 20000])


def expression(rng, depth=0):
    """A regular expression: small, or deep, or slow."""
    how = rng.random()
    if depth > 3 or how < 0.2:
        return rng.choice(["a", "b", ".", "\\s", "[ab]", "[^a]", "\\p{L}", "(?i:a)", "\u00e9", "^", "$", "\\b", "()"])
    if how < 0.3:
        opened = rng.choice(["(", "(?:", "(?=", "(?!", "(?>", "(?i:", "["])
        count = rng.choice([1, 5, 40, 5000])
        return opened * count + "a" + ("]" if opened == "[" else ")") * count
    if how < 0.5:
        times = rng.choice(["*", "+", "?", "*?", "+?", "++", "*+", "{2}", "{1,2}", "{1000}", "{0,1000}", "{,9}"])
        return f"({expression(rng, depth + 1)}){times * rng.choice([1, 1, 1, 2, 7, 100_000])}"
    if how < 0.7:
        few = rng.random() < 0.8
        return "|".join(expression(rng, depth + 1 if few else 4) for _ in range(3 if few else 200))
    return "".join(expression(rng, depth + 1) for _ in range(rng.choice([2, 3, 6]))) + rng.choice(["", "b", "$"])


def pattern(rng):
    return {"Regex": expression(rng)[:LONGEST]} if rng.random() < 0.7 else {"String": repeated(rng, rng.choice("ab "))}


def rule(rng, part):
    """A rule of a part, as tokenizer.json has it."""
    content = repeated(rng, rng.choice(["a", "aa", "\u00e9", " ", ""]))
    rules = {
        "normalizer": [{"type": "Replace", "pattern": pattern(rng), "content": content},
                       {"type": "Prepend", "prepend": content}, {"type": "NFKD"}, {"type": "ByteLevel"},
                       {"type": "Nmt"}, {"type": "BertNormalizer"}, {"type": "Strip"}],
        "pre_tokenizer": [{"type": "Split", "pattern": pattern(rng), "invert": rng.random() < 0.3,
                           "behavior": rng.choice(["Removed", "Isolated", "MergedWithNext", "Contiguous"])},
                          {"type": "ByteLevel"}, {"type": "Metaspace", "replacement": "\u2581"},
                          {"type": "Digits", "individual_digits": True}, {"type": "Whitespace"}],
        "decoder": [{"type": "Replace", "pattern": pattern(rng), "content": content}, {"type": "ByteLevel"},
                    {"type": "Fuse"}, {"type": "BPEDecoder", "suffix": repeated(rng, "a")},
                    {"type": "Strip", "content": "a", "start": 10**9, "stop": 10**9}],
    }
    return rng.choice(rules[part])


LISTS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}


def sequence(rng, part):
    count = rng.choice([1, 1, 2, 5, 40, 250, 10000])
    if count == 1:
        return rule(rng, part)
    some = [rule(rng, part) for _ in range(rng.choice([1, 2, 5]))]
    count = min(count, max(1, LONGEST // len(json.dumps(some)) * len(some)))
    return {"type": "Sequence", LISTS[part]: [some[i % len(some)] for i in range(count)]}


def model(rng):
    long = repeated(rng, "a") + "b"
    tokens = ["<unk>", "a", "b", " ", "aa", "ab", "\u00e9", long, repeated(rng, "a")]
    vocabulary = {token: at for at, token in enumerate(dict.fromkeys(tokens))}
    affixes = {"continuing_subword_prefix": rng.choice(["", "##", repeated(rng, "a")])}
    return rng.choice([
        {"type": "BPE", "vocab": vocabulary, "merges": ["a a", "a b"], "unk_token": "<unk>",
         "byte_fallback": rng.random() < 0.5, **(affixes if rng.random() < 0.3 else {})},
        {"type": "Unigram", "unk_id": 0, "vocab": [[token, -1.0 - at] for token, at in vocabulary.items()]},
        {"type": "WordPiece", "vocab": vocabulary, "unk_token": "<unk>", "max_input_chars_per_word": 10**9, **affixes},
        {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    ])


def bad_tokenizer(rng):
    file = {"model": model(rng), "added_tokens": []}
    for part in LISTS:
        if rng.random() < 0.5:
            file[part] = sequence(rng, part)
    for _ in range(rng.choice([0, 0, 1, 3])):
        content = rng.choice([" ", "a", "<s>", repeated(rng, "a") + "b", repeated(rng, "ab")])
        file["added_tokens"].append({"content": content, "special": True, "lstrip": rng.random() < 0.5,
                                     "rstrip": rng.random() < 0.5, "normalized": rng.random() < 0.5})
    if rng.random() < 0.3:
        one = {"Sequence": {"id": "A", "type_id": 0}}
        file["post_processor"] = {"type": "TemplateProcessing", "single": [one] * rng.choice([1, 3, 20000]),
                                  "pair": [], "special_tokens": {}}
    return file


def text(rng):
    """A line that patterns like (a*)*b are slow for, or that is long."""
    unit = rng.choice(["a", " ", "ab", "a ", "a<s>", "\u00e9", "".join(rng.choice(LETTERS) for _ in range(50))])
    return (unit * rng.choice([1, 20, 4000, 4000, 50000]))[:100_000] + rng.choice(["", "b", "c"])


def encode(case):
    rng = case.random
    folder = case.path("tokenizer")
    os.makedirs(folder)
    file = bad_tokenizer(rng)
    mutate.write(os.path.join(folder, "tokenizer.json"), json.dumps(file).encode())
    case.what = "tokenizer.json: " + ", ".join(
        f"{part} {json.dumps(file[part])[:60]}" for part in file if part != "added_tokens")
    verb = rng.choice(["encode", "encode", "decode"])
    line = text(rng) if verb == "encode" else json.dumps([rng.randrange(8) for _ in range(rng.choice([1, 4000]))])
    limited(case, ["tokenizer", verb, "--model", folder], line)


# Expressions by which templates grow: V is the value so far, I the number of the round.
GROWTHS = ["[V, V]", "[V]", "{'a': V}", "{V: 1}", "[V, I]", "V ~ V", "V ~ I", "[V]|list", "[V.index]", "[V.get]",
           "V|join(V)", "V|string", "V|tojson", "V|tojson(indent=1000)", "V|string|replace('a', V|string)",
           "[V]|map('map', 'list')|list", "V|string|indent(999)", "(V|string)*1000", "[V]*1000", "V|string|list",
           "V|unique|list", "V|sort", "V|list|reverse|list", "range(100000)|list", "V|string|upper",
           "(V|string).split('a')", "(V|string)[::-1]", "V == V", "V < V", "V in [V]", "V|map('string')|join('aaaa')",
           "namespace(a=V)", "dict(a=V)", "(V|string).rfind('ab')", "V|length", "f(V)", "V[1:]"]
CHAINS = ["+1", "|trim", "|string", ".a", "[0]", "()", " or 1", " and 1", " is odd", " if 1", "~'a'", "|list", "*2",
          " == 1", "[1:]", "|tojson", "|default(1)"]
BEGINS = ["1", "'a'", "[1]", "x", "-", "not ", "(", "["]
BLOCKS = ["if 1", "for i in [1]", "with a=1", "set a", "filter trim", "macro f(x)", "generation"]
VALUES = ["[1]", "'a'", "'ab' * 1000", "{'a': [1]}", "range(9)|list", "messages", "(('a' * 1000000) ~ 'b')",
          "(messages[0].content * 99)"]


def template(rng):
    how = rng.random()
    if how < 0.25:
        chain = "".join(rng.choice(CHAINS) for _ in range(rng.choice([1, 2])))
        chain *= rng.choice([3, 100, 400, 3000, 100_000])
        return "{{ " + rng.choice(BEGINS) * rng.choice([1, 1, 1, 3000]) + chain + " }}"
    if how < 0.35:
        block = rng.choice(BLOCKS)
        count = rng.choice([3, 30, 30000])
        return ("{% " + block + " %}") * count + "x" + ("{% end" + block.split()[0] + " %}") * count
    grown = rng.choice(GROWTHS).replace("V", "ns.v").replace("I", "i")
    also = rng.choice(GROWTHS).replace("V", "ns.v").replace("I", "i")
    value = rng.choice(VALUES)
    before = "{% macro f(x) %}{{ x }}" + rng.choice(["", "{{ f(x) }}"]) + "{% endmacro %}"
    rounds = rng.choice([5, 60, 1000, 100000])
    uses = rng.choice(["{% set ns.v = " + also + " %}", "{% if " + also + " %}a{% endif %}", "{{ " + also + " }}", "",
                       "{% for j in range(" + str(rounds) + ") %}{% set ns.v = " + also + " %}{% endfor %}",
                       "{% generation %}a{{ i }}{% endgeneration %}"])
    return (before + "{% set ns = namespace(v=" + value + ") %}{% for i in range(" + str(rounds) + ") %}"
            + rng.choice(["{% set ns.v = " + grown + " %}", ""]) + uses + "{% endfor %}"
            + rng.choice(["", "{{ ns.v }}", "{{ ns.v == ns.v }}"]))


def train(case):
    """`weft train` reads a conversation with the template."""
    rng, bench = case.random, case.bench
    folder = case.path("model")
    shutil.copytree(bench.once("tokenizer", lambda path: bench.run(
        "tokenizer", "train", "--data", bench.data, "--vocab-size", "270", "--output", path) and path), folder)
    config = json.loads(mutate.read(bench.config))
    mutate.write(os.path.join(folder, "config.json"), json.dumps({**config, "vocab_size": 300}).encode())
    made = template(rng)
    mutate.write(os.path.join(folder, "chat_template.jinja"),
                 (made + "{% for m in messages %}{{ m.content }}{% endfor %}").encode())
    case.what = f"chat template: {made[:90]}"
    turns = [{"role": ["user", "assistant"][at % 2], "content": text(rng)[:2000]}
             for at in range(rng.choice([2, 2, 20]))]
    data = case.path("chats.jsonl")
    mutate.write(data, (json.dumps({"messages": turns}) + "\n").encode() * 2)
    limited(case, bench.train("--model", folder, "--data", data, "--steps", "1", "--batch-size", "1", "--strategy",
                              "none"))


def limited(case, words, line=""):
    """Runs a command with a line of input and little memory."""
    given = case.path("input")
    mutate.write(given, line.encode() + b"\n")
    outcome = case.ends(case.start(words, stdin=given, memory=MEMORY), SECONDS)
    case.expect("out of memory" not in outcome.error, "it needs more memory than there is")


def run(case):
    (encode if case.random.random() < 0.5 else train)(case)
