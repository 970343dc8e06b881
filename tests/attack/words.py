"""Kind "words": flags, options and arguments with values that nobody meant. Each is refused by its name, or works."""
import json
import os
import re
import shutil

VERBS = ["train", "train", "train", "evaluate", "forward", "generate", "plan", "convert", "run", "plugins list",
         "plugins show", "plugins doctor", "plugins validate", "plugins digest", "check"]
INTEGERS = ["abc", "1.5", "", "nan", "99999999999999999999", "-99999999999999999999", "1e3", "0", "-1", "1 2", "+",
            "\u0663", "9223372036854775807", "-9223372036854775808", "2147483648", "7"]
REALS = ["abc", "", "nan", "inf", "-inf", "1e400", "-1", "0", "1,5", "0x", "1e-400", "1e308", "-nan", "0.1"]
TEXTS = ["", " ", "none", "NONE", "a" * 300, "a" * 5000, "\u00e9\U0001f642", "\x1b[31m", "a\nb", "'", "%s%n", "{}", "[1,",
         "--", "no/such/place", "/dev/null", "/dev/full", "/proc/self/mem", "config.json", "data.txt", "0", "nan", "a=b",
         "=", "a="]
ENDLESS = {"--steps", "--epochs", "--max-new-tokens"}  # a large number works, for as long as it says


def flags_of(case, verb):
    """{flag: type} as `weft VERB --help` says: INT, FLOAT, TEXT or "" for flags without a value."""
    all_flags = "--help" if verb.split()[0] in ("run", "plugins", "check") else "--help-all"
    help_text = case.bench.once("help " + verb, lambda _: case.bench.run(*verb.split(), all_flags).output)
    found = {}
    for line in help_text.splitlines():
        match = re.match(r"\s+(?:-\w,\s*)?(--[a-z][a-z-]*|-\w)\b", line)
        if match and match[1] not in ("--help", "--help-all"):
            kind = re.search(r"\b(INT|UINT|FLOAT|TEXT)\b", line[:60])
            found[match[1]] = kind[1] if kind else ""
    return found


def shown(case, plugin):
    text = case.bench.once("show " + plugin, lambda _: case.bench.run("plugins", "show", plugin, "--json").output)
    return json.loads(text)[0]


def options_of(case, strategy):
    return shown(case, strategy)["options"]


def usual(case, verb):
    """Arguments with which the verb works."""
    bench, model = case.bench, case.bench.checkpoint()
    first = verb.split()[0]
    return {
        "train": lambda: bench.train("--steps", "2", "--strategy", "none")[1:],
        "evaluate": lambda: ["--model", model, "--data", bench.data, "--sequence-length", "16"],
        "forward": lambda: ["--model", model, "--inputs", bench.inputs, "--output", "out.safetensors"],
        "generate": lambda: ["--model", model, "--prompt", "the ", "--max-new-tokens", "2"],
        "plan": lambda: ["--model", bench.config, "--world-size", "2"],
        "convert": lambda: [model, "converted"],
        "run": lambda: ["-n", "1", "true"],
        "plugins": lambda: {"show": ["torch_ddp"], "validate": [shown(case, "torch_ddp")["folder"]],
                            "digest": [bench.data]}.get(verb.split()[-1], []),
        "check": lambda: [],
    }[first]()


def value_for(rng, flag, kind):
    if kind in ("INT", "UINT"):
        value = rng.choice(INTEGERS)
        if flag in ENDLESS or flag in ("-n", "--nproc-per-node"):
            value = rng.choice([v for v in INTEGERS if not re.fullmatch(r"-?[0-9]+", v) or abs(int(v)) in (0, 1)
                                or int(v) < 0])
        return value
    return rng.choice(REALS if kind == "FLOAT" else TEXTS)


def must_be_refused(kind, value):
    if kind in ("INT", "UINT"):
        return not re.fullmatch(r"[+-]?[0-9]+", value) or abs(int(value)) >= 2**63 + (value[0] == "-")
    if kind == "FLOAT":
        try:
            return float(value) != float(value)
        except ValueError:
            return True
    return False


def named(flag, value, error):
    """The message names the flag, its key, or the value, its control characters escaped: one letter in quotes, or as
    a path before a colon."""
    key = flag.lstrip("-").replace("-", "_")
    value = re.sub("[\0-\x1f\x7f]", lambda match: f"\\x{ord(match[0]):02x}", value)
    shown = [flag[:20], key[:20], key.replace("_", " ")] + (
        [value[:20]] if len(value) > 1 else [f"\"{value}\"", f" {value}: "])
    return any(text in error for text in shown)


def prove():
    """A message is known to name a flag, its key or its value."""
    right = [named("--adapter", " ", "weft: evaluate: cannot open  : No such file or directory"),
             named("--lr", "fast", "weft: train: --lr: wrong"), named("--data", "0", "weft: train: \"0\" is no file"),
             named("--model", "a\nb", "weft: plan: cannot open a\\x0ab: No such file or directory"),
             not named("--model", "a\nb", "weft: plan: cannot open a\n      b: No such file or directory"),
             not named("--data", "0", "weft: train: no file, 0 samples"), not named("--output", "", "weft: train: wrong")]
    print(f"{sum(right)} of {len(right)} messages are understood")
    return all(right)


def with_a_flag(case, verb):
    rng = case.random
    flags = flags_of(case, verb)
    words = usual(case, verb)
    flag = rng.choice(sorted(flags) + ["--no-such-flag", "--" + "x" * 3000])
    kind = flags.get(flag, "TEXT")
    if not kind:
        return words + rng.choice([[flag], [flag, flag], [flag + "=true"]]), None, False
    value = value_for(rng, flag, kind)
    if flag in words:  # the last one of two would count
        at = words.index(flag)
        words = words[:at] + words[at + 2:]
    given = rng.choice([[flag, value], [flag + "=" + value]]) if flag.startswith("--") else [flag, value]
    if rng.random() < 0.05:
        given = [flag]
    wrong = flag not in flags or (len(given) < 2 and "=" not in given[0]) or must_be_refused(kind, value)
    # What follows the program of `weft run` is the program's.
    return given + words if verb == "run" else words + given, (flag, value), wrong


def with_an_option(case):
    rng = case.random
    strategy = rng.choice(["torch_ddp", "torch_fsdp", "low_level_zero", "gemini", "hybrid_parallel"])
    option = rng.choice(options_of(case, strategy))
    kind = {"int": "INT", "float": "FLOAT"}.get(option["type"], "TEXT")
    value = value_for(rng, "-o", kind)
    if option["name"].endswith("size") and re.fullmatch(r"[0-9]+", value) and int(value) > 2:
        value = "3"
    words = case.bench.train("--steps", "1", "--strategy", strategy, "-o", f"{option['name']}={value}")[1:]
    wrong = must_be_refused(kind, value) or (option["type"] == "bool" and value not in ("0", "1", "true", "false"))
    return words, (option["name"], value), wrong


def with_wrong_words(case, verb):
    rng = case.random
    words = [verb, *usual(case, verb)]
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(words) + 1)
        what = rng.random()
        if what < 0.4 and at < len(words):
            words.pop(at)
        elif what < 0.7:
            words.insert(at, rng.choice(TEXTS))
        elif at < len(words) and words[at]:
            letter = rng.randrange(len(words[at]))
            words[at] = words[at][:letter] + rng.choice("xX-0 ") + words[at][letter + 1:]
    return [word for word in words if "\0" not in word]


def run(case):
    rng = case.random
    verb = rng.choice(VERBS)
    for name in ("config.json", "data.txt"):  # copies: a case may write there
        shutil.copyfile(case.bench.path(name), case.path(name))
    given = None
    if rng.random() < 0.15:
        words, wrong = with_wrong_words(case, verb), False
    elif verb == "train" and rng.random() < 0.4:
        words, given, wrong = with_an_option(case)
        words = ["train", *words]
    else:
        words, given, wrong = with_a_flag(case, verb)
        words = [*verb.split(), *words]
    case.what = " ".join(word[:40] for word in words)[-90:]
    outcome = case.weft(words, codes=(0, 1, 2, 126, 127) if verb == "run" else None)  # 127: no such program
    if wrong:
        case.expect(outcome.code != 0, f"a wrong value is accepted: {given[0][:30]} {given[1][:30]!r}")
    if given and outcome.code in (1, 2):
        # A check of validate that fails is told in its report.
        told = outcome.error + (outcome.output if verb == "plugins validate" else "")
        case.expect(named(*given, told), f"the error does not name {given[0][:30]}")
    case.expect_nothing_staged()
