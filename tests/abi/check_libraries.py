#!/usr/bin/env python3
"""Every library of the engine calls functions of itself and of those below it alone.

  check_libraries.py BUILD LIBRARY...  the libraries from the bottom up, with their objects under BUILD/core/LIBRARY

The build holds the directions of includes; this holds those of calls, which a declaration alone could turn around.
"""
import os
import subprocess
import sys


def objects(folder):
    for place, _, names in os.walk(folder):
        yield from (os.path.join(place, name) for name in names if name.endswith(".o"))


def symbols(file):
    """The names that an object defines, those of templates and inline functions left out, and those that it needs."""
    defined, needed = set(), set()
    for line in subprocess.run(["nm", file], check=True, text=True, capture_output=True).stdout.splitlines():
        kind, name = line.split()[-2:]
        if kind == "U":
            needed.add(name)
        elif kind in "TDBR":
            defined.add(name)
    return defined, needed


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, libraries = sys.argv[1], sys.argv[2:]
    homes, needs = {}, []
    for height, library in enumerate(libraries):
        files = list(objects(os.path.join(build, "core", library)))
        if not files:
            sys.exit(f"{build}/core/{library} has no objects")
        for file in files:
            defined, needed = symbols(file)
            homes.update(dict.fromkeys(defined, height))
            needs += ((height, file, name) for name in needed)
    upward = [(height, file, name) for height, file, name in needs if homes.get(name, height) > height]
    for height, file, name in upward:
        print(f"{libraries[height]} calls {libraries[homes[name]]}: {os.path.relpath(file, build)} needs {name}")
    print(f"{len(upward)} calls upward among {len(needs)} symbols needed by {len(libraries)} libraries")
    return 1 if upward else 0


if __name__ == "__main__":
    sys.exit(main())
