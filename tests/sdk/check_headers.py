#!/usr/bin/env python3
"""Every public header compiles alone, and twice, before anything else is included; and all of them in one source.

  check_headers.py c FOLDER --compiler gcc:g++ --compiler clang:clang++
      headers *.h under FOLDER as C99, C11, C17 and as C++11, 17, 20, all warnings being errors
  check_headers.py c++ FOLDER... --compiler clang++ [--include DIR]... [--define NAME=VALUE]... [--launcher "env;A=B;ccache"]
      headers *.hpp under the folders as C++20; libtorch makes each of them take seconds, so an ordinary run compiles
      --slice of them, drawn from WEFT_TEST_SEED, and a run with WEFT_TEST_FULL=1 all. A launcher such as ccache, which
      caches files only, gets them in ./headers
  check_headers.py prove FOLDER --compiler gcc:g++ --compiler clang:clang++
      each header that does not compile alone is found; FOLDER is written
"""
import argparse
import itertools
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

WARNINGS = ["-Wall", "-Wextra", "-Werror"]
STABLE = ['-DWEFT_TORCH_MIN="2.10.0"', "-DTORCH_TARGET_VERSION=0x020a000000000000ULL"]
PEDANTIC = ["-pedantic-errors", *WARNINGS]


def headers(folder, suffix):
    for place, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith(suffix):
                yield os.path.relpath(os.path.join(place, name), folder)


def compile_alone(job):
    launcher, command, header, *others = job
    # A translation unit needs a declaration.
    source = "".join(f"#include <{name}>\n" for name in (others or [header, header])) + "typedef int weft_one_declaration;\n"
    if launcher:
        path = os.path.join("headers", header.replace("/", "-") + ".cpp")
        os.makedirs("headers", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        done = subprocess.run([*launcher, *command, "-c", path, "-o", path + ".o"], text=True, capture_output=True)
    else:
        done = subprocess.run([*command, "-fsyntax-only", "-"], input=source, text=True, capture_output=True)
    return done.returncode == 0, " ".join(command[:4]), header, done.stderr


def c_jobs(arguments):
    folder = arguments.folders[0]
    for pair in arguments.compiler:
        c, cxx = pair.split(":")
        for header in headers(folder, ".h"):
            for standard in ("c99", "c11", "c17"):
                yield [c, "-x", "c", f"-std={standard}", "-Wc++-compat", *PEDANTIC, "-I", folder], header
            for standard in ("c++11", "c++17", "c++20"):
                yield [cxx, "-x", "c++", f"-std={standard}", *PEDANTIC, "-I", folder], header


def is_for_tier_stable(path):
    with open(path, encoding="utf-8") as file:
        return "#ifndef WEFT_TORCH_MIN\n#error" in file.read()


def cxx_jobs(arguments):
    options = list(itertools.chain.from_iterable(("-I", folder) for folder in arguments.folders))
    options += list(itertools.chain.from_iterable(("-isystem", folder) for folder in arguments.include))
    options += [f"-D{define}" for define in arguments.define]
    for compiler in arguments.compiler:
        for folder in arguments.folders:
            for header in headers(folder, ".hpp"):
                stable = STABLE if is_for_tier_stable(os.path.join(folder, header)) else []
                yield [compiler, "-x", "c++", "-std=c++20", *WARNINGS, "-Wno-unused-parameter", *options, *stable], header


def drawn(jobs, count):
    """The jobs of this run, in their order."""
    if count >= len(jobs) or os.environ.get("WEFT_TEST_FULL") == "1":
        return jobs
    seed = os.environ.get("WEFT_TEST_SEED", "0")
    print(f"{count} of {len(jobs)} headers, drawn from WEFT_TEST_SEED={seed} (WEFT_TEST_FULL=1 compiles all)")
    return [jobs[index] for index in sorted(random.Random(int(seed)).sample(range(len(jobs)), count))]


# Headers that are wrong in one way each, and the language in which they are.
WRONG = {"needs_another.h": ("c", "typedef struct one { uint64_t size; } one;\n"),
         "has_no_guard.h": ("c", "typedef struct two { int size; } two;\nenum { kTwo };\n"),
         "is_cxx_alone.h": ("c", "#pragma once\ntypedef struct three { bool set; } three;\n"),
         "is_c_alone.h": ("c", "#pragma once\nstatic inline int* four(void* any) { return any; }\n"),
         "has_a_warning.h": ("c", "#pragma once\nstatic inline int five(int a, unsigned b) { return a < b; }\n"),
         "needs_a_type.hpp": ("c++", "#pragma once\ninline std::string six() { return {}; }\n")}


def prove(folder, compilers):
    missed = 0
    for name, (language, text) in {**WRONG, "right.h": ("c", "#pragma once\ntypedef struct right { int size; } right;\n")}.items():
        place = os.path.join(folder, name.split(".")[0])
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(text)
        options = [f"--compiler={pair if language == 'c' else pair.split(':')[1]}" for pair in compilers]
        done = subprocess.run([sys.executable, __file__, language, place, *options], text=True, capture_output=True)
        if (done.returncode == 0) != (name not in WRONG) or (name in WRONG and f"{name} does not compile alone" not in done.stdout):
            missed += 1
            print(f"judged wrongly: {name}\n{done.stdout}{done.stderr}")
    print(f"{len(WRONG) + 1 - missed} of {len(WRONG) + 1} headers judged rightly")
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=("c", "c++", "prove"))
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--compiler", action="append", required=True)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--define", action="append", default=[])
    parser.add_argument("--slice", type=int, default=sys.maxsize)
    parser.add_argument("--launcher", default="", help="what starts the compiler, its words separated by semicolons")
    arguments = parser.parse_args()
    if arguments.language == "prove":
        return prove(arguments.folders[0], arguments.compiler)
    jobs = list(c_jobs(arguments) if arguments.language == "c" else cxx_jobs(arguments))
    if not jobs:
        sys.exit(f"no header under {', '.join(arguments.folders)}")
    launcher = [word for word in arguments.launcher.split(";") if word]
    together = {}  # by command, which is another one for headers of tier stable
    for command, header in jobs:
        together.setdefault(tuple(command), {})[header] = None
    together = [(command, "all headers of tier stable" if STABLE[0] in command else "all headers", *own)
                for command, own in together.items()]
    jobs = [(launcher, *job) for job in drawn(jobs, arguments.slice) + together]
    failures = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for passed, command, header, text in pool.map(compile_alone, jobs):
            if not passed:
                failures += 1
                print(f"{header} does not compile alone: {command}\n{text}")
    print(f"{len(jobs)} compilations, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
