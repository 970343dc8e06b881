#!/usr/bin/env python3
"""Doxygen makes a reference of the public headers without a warning: every header, type, function and macro has a comment.

  check_reference.py ROOT [PATH...]  PATHs are headers or folders in place of the Doxyfile's; exit code 1 if something is
                                     missing, 77 if there is no doxygen here
  check_reference.py ROOT --prove    what is missing in planted headers is found

A comment documents the declarations below it up to a blank line. Members of a class or a struct may speak for themselves.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

DOXYFILE = "sdk/docs/reference/Doxyfile"
UNDOCUMENTED = re.compile(r"(?:Member|Compound) .* is not documented\.$")
OF_A_TYPE = re.compile(r"^Member .* of (?:class|struct|union) ")
WARNING = re.compile(r"^(.*?):(\d+): warning: (.*)$")


def has_comment(path, number):
    """Whether a comment stands above line `number` (from 1), with no blank line between."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    if lines[number - 1].startswith("}"):  # typedef struct name { ... } name;
        return True
    for line in reversed(lines[:number - 1]):
        if not line.strip():
            return False
        if re.match(r"\s*(//|/\*|\*)|.*\*/$", line):
            return True
    return False


def doxygen_warnings(root, paths):
    with tempfile.TemporaryDirectory() as output:
        settings = [f"@INCLUDE = {DOXYFILE}", "EXTRACT_ALL = NO", "WARN_IF_UNDOCUMENTED = YES", "WARN_AS_ERROR = NO",
                    "GENERATE_HTML = NO", "GENERATE_XML = YES", f"OUTPUT_DIRECTORY = {output}"]
        if paths:
            settings.append("INPUT = " + " ".join(paths))
        done = subprocess.run(["doxygen", "-"], cwd=root, input="\n".join(settings), text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"doxygen failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
        pages = len(os.listdir(os.path.join(output, "xml")))
    return done.stderr.splitlines(), pages


def offences(root, paths):
    warnings, pages = doxygen_warnings(root, paths)
    if pages < 5:
        yield f"doxygen read no headers: it made {pages} pages"
    for line in warnings:
        found = WARNING.match(line)
        if found and UNDOCUMENTED.search(found[3]):
            if OF_A_TYPE.match(found[3]) or has_comment(found[1], int(found[2])):
                continue
        yield line


PLANTED = {
    "// About a.\n#pragma once\n\nstruct Missing {\n  int a;\n};\n": "Compound Missing",
    "// About a.\n#pragma once\n\n// One.\nvoid one();\n\nvoid missing();\n": "Member missing()",
    "// About a.\n#pragma once\n\n// One.\n#define ONE 1\n\n#define MISSING 2\n": "Member MISSING",
    "// About a.\n#pragma once\n\n// See \\ref nowhere.\nvoid one();\n": "nowhere",
}
SOUND = "// About a.\n#pragma once\n\n// One and two.\nvoid one();\nvoid two();\n\n// Three.\nstruct Three {\n  int a;\n};\n"


def prove(root):
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        def found(text):
            with open(os.path.join(folder, "a.hpp"), "w", encoding="utf-8") as file:
                file.write(text)
            return "\n".join(offences(root, [folder]))

        failures += [f"{says} was not found" for text, says in PLANTED.items() if says not in found(text)]
        if found(SOUND):
            failures.append("found in a sound header: " + found(SOUND))
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--prove", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("doxygen") is None:
        print("skipped: there is no doxygen here (Debian: apt-get install doxygen)")
        return 77
    found = prove(arguments.root) if arguments.prove else list(offences(arguments.root, arguments.paths))
    print("\n".join(found) or "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
