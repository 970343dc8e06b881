#!/usr/bin/env python3
"""A public header as Doxygen wants it: the comments of this tree, which are plain ones, become documentation.

  filter.py HEADER   (INPUT_FILTER of the Doxyfile) keeps the number of lines, so that warnings name the right one

A comment above a declaration documents it, one behind it on the same line does too, and the first comment of a file is the
file's.
"""
import re
import sys


def split_comment(line):
    """Code and what follows its `//` or `/*`, or None; neither is looked for inside of a string literal."""
    for found in re.finditer(r'"(?:\\.|[^"\\])*"|//|/\*', line):
        if not found[0].startswith('"'):
            return line[:found.start()], line[found.start():]
    return None


def documentation(lines):
    in_file_comment, is_first = False, True
    for number, line in enumerate(lines):
        parts = split_comment(line)
        if parts and not parts[0].lstrip().startswith("#"):
            code, comment = parts
            behind = "<" if code.strip() else ""
            if not code.rstrip().endswith(("{", "(", "\\")):
                line = code + comment[:2] + ("/" if comment.startswith("//") else "*") + behind + comment[2:]
        if is_first and parts:
            is_first, in_file_comment = False, True
        if in_file_comment:
            following = lines[number + 1] if number + 1 < len(lines) else ""
            if line.rstrip().endswith("*/"):
                line, in_file_comment = line.rstrip()[:-2] + "@file */", False
            elif line.startswith("//") and not following.startswith("//"):
                line, in_file_comment = line + " @file", False
        yield line


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(documentation(file.read().split("\n"))), end="")


if __name__ == "__main__":
    main()
