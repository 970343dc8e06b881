#!/usr/bin/env python3
"""Every function of the C ABI says who may call it and since when (weft/types.h has the tags).

  check_slots.py INCLUDE     of the folder that has weft/*.h
  check_slots.py --prove     finds what lacks either

A comment holds for the function under it and for those that follow without an empty line; one that says "all of them"
or "where no other tag stands" at the head of a struct holds for the whole struct, the head of a file for its functions.
"""
import glob
import os
import re
import sys

TAG = r"\[(any thread|control|step|engine|io|may block|blocks|no collective|starts a collective)[^\]]*\]"
FOR_ALL = r"all of them|where no other tag stands|All\s+functions|Functions are \[control\]"
SLOT = re.compile(r"^  [\w* ]+\(\*(\w+)\)\(")


def tagged(comment):
    return re.search(TAG, comment) and re.search(r"since\s+\d+\.\d+", comment)


def plain(text):
    return re.sub(r"\s*\n\s*\*\s*", " ", text)


def offences(text):
    """Names of functions without a tag or without their minor."""
    found = []
    head = plain(text[: text.find("#ifndef")])
    for comment, body in re.findall(r"((?:/\*(?:[^*]|\*(?!/))*\*/\n)?(?:typedef struct \w+ \w+;\n)?(?:typedef )?struct \w+ \{.*\n)"
                                    r"((?:.*\n)*?)\}", text):
        whole = plain(comment)
        if re.search(FOR_ALL, whole) and tagged(whole):
            continue
        covered, comments = False, ""
        for line in body.splitlines():
            if not line.strip():
                covered = False
            elif line.lstrip().startswith(("/*", "*")):
                comments = line if line.lstrip().startswith("/*") else comments + "\n" + line
                covered = covered or bool(tagged(plain(comments)))
            elif SLOT.match(line) and not covered:
                found.append(SLOT.match(line)[1])
    if not re.search(r"since\s+\d+\.\d+", head):
        before = ""
        for part in re.split(r"(?<=;)\n", text):
            name = re.search(r"^WEFT_EXPORT[^;]*?\b(weft_\w+)\(", part, re.M)
            before = part if name is None else before
            if name and name[1] != "weft_plugin_query_v1" and not tagged(plain(part)):  # its type has the comment
                found.append(name[1])
    return found


def prove():
    good = "/* Head. */\n#ifndef A\n/* The functions. */\ntypedef struct t {\n  uint64_t struct_size;\n@  void (*f)(void);\n} t;\n"
    wanted = {"  /* Does. [control] since 0.2 */\n": [], "  /* Does. [control] */\n": ["f"], "  /* Does. since 0.2 */\n": ["f"],
              "": ["f"], "  /* Does. [any thread]\n   * [no collective] since\n   * 0.2 */\n  void (*g)(void);\n": [],
              "  /* Does. [control] since 0.2 */\n  void (*g)(void);\n\n": ["f"]}
    for comment, names in wanted.items():
        found = offences(good.replace("@", comment))
        if found != names:
            sys.exit(f"wrong for {comment!r}: {found}")
    if offences(good.replace("@", "").replace("functions.", "functions, all of them. [step] since 0.2")):
        sys.exit("a comment of the whole struct does not count")
    print("finds what it should")


def main():
    if sys.argv[1] == "--prove":
        return prove()
    bad = []
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "weft/*.h"))):
        with open(path, encoding="utf-8") as file:
            bad += [f"{os.path.basename(path)}: {name}" for name in offences(file.read())]
    if bad:
        sys.exit("these functions say not who may call them or since when, [TAG] since MINOR:\n" + "\n".join(bad))
    print("every function has its tag and its minor")


if __name__ == "__main__":
    main()
