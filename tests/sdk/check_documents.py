#!/usr/bin/env python3
"""What the documents (*.md) name exists: targets of links, their anchors, paths of this tree, headers, flags and options.

  check_documents.py ROOT [--weft WEFT]  every offence with its file and line; exit code 1 if there is one. WEFT is the
                                         command, whose flags and whose plugins' options the examples are compared with
  check_documents.py --prove             each check finds an offence that is planted for it
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

TOP = "cmake core kernels packaging plugins policies samples sdk tests".split()
HEADERS = ("sdk/include", "sdk/kit/include",
           *(f"core/{library}/include" for library in "plans tokenizer runtime data nn train api".split()))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w./$-])((?:%s)/[\w./*-]*[\w*])" % "|".join(TOP))
HEADER = re.compile(r"(?<![\w./])weft/[\w/]+\.(?:hpp|h)\b")
COMMAND = re.compile(r"^ {4}(?:\S+=\S* )*(?:\S*/)?weft ([a-z]+)(.*)$")


def documents(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in ("build", "__pycache__") and not f.startswith(".")]
        for name in names:
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root)


def lines_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().split("\n")


def anchors(lines):
    """The anchors that GitHub makes of the headings."""
    found, fenced = set(), False
    for line in lines:
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match(r"#+ +(.*)", line)
        if heading:
            text = re.sub(r"[^\w\- ]", "", heading[1].strip().lower())
            found.add(text.replace(" ", "-"))
    return found


def exists(root, path):
    if "*" in path:
        path = path[:path.index("*")].rpartition("/")[0]
    return os.path.exists(os.path.join(root, path))


def check_links(root, path, line):
    for target in LINK.findall(line):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(os.path.join(root, full)):
            yield f"the link leads to {full}, which does not exist"
        elif anchor and full.endswith(".md") and anchor not in anchors(lines_of(root, full)):
            yield f"{full} has no heading #{anchor}"


def check_paths(root, path, line):
    text = LINK.sub("", line)
    for named in PATH.findall(text):
        if not exists(root, named):
            yield f"{named} does not exist"
    for header in HEADER.findall(text):
        if not any(os.path.exists(os.path.join(root, folder, header)) for folder in HEADERS):
            yield f"there is no header {header}"


class Command:
    """The flags of the verbs and the options of the plugins, as the command prints them."""

    def __init__(self, weft):
        self.weft, self.texts = weft, {}

    def ask(self, *words):
        if words not in self.texts:
            done = subprocess.run([self.weft, *words], capture_output=True, text=True)
            self.texts[words] = done.stdout if done.returncode == 0 else ""
        return self.texts[words]

    def check(self, verb, rest):
        help_text = self.ask(verb, "--help-all") or self.ask(verb, "--help")
        if not help_text:
            yield f"weft has no verb {verb}"
            return
        words = shlex.split(rest.rstrip("\\"), comments=True)
        if verb == "run":  # what follows the program is the program's own
            words = words[:2]
        elif words and re.fullmatch("[a-z]+", words[0]):  # a verb with verbs of its own
            help_text += self.ask(verb, words[0], "--help")
        for word in words:
            flag = re.match(r"(--?[a-z][\w-]*)", word)
            if flag and not re.search(r"(^|[\s,])%s\b" % re.escape(flag[1]), help_text, re.MULTILINE):
                yield f"weft {verb} has no flag {flag[1]}"
        strategy = words[words.index("--strategy") + 1] if "--strategy" in words[:-1] else ""
        shown = self.ask("plugins", "show", strategy) if strategy not in ("", "NAME", "none") else ""
        for option in re.findall(r"-o (\w+)=", rest):
            if shown and not re.search(r"^ +%s " % option, shown, re.MULTILINE):
                yield f"{strategy} has no option {option}"


def joined(lines):
    """Lines with their numbers; one that ends in a backslash goes on in the next."""
    begin, text = 0, ""
    for number, line in enumerate(lines, 1):
        begin = begin if text else number
        text += line.strip() if text else line
        if text.endswith("\\"):
            text = text[:-1]
            continue
        yield begin, text
        text = ""


def offences(root, weft):
    command = Command(weft) if weft else None
    for path in sorted(documents(root)):
        for number, line in enumerate(lines_of(root, path), 1):
            for text in (*check_links(root, path, line), *check_paths(root, path, line)):
                yield f"{path}:{number}: {text}"
        for number, line in joined(lines_of(root, path)) if command else ():
            found = COMMAND.match(line)
            for text in command.check(found[1], found[2]) if found else ():
                yield f"{path}:{number}: {text}"


PLANTED = {
    "[a](no.md)": "no.md, which does not exist",
    "[a](b.md#no-heading)": "b.md has no heading #no-heading",
    "`core/no/such.cpp`": "core/no/such.cpp does not exist",
    "run packaging/nothing": "packaging/nothing does not exist",
    "`weft/no_header.hpp`": "no header weft/no_header.hpp",
    "    weft fly": "no verb fly",
    "    A=1 bin/weft train --modle x": "no flag --modle",
    "    weft train --strategy s -o wrong=1": "s has no option wrong",
    "    weft train \\\n      --wrong": "no flag --wrong",
    "    weft plugins list --shallow": "no flag --shallow",
}
SOUND = ("# A: b `c`\n[a](#a-b-c) [b](b.md#b) [c](https://x/y.md) core/base core/*/x.cpp weft/h.hpp\n"
         "    weft train --strategy s -o right=1 -n 2\n    weft run -n 2 program --own\n"
         "    weft plugins list --deep\n")
FAKE = ("#!/bin/sh\ncase \"$*\" in 'train --help') echo '  -n,--ranks  --strategy -o --model';; "
        "'run --help') echo '  -n';; 'plugins --help') echo '  list';; 'plugins list --help') echo '  --deep';; 'plugins show s') echo '    right  int';; *) exit 2;; esac\n")


def prove():
    with tempfile.TemporaryDirectory() as root:
        for folder in ("core/base", "core/api/include/weft", "packaging"):
            os.makedirs(os.path.join(root, folder))
        texts = {"b.md": "# B\n", "core/api/include/weft/h.hpp": "", "weft.sh": FAKE}
        for name, text in texts.items():
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        weft = os.path.join(root, "weft.sh")
        os.chmod(weft, 0o755)

        def found(text):
            with open(os.path.join(root, "a.md"), "w", encoding="utf-8") as file:
                file.write(text + "\n")
            return "\n".join(offences(root, weft))

        failures = [f"{planted!r} was not found" for planted, says in PLANTED.items() if says not in found(planted)]
        if found(SOUND):
            failures.append("found in a sound document: " + found(SOUND))
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?")
    parser.add_argument("--weft")
    parser.add_argument("--prove", action="store_true")
    arguments = parser.parse_args()
    if not arguments.prove and not arguments.root:
        parser.error("no ROOT was given")
    found = prove() if arguments.prove else list(offences(arguments.root, arguments.weft))
    print("\n".join(found) or "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
