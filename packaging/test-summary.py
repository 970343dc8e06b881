#!/usr/bin/env python3
"""Says how a run of packaging/check went: why tests were skipped, the ten slowest steps, and the counts.

usage: test-summary.py RESULTS
RESULTS holds, for each preset, PRESET.xml (CTest's JUnit file) and PRESET/ (GoogleTest's files, one for each program). A test
of CTest that is a GoogleTest program counts with its cases; any other counts as one. attack.xml has a test for each kind of
case, tidy.xml one for each warning and each source without; the text of a failure repeats it. Standard input has the other steps, a line each: seconds, a tab, what was
done. The exit status is 1 if a test failed.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

SLOWEST = 10


class Summary:
    def __init__(self):
        self.counts = Counter(passed=0, failed=0, skipped=0)
        self.failures = []
        self.skips = {}  # names by reason
        self.steps = []  # seconds, text

    def add(self, outcome, name, reason=""):
        self.counts[outcome] += 1
        if outcome == "failed":
            self.failures.append(name)
        if outcome == "skipped":
            self.skips.setdefault(reason or "no reason was given", []).append(name)


def root_of(path):
    """The root of an XML file, or nothing if the program died while it wrote the file."""
    try:
        return ElementTree.parse(path).getroot()
    except ElementTree.ParseError:
        return None


def cases_of(folder, test):
    """The cases of a GoogleTest program. A program that starts itself leaves several files: the one of the longest run counts."""
    roots = [root_of(path) for path in folder.glob(test + "*.xml") if path.stem.removeprefix(test).lstrip("_").isdigit() or path.stem == test]
    roots = [root for root in roots if root is not None and root.tag == "testsuites"]
    if not roots:
        return []
    return max(roots, key=lambda root: float(root.get("time", 0))).iter("testcase")


def add_cases(summary, cases, test):
    """Counts the cases; returns how many failed and how many there were."""
    failed = total = 0
    for case in cases:
        if case.get("status") == "notrun":
            continue
        total += 1
        name = f"{test}: {case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            failed += 1
            summary.add("failed", name)
        elif skipped is not None:
            message = skipped.get("message") or skipped.text or ""
            summary.add("skipped", name, message.strip().splitlines()[-1] if message.strip() else "")
        else:
            summary.add("passed", name)
    return failed, total


def last_line(text):
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else ""


def add_preset(summary, path):
    root = root_of(path)
    if root is None:
        summary.add("failed", f"{path.name} cannot be read")
        return
    for test in root.iter("testcase"):
        name, status = f"{path.stem}: {test.get('name')}", test.get("status")
        summary.steps.append((float(test.get("time", 0)), f"test {name}"))
        failed, total = add_cases(summary, cases_of(path.with_suffix(""), test.get("name")), name)
        repeat = (test.findtext("failure") or "").strip()
        if status == "fail" and repeat:
            summary.add("failed", f"{name}; to repeat: {repeat}")
        elif status == "fail" and failed == 0:
            summary.add("failed", name + " (no failed case: it crashed, ran out of time, or is no GoogleTest program)")
        elif status in ("notrun", "disabled") and total == 0:
            summary.add("skipped", name, last_line(test.findtext("system-out")))
        elif total == 0 and status != "fail":
            summary.add("passed", name)


def print_summary(summary):
    for reason, names in summary.skips.items():
        print(f"skipped, {reason}:")
        print("".join(f"  {name}\n" for name in names), end="")
    print(f"the {SLOWEST} slowest steps, in seconds:")
    for seconds, text in sorted(summary.steps, reverse=True)[:SLOWEST]:
        print(f"  {seconds:6.0f}  {text}")
    for name in summary.failures:
        print(f"FAILED {name}")
    counts = summary.counts
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")


def main(folder):
    summary = Summary()
    for line in sys.stdin:
        seconds, _, text = line.rstrip("\n").partition("\t")
        if text:
            summary.steps.append((float(seconds), text))
    results = sorted(folder.glob("*.xml"))
    for path in results:
        add_preset(summary, path)
    if not results:
        summary.add("failed", f"no results of tests in {folder}")
    print_summary(summary)
    return 1 if summary.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
