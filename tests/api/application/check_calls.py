#!/usr/bin/env python3
"""Every function that the C headers declare is called by a test in C.

  check_calls.py HEADERS TESTS   names each function without a call; exit code 1 if there is one
  check_calls.py --prove         finds what is missing in an example
"""
import glob
import os
import re
import sys

COMMENT = r"/\*.*?\*/|//[^\n]*"
TEXT = r'"(?:\\.|[^"\\])*"'
OF_PLUGINS = "weft_plugin_query_v1"  # a plugin defines it and the host calls it
MACRO = r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*"


def declared(header):
    header = re.sub(MACRO, "", re.sub(COMMENT, "", header, flags=re.S))
    return re.findall(r"\bWEFT_EXPORT\b[\w\s*]*?\b(weft_\w+)\s*\([^;{]*\)\s*;", header)


def called(source):
    source = re.sub(f"{COMMENT}|{TEXT}", "", source, flags=re.S)
    return set(re.findall(r"\b(weft_\w+)\s*\(", source))


def read(pattern):
    texts = []
    for path in sorted(glob.glob(pattern)):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return texts


def prove():
    header = """
        #define WEFT_MAKE(name) \\
          WEFT_EXPORT void weft_##name(void);
        /* WEFT_EXPORT void weft_in_a_comment(void); */
        WEFT_EXPORT void weft_called(weft_model* model);
        WEFT_EXPORT weft_status weft_also_called(weft_runtime* runtime, weft_str path,
                                                 weft_error* error);
        WEFT_EXPORT weft_str weft_in_words(void);
        WEFT_EXPORT const weft_plugin* weft_never(void);"""
    source = 'OK(weft_also_called(r, p, error)); /* weft_never() */ weft_called (m); puts("weft_in_words()");'
    names = declared(header)
    wanted = ["weft_called", "weft_also_called", "weft_in_words", "weft_never"]
    missing = [name for name in names if name not in called(source)]
    print(f"declared: {names}; missing: {missing}")
    return 0 if names == wanted and missing == ["weft_in_words", "weft_never"] else 1


def main():
    if sys.argv[1:] == ["--prove"]:
        return prove()
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    names = [name for text in read(os.path.join(sys.argv[1], "*.h")) for name in declared(text) if name != OF_PLUGINS]
    calls = set().union(*map(called, read(os.path.join(sys.argv[2], "*.c"))))
    missing = [name for name in names if name not in calls]
    for name in missing:
        print(f"{name} is declared, but no test in {sys.argv[2]} calls it")
    print(f"{len(names) - len(missing)} of {len(names)} functions are called")
    return 1 if missing or not names else 0


if __name__ == "__main__":
    sys.exit(main())
