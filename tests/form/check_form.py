#!/usr/bin/env python3
"""The form of sources and of commit messages that CONTRIBUTING.md asks for, as far as a program can tell.

  check_form.py ROOT     every offence with its file and line, or its commit; exit code 1 if there is one, 77 without clang-format
  check_form.py --prove  finds an offence of each kind that is planted for it

Sources: clang-format has nothing to change; at most 400 lines in a source, and 60 in a function of the product.
Commits after the one that brought this file, where there is a git history: "area: summary" in 72 columns, without a full stop, and a
body unless only documents (*.md) or tests change. Merges are not looked at.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = "core kernels plugins policies samples sdk tests".split()
SOURCES = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh")
COPIES = "sdk/abi/headers/"  # of released headers, which never change
LINES, FUNCTION, SUBJECT = 400, 60, 72
CONTROL = re.compile(r"(\} )?(else )?(if|for|while|switch|catch|do|else)\b|namespace\b|extern\b|(class|struct|union|enum)\b")
LAMBDA = re.compile(r"\[[^\]]*\] ?[({]|\{\{|= \{")
GATE = "tests/form/check_form.py"


def sources(root):
    for top in TOP:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = sorted(f for f in folders if f != "build" and not f.startswith("."))
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), root)
                if name.endswith(SOURCES) and not path.startswith(COPIES):
                    yield path


def indent(line):
    return len(line) - len(line.lstrip())


def long_functions(lines):
    """The first line and the length of each function of more than FUNCTION lines, in text that clang-format has laid out: the brace
    that ends it stands in the column in which its first line begins."""
    for opening, line in enumerate(lines):
        text = line.strip()
        if not text.endswith("{") or ")" not in text or text.startswith(("*", "//")) or CONTROL.match(text) or LAMBDA.search(text):
            continue
        first = opening
        while first > 0 and lines[first - 1].strip() and not re.search(r"([;{}\\]|\*/|^\s*(//.*|#.*|\w+:))$", lines[first - 1]):
            first -= 1
        if CONTROL.match(lines[first].strip()):
            continue
        closing = lines[first][:indent(lines[first])] + "}"
        last = next((number for number in range(opening + 1, len(lines)) if lines[number].startswith(closing)), opening)
        if last - first >= FUNCTION:
            yield first + 1, last - first + 1


def size_offences(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        lines = file.read().splitlines()
    if len(lines) > LINES and not path.endswith((".h", ".hpp", ".cuh")):
        yield f"{path}: {len(lines)} lines, a source has at most {LINES}"
    for number, length in () if path.startswith("tests/") else long_functions(lines):
        yield f"{path}:{number}: a function of {length} lines, it has at most {FUNCTION}"


def format_offences(root, paths):
    for begin in range(0, len(paths), 200):
        done = subprocess.run(["clang-format", "--dry-run", *paths[begin:begin + 200]], cwd=root, text=True, capture_output=True)
        found = re.findall(r"^([^:\n]+):(\d+):\d+: warning: code should be clang-formatted", done.stderr, re.M)
        for path in dict.fromkeys(path for path, _ in found):
            number = next(line for other, line in found if other == path)
            yield f"{path}:{number}: clang-format would change it: clang-format -i {path}"


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], text=True, capture_output=True)
    return done.stdout if done.returncode == 0 else ""


def message_offences(message, files):
    subject, _, body = message.partition("\n")
    if not re.match(r"[\w.+-]+(, [\w.+-]+)*: \S", subject):
        yield f'"{subject}" is not "area: imperative summary"'
    if len(subject) > SUBJECT:
        yield f"the subject has {len(subject)} columns, at most {SUBJECT}"
    if subject.endswith("."):
        yield f'"{subject}" ends with a full stop'
    if not body.strip() and not all(name.endswith(".md") or name.startswith("tests/") for name in files):
        yield f'"{subject}" has no body with a reason, and more than documents and tests changes'


def commit_offences(root):
    gate = git(root, "log", "--diff-filter=A", "--format=%H", "--", GATE).split()
    if not gate:
        return
    for commit in git(root, "log", "--no-merges", "--format=%H", f"{gate[-1]}..HEAD").split():
        files = git(root, "show", "--format=", "--name-only", commit).split()
        for text in message_offences(git(root, "log", "-1", "--format=%B", commit), files):
            yield f"commit {commit[:12]}: {text}"


def offences(root):
    paths = list(sources(root))
    for path in paths:
        yield from size_offences(root, path)
    yield from format_offences(root, paths)
    yield from commit_offences(root)


def prove():
    body = "\n".join(f"  call({number});" for number in range(FUNCTION))
    planted = {
        "core/long.cpp": ("// A line.\n" * (LINES + 1), "a source has at most"),
        "core/function.cpp": (f"void f(int a,\n       int b) {{\n{body}\n}}\n", "a function of"),
        "core/method.hpp": ("struct S {\n  void f() const {\n" + body.replace("  call", "    call") + "\n  }\n};\n", "a function of"),
        "core/laid_out.cpp": ("int  f();\n", "clang-format would change it"),
    }
    failures = []
    with tempfile.TemporaryDirectory() as root:
        for top in TOP:
            os.makedirs(os.path.join(root, top))
        for path, (text, _) in planted.items():
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        sound = "void f() {\n  call(0);\n  call(1);\n}\n\n" + "void g() {\n" + body[:body.rindex("\n", 0, body.rindex("\n"))] + "\n}\n"
        with open(os.path.join(root, "core/sound.cpp"), "w", encoding="utf-8") as file:
            file.write(sound)
        found = list(offences(root))
        failures += [f"not found: {path}: {says}" for path, (_, says) in planted.items()
                     if not any(path in text and says in text for text in found)]
        failures += [f"wrongly found: {text}" for text in found if "sound" in text]
    for message, files, says in (("Mend it", ["core/a.cpp"], "area: imperative"), ("core: " + "x" * SUBJECT, ["a.md"], "columns"),
                                 ("core: mend it.\n\nWhy.", ["core/a.cpp"], "full stop"), ("core: mend it", ["core/a.cpp", "b.md"], "no body")):
        if not any(says in text for text in message_offences(message, files)):
            failures.append(f"not found: {message[:20]}: {says}")
    for message, files in (("core, sdk: mend it\n\nIt was lost.", ["core/a.cpp"]), ("docs: say it", ["a.md", "tests/b.py"])):
        failures += [f"wrongly found: {text}" for text in message_offences(message, files)]
    print("\n".join(failures) or "every planted offence was found")
    return 1 if failures else 0


def main():
    if not shutil.which("clang-format"):
        print("clang-format is missing; packaging/bootstrap check installs it")
        return 77
    if sys.argv[1:] == ["--prove"]:
        return prove()
    if len(sys.argv) != 2 or not os.path.isdir(os.path.join(sys.argv[1], "sdk")):
        sys.exit(__doc__)
    found = list(offences(sys.argv[1]))
    print("\n".join([*found, f"{len(found)} offences of form"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
