#!/usr/bin/env python3
"""What clang-tidy says of the lines that the last commits changed in sources of the product, as far as the time allows.

  tidy.py BUILD [--commits N] [--minutes M] [--junit FILE]
                          every warning; exit code 1 if there is one, 77 without clang-tidy or a git history
  tidy.py BUILD --prove   finds a mistake in a changed line and none in another line, and packaging/check counts it

BUILD is a build folder with a compile_commands.json. Commits that the upstream branch has are not looked at, nor more than N (10). The
sources that were changed last come first; after M minutes (2) the others are left out and counted.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from xml.etree import ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRODUCT = ["core", "plugins", "policies", "kernels/cpu", "kernels/formula", "sdk/kit"]
SKIPPED = 77


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)


def base_of(commits):
    """The commit with which the changed lines are compared; nothing without a history."""
    count = git("rev-list", "--count", "--first-parent", "HEAD").stdout.strip()
    if not count.isdigit() or int(count) < 2:
        return None
    own = git("rev-list", "--count", "--first-parent", "@{upstream}..HEAD").stdout.strip()
    steps = min(commits, int(count) - 1, int(own) if own.isdigit() and int(own) > 0 else commits)
    return f"HEAD~{steps}"


def changed_lines(base):
    """Ranges of lines by file."""
    lines = collections.defaultdict(list)
    path = None
    for line in git("diff", "-U0", "--diff-filter=d", base, "HEAD", "--", *PRODUCT).stdout.splitlines():
        if line.startswith("+++ "):
            path = line[6:]
        match = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
        if match and path.endswith((".cpp", ".hpp", ".c", ".h")):
            count = int(match[2] or 1)
            if count > 0:
                lines[path].append([int(match[1]), int(match[1]) + count - 1])
    return lines


def newest_first(base, paths):
    order = dict.fromkeys(git("log", "--format=", "--name-only", f"{base}..HEAD").stdout.split("\n"))
    return [path for path in order if path in paths] + [path for path in paths if path not in order]


def warnings_of(build, path, line_filter, seconds):
    """What clang-tidy says of one source; nothing if there was no time."""
    command = ["clang-tidy", "-p", build, "--quiet", "-line-filter=" + json.dumps(line_filter), path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(seconds, 1))
    except subprocess.TimeoutExpired:
        return None
    return [line for line in done.stdout.splitlines() if re.search(r": (warning|error): ", line)]


def look(build, lines, minutes):
    """The warnings of each source by its path; nothing for a source for which there was no time."""
    end = time.monotonic() + 60 * minutes
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        compiled = {os.path.realpath(os.path.join(entry["directory"], entry["file"])) for entry in json.load(file)}
    sources = [path for path in lines if os.path.realpath(os.path.join(ROOT, path)) in compiled]
    line_filter = [{"name": path, "lines": ranges} for path, ranges in lines.items()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        def one(path):
            remaining = end - time.monotonic()
            return warnings_of(build, os.path.join(ROOT, path), line_filter, remaining) if remaining > 5 else None
        return dict(zip(sources, pool.map(one, sources)))


def all_warnings(warnings_by_source):
    """Each warning once: several sources include the same header."""
    return list(dict.fromkeys(warning for warnings in warnings_by_source.values() for warning in warnings or []))


def write_junit(path, warnings_by_source):
    """A failed test for each warning and one that passed for each source without, as packaging/test-summary.py reads them."""
    root = ElementTree.Element("testsuite", name="tidy")
    for source, warnings in warnings_by_source.items():
        if warnings == []:
            ElementTree.SubElement(root, "testcase", name=source, status="run")
    for warning in all_warnings(warnings_by_source):
        test = ElementTree.SubElement(root, "testcase", name=warning.removeprefix(ROOT + "/"), status="fail")
        ElementTree.SubElement(test, "failure").text = "tests/form/tidy.py build/release --minutes 20"
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def prove_summary():
    """The summary of packaging/check says each warning and counts it."""
    with tempfile.TemporaryDirectory() as folder:
        write_junit(os.path.join(folder, "tidy.xml"),
                    {"core/a.cpp": [f"{ROOT}/core/a.cpp:2:10: warning: wrong [check]"], "core/b.cpp": [], "core/c.cpp": None})
        output = subprocess.run([sys.executable, os.path.join(ROOT, "packaging/test-summary.py"), folder], input="", capture_output=True,
                                text=True)
    ok = (output.returncode == 1 and "FAILED tidy: core/a.cpp:2:10: warning: wrong [check]; to repeat: " in output.stdout
          and output.stdout.endswith("\n1 passed, 1 failed, 0 skipped\n"))
    print("the summary counts it" if ok else output.stdout + output.stderr)
    return ok


def prove(build):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "wrong.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write("int* f() {\n  return 0;\n}\nint* g() {\n  return 0;\n}\n")
        with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump([{"directory": folder, "file": path, "command": f"clang++ -c {path}"}], file)
        shutil.copy(os.path.join(ROOT, ".clang-tidy"), folder)
        found = warnings_of(folder, path, [{"name": "wrong.cpp", "lines": [[2, 2]]}], 60)
        ok = len(found) == 1 and "wrong.cpp:2:" in found[0] and "nullptr" in found[0]
        print("found the mistake" if ok else f"wrong: {found}")
    return 0 if prove_summary() and ok else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--junit", help="a file for the results, in the format of JUnit")
    parser.add_argument("--prove", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("clang-tidy") is None:
        print("clang-tidy is not installed")
        return SKIPPED
    if arguments.prove:
        return prove(arguments.build)
    base = base_of(arguments.commits)
    if base is None:
        print("there is no git history")
        return SKIPPED
    lines = changed_lines(base)
    ordered = {path: lines[path] for path in newest_first(base, lines)}
    warnings = look(os.path.abspath(arguments.build), ordered, arguments.minutes)
    found = all_warnings(warnings)
    left = [source for source, its_warnings in warnings.items() if its_warnings is None]
    print("\n".join(found))
    print(f"{len(found)} warnings in the changed lines of {len(warnings) - len(left)} sources since {base}"
          + (f"; no time for {len(left)}: {', '.join(left)}" if left else ""))
    if arguments.junit:
        write_junit(arguments.junit, warnings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
