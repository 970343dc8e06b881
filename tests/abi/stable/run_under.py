#!/usr/bin/env python3
"""Runs one binary of a strategy and one of an operation of tier stable under several versions of libtorch.

  run_under.py LIBTORCH --run HOST LIBRARY NAME [--run ...] [--other REQUIREMENTS]...

HOST is built from strategy_host.cpp or operation_host.cpp, and LIBTORCH is the folder of the project's libtorch. Each of REQUIREMENTS is a
file of pip with hashes, which names a version of torch; those are downloaded and run with WEFT_TEST_FULL=1 alone, since a wheel takes up to
900 MB.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile
import zipfile

LIBRARIES = r"lib(torch_cpu|c10|gomp|cudart|cupti)(-[0-9a-f]+)?\.so[.0-9]*$"


def run_all(runs, folder, version):
    """Whether all of them pass under the libtorch in the folder."""
    passed = True
    for host, library, name in runs:
        environment = dict(os.environ, LD_LIBRARY_PATH=folder, OMP_NUM_THREADS="1")
        done = subprocess.run([host, library, name, version], env=environment, text=True, capture_output=True)
        print(f"{name}: {(done.stdout + done.stderr).strip()}")
        passed = passed and done.returncode == 0
    return passed


def unpack(requirements, folder):
    """Downloads the wheels of a file of requirements, and unpacks the libraries that a program for the CPU loads."""
    wheels = os.path.join(folder, "wheels")
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--disable-pip-version-check",
                    "--dest", wheels, "--requirement", requirements], check=True)
    for wheel in glob.glob(os.path.join(wheels, "*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                base = os.path.basename(member)
                if re.match(LIBRARIES, base):
                    with open(os.path.join(folder, base), "wb") as file:
                        file.write(archive.read(member))
        os.remove(wheel)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libtorch")
    parser.add_argument("--run", nargs=3, action="append", required=True)
    parser.add_argument("--other", action="append", default=[])
    arguments = parser.parse_args()
    with open(os.path.join(arguments.libtorch, "include/torch/headeronly/version.h"), encoding="utf-8") as file:
        version = ".".join(re.findall(r"define TORCH_VERSION_(?:MAJOR|MINOR) (\d+)", file.read()))
    passed = run_all(arguments.run, os.path.join(arguments.libtorch, "lib"), version)
    if os.environ.get("WEFT_TEST_FULL") == "1":
        for requirements in arguments.other:
            with open(requirements, encoding="utf-8") as file:
                version = re.search(r"^torch==(\d+\.\d+)\.", file.read(), re.MULTILINE)[1]
            with tempfile.TemporaryDirectory() as folder:
                unpack(requirements, folder)
                passed = run_all(arguments.run, folder, version) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
