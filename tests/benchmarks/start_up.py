#!/usr/bin/env python3
"""Prints how long `weft` takes to start: milliseconds of `weft --help`, and seconds from `weft train` to its first step.

usage: start_up.py [--weft PROGRAM ...] [--runs N]

Of several programs the runs take turns, so that they meet the same machine. Printed is the best and the median of the runs.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def seconds_of_help(weft):
    begin = time.perf_counter()
    subprocess.run([weft, "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def seconds_to_first_step(weft, ranks):
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics")
        os.mkfifo(metrics)
        begin = time.perf_counter()
        job = subprocess.Popen([weft, "train", "--model", ROOT + "/samples/gpt2_bytes/config.json", "--data", ROOT + "/README.md",
                                "--strategy", "torch_ddp", "-n", str(ranks), "--steps", "1", "--metrics", metrics],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(metrics, encoding="utf-8") as lines:
            line = json.loads(next(lines))
            taken = time.perf_counter() - begin
            lines.read()
        if job.wait() != 0 or line["step"] != 1:
            raise SystemExit(f"{weft} did not train")
        return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", nargs="+", default=[ROOT + "/build/release/bin/weft"])
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    measures = {"weft --help": seconds_of_help,
                "weft train -n 1, to step 1": lambda weft: seconds_to_first_step(weft, 1),
                "weft train -n 2, to step 1": lambda weft: seconds_to_first_step(weft, 2)}
    for name, measure in measures.items():
        taken = {weft: [] for weft in arguments.weft}
        for _ in range(arguments.runs):
            for weft in arguments.weft:
                taken[weft].append(measure(weft))
        for weft, seconds in taken.items():
            print(f"{name}: best {1000 * min(seconds):.0f} ms, median {1000 * statistics.median(seconds):.0f} ms  ({weft})")


if __name__ == "__main__":
    main()
