#!/usr/bin/env python3
"""The build id changes with what inlines into plugins of tier native, and with nothing else.

  prove_build_id.py ROOT BUILD CMAKE CXX

- an inline function, a new header, a header less, another compiler, version or sanitizer give another id, a source and a page do not;
- the files are not written again if the id stays;
- what this tree has built carries the id of its headers, and its header refuses another standard library.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

FACTS = "weft 0.1.0\ntorch torch=2.11.0\ncompiler Clang 14\nsanitizers \n#define _GLIBCXX_USE_CXX11_ABI 1\n"
OTHER_FACTS = {
    "version of Weft": ("weft 0.1.0", "weft 0.1.1"),
    "libtorch": ("2.11.0", "2.12.0"),
    "major of the compiler": ("Clang 14", "Clang 15"),
    "compiler": ("Clang 14", "GNU 14"),
    "sanitizer": ("sanitizers ", "sanitizers -fsanitize=address"),
    "setting of the standard library": ("_ABI 1\n", "_ABI 1\n#define _GLIBCXX_ASSERTIONS 1\n"),
}
problems = []


def expect(true, text):
    if not true:
        problems.append(text)


class Tree:
    """The headers of a tree, with one that has an inline function, and a source."""

    def __init__(self, root, cmake, folder):
        self.root, self.cmake, self.out = folder, cmake, os.path.join(folder, "out")
        self.script = os.path.join(root, "cmake/write-build-id.cmake")
        for path in ["sdk/include", "sdk/kit/include", "core/host", *glob.glob("core/*/include", root_dir=root)]:
            shutil.copytree(os.path.join(root, path), os.path.join(folder, path))
        os.mkdir(self.out)
        self.header, self.source = "core/nn/include/weft/nn/twice.hpp", "core/host/twice.cpp"
        self.write(self.header, "inline int twice(int x) { return 2 * x; }\n")
        self.write(self.source, "int thrice(int x) { return 3 * x; }\n")

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def id(self, facts=FACTS):
        self.write("facts.txt", facts)
        subprocess.run([self.cmake, f"-DROOT={self.root}", f"-DFACTS={self.root}/facts.txt", f"-DOUTPUT={self.out}", "-P", self.script],
                       check=True)
        return read_id(self.out)


def read_id(folder):
    ids = []
    for name in ("weft_build_id.h", "weftBuildId.cmake"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            ids += re.findall(r'WEFT_BUILD_ID "([0-9a-f]{16})"', file.read())
    expect(len(ids) == 2 and ids[0] == ids[1], f"the files in {folder} have the ids {ids}, must have one twice")
    return ids[0]


def check_changes(tree):
    first = tree.id()
    written = os.stat(os.path.join(tree.out, "weft_build_id.h")).st_mtime_ns
    tree.write(tree.source, "int thrice(int x) { return x + x + x; }\n")
    tree.write("sdk/include/weft/README.md", "A page.\n")
    expect(tree.id() == first, "a source or a page changes the id")
    expect(os.stat(os.path.join(tree.out, "weft_build_id.h")).st_mtime_ns == written, "the same id is written again")

    tree.write(tree.header, "inline int twice(int x) { return x + x; }\n")
    inlined = tree.id()
    expect(inlined != first, "an inline function does not change the id")
    tree.write("sdk/kit/include/weft/kit/new.hpp", "struct New {};\n")
    grown = tree.id()
    expect(grown not in (first, inlined), "a new header does not change the id")
    os.remove(os.path.join(tree.root, "sdk/kit/include/weft/kit/new.hpp"))
    tree.write(tree.header, "inline int twice(int x) { return 2 * x; }\n")
    expect(tree.id() == first, "the headers as they were do not give the id as it was")
    os.rename(os.path.join(tree.root, tree.header), os.path.join(tree.root, tree.header + ".hpp"))
    expect(tree.id() != first, "another name of a header does not change the id")
    os.rename(os.path.join(tree.root, tree.header + ".hpp"), os.path.join(tree.root, tree.header))

    ids = {first}
    for name, (old, new) in OTHER_FACTS.items():
        expect(FACTS.count(old) == 1, f"{old} is not once in the facts")
        expect(tree.id(FACTS.replace(old, new)) not in ids, f"another {name} does not change the id")
        ids.add(read_id(tree.out))


# What every library of tier native is compiled with.
def check_header(build, cxx):
    command = [cxx, "-fsyntax-only", "-x", "c++", os.path.join(build, "build_id/weft_build_id.h")]
    for define, good in (("_GLIBCXX_USE_CXX11_ABI=1", True), ("_GLIBCXX_USE_CXX11_ABI=0", False), ("_GLIBCXX_DEBUG", False)):
        done = subprocess.run([*command, "-D" + define], text=True, capture_output=True)
        named = define.split("=")[0] in done.stderr
        expect((done.returncode == 0) if good else (done.returncode != 0 and named), f"-D{define}: {done.returncode} {done.stderr}")


def check_built(tree, build):
    with open(os.path.join(build, "build_id/facts.txt"), encoding="utf-8") as file:
        facts = file.read()
    os.remove(os.path.join(tree.root, tree.header))
    os.remove(os.path.join(tree.root, "sdk/include/weft/README.md"))
    wanted = tree.id(facts)
    expect(read_id(os.path.join(build, "build_id")) == wanted, f"the tree's id is not that of its headers, {wanted}")
    count = 0
    for path in glob.glob(os.path.join(build, "lib/weft/*/plugins/*/*/plugin.json")):
        with open(path, encoding="utf-8") as file:
            libraries = json.load(file)["libraries"]
        for library in libraries:
            if library["tier"] == "native":
                count += 1
                expect(library["build_id"] == wanted, f"{path}: the id is {library['build_id']}, must be {wanted}")
    expect(count > 0, "the tree has no library of tier native")


def main():
    root, build, cmake, cxx = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(root, cmake, folder)
        check_changes(tree)
        check_built(tree, build)
    check_header(build, cxx)
    print("\n".join(problems) or "the build id follows the headers and the compiler, and nothing else")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
