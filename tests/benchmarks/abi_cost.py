#!/usr/bin/env python3
"""Prints what plugins and their C ABI cost a process, on one core with a warm page cache: nanoseconds of a call in each direction, the time
to load nine shard policies, and that of `weft plugins list` with 200 plugins.

usage: abi_cost.py [--build FOLDER] [--cc COMPILER] [--runs N]

Printed is the median of the runs; a process loads the policies once.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POLICIES = ["bert", "bloom", "chatglm", "gpt2", "llama", "opt", "t5", "vit", "whisper"]
NUM_LISTED = 200


def on_one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def run(words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, preexec_fn=on_one_core, **more).stdout


def copies(build, folder):
    """Installs one plugin many times, under other ids."""
    source = os.path.join(build, "lib/weft/0/plugins/gpt2")
    version = os.listdir(source)[0]
    with open(os.path.join(source, version, "plugin.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    for number in range(NUM_LISTED):
        manifest["id"] = f"gpt2_{number}"
        place = os.path.join(folder, manifest["id"], version)
        os.makedirs(place)
        with open(os.path.join(place, "plugin.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        for library in manifest["libraries"]:
            os.link(shutil.copy(os.path.join(source, version, library["file"]), folder) if number == 0
                    else os.path.join(folder, library["file"]), os.path.join(place, library["file"]))


def milliseconds_of_list(build, environment, runs):
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        listed = run([os.path.join(build, "bin/weft"), "plugins", "list"], env=environment)
        taken.append(1000 * (time.perf_counter() - begin))
    if listed.count(b"gpt2_") < NUM_LISTED:
        raise SystemExit("the plugins were not listed")
    return statistics.median(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--runs", type=int, default=11)
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "abi_cost")
        subprocess.run([arguments.cc, "-std=c99", "-O2", "-I" + ROOT + "/sdk/include", ROOT + "/tests/benchmarks/abi_cost.c", "-o", program,
                        "-L" + build + "/lib", "-lweft", "-Wl,-rpath," + build + "/lib"], check=True)
        figures = [json.loads(run([program, "shard_policy", *POLICIES])) for _ in range(arguments.runs)]
        for key, text in (("to_plugin_ns", "a call to a plugin: {:.1f} ns"), ("to_host_ns", "a call to the host: {:.1f} ns"),
                          ("load_ms", f"{len(POLICIES)} policies load in {{:.1f}} ms")):
            print(text.format(statistics.median(figure[key] for figure in figures)))
        listed = os.path.join(folder, "plugins")
        os.mkdir(listed)
        copies(build, listed)
        print(f"weft plugins list with {NUM_LISTED} plugins: "
              f"{milliseconds_of_list(build, dict(os.environ, WEFT_PLUGIN_PATH=listed), arguments.runs):.1f} ms")


if __name__ == "__main__":
    main()
