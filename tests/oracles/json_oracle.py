"""The command of a generate.py whose oracle is one JSON file:

    generate.py            writes the file if it is missing or differs
    generate.py --check    makes it again and compares; exit status 1 where it differs
"""

import argparse
import json


def same(a, b, tolerance):
    """Numbers may differ by the tolerance, relative to those above 1."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key], tolerance) for key in a)
    if isinstance(a, (list, tuple)):
        return (isinstance(b, (list, tuple)) and len(a) == len(b)
                and all(same(x, y, tolerance) for x, y in zip(a, b)))
    if isinstance(a, float):
        return isinstance(b, (int, float)) and abs(a - b) <= tolerance * max(1, abs(a))
    return a == b


def main(file, make, tolerance, description):
    """`make` returns what the file holds; returns the exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    check = parser.parse_args().check
    made = make()
    agrees = file.is_file() and same(made, json.loads(file.read_text()), tolerance)
    if check:
        print(f"generate.py: {file.name} {'agrees' if agrees else 'differs'}")
        return 0 if agrees else 1
    if not agrees:
        file.write_text(json.dumps(made, separators=(",", ":")).replace("},{", "},\n{") + "\n")
        print(f"{file.name}: written, {file.stat().st_size} bytes")
    return 0
