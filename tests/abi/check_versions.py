#!/usr/bin/env python3
"""The soname of libweft.so and the versions of its functions keep programs running that were linked before.

  check_versions.py ROOT LIBRARIES CC READELF   LIBRARIES is lib/ of a build tree or of an installed one

- the file is libweft.so.<major>.<minor> of the ABI, the soname libweft.so.<major>, and the links are there;
- a program that was linked with the library of 0.2 runs without a word, and so does one whose library had no versions;
- one that asks for a later version is refused by its name.
"""
import os
import re
import subprocess
import sys
import tempfile

# The node of the first library with versions, as it stays.
FIRST = "WEFT_0.2 { global: weft_*; local: *; };\n"
STUBS = """
#include <weft/runtime.h>
weft_str weft_version(void) { weft_str none = {0, 0}; return none; }
weft_error* weft_error_create(void) { return 0; }
void weft_error_destroy(weft_error* error) { (void)error; }
weft_status weft_runtime_create(weft_str options, weft_runtime** own, weft_error* error) { return WEFT_OK; }
void weft_runtime_destroy(weft_runtime* runtime) { (void)runtime; }
"""
PROGRAM = """
#include <weft/runtime.h>
#include <stdio.h>
int main(void) {
  weft_error* error = weft_error_create();
  weft_runtime* runtime = NULL;
  const weft_status status = weft_runtime_create(WEFT_STR(""), &runtime, error);
  const weft_str version = weft_version();
  printf("%d %d %.*s\\n", (int)status, runtime != NULL, (int)version.size, version.data);
  weft_runtime_destroy(runtime);
  weft_error_destroy(error);
  return 0;
}
"""
problems = []


def expect(true, text):
    if not true:
        problems.append(text)


def run(*command, **more):
    return subprocess.run(command, text=True, capture_output=True, **more)


def must(*command):
    done = run(*command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def abi_version(root):
    with open(os.path.join(root, "sdk/include/weft/abi_version.h"), encoding="utf-8") as file:
        return [int(number) for number in re.findall(r"#define WEFT_ABI_(?:MAJOR|MINOR) (\d+)", file.read())]


def check_names(root, libraries, readelf):
    major, minor = abi_version(root)
    soname = re.findall(r"\(SONAME\).*\[(.*)\]", must(readelf, "-dW", os.path.join(libraries, "libweft.so")))
    expect(soname == [f"libweft.so.{major}"], f"the soname is {soname}, must be libweft.so.{major}")
    file = f"libweft.so.{major}.{minor}"
    for link in ("libweft.so", f"libweft.so.{major}"):
        target = os.path.basename(os.path.realpath(os.path.join(libraries, link)))
        expect(target == file, f"{link} leads to {target}, must lead to {file}")
    nodes = re.findall(r"Name: (WEFT_\S+)", must(readelf, "-VW", os.path.join(libraries, "libweft.so")))
    expect("WEFT_0.2" in nodes, f"the versions are {sorted(set(nodes))}, must have WEFT_0.2")


# Links PROGRAM with a library of these names and nodes, and runs it with the library of `libraries`.
def run_program(root, libraries, cc, soname, nodes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("stubs.c", STUBS), ("program.c", PROGRAM), ("nodes.map", nodes)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        include = ["-I", os.path.join(root, "sdk/include")]
        script = [f"-Wl,--version-script={folder}/nodes.map"] if nodes else []
        stub = os.path.join(folder, "libweft.so")
        must(cc, *include, "-shared", "-fPIC", f"-Wl,-soname,{soname}", *script, "-o", stub, os.path.join(folder, "stubs.c"))
        program = os.path.join(folder, "program")
        must(cc, *include, "-o", program, os.path.join(folder, "program.c"), stub)
        return run(program, env={**os.environ, "LD_LIBRARY_PATH": libraries})


def main():
    root, libraries, cc, readelf = sys.argv[1:]
    check_names(root, libraries, readelf)
    for what, soname, nodes in (("0.2", "libweft.so.0", FIRST), ("before there were versions", "libweft.so", "")):
        done = run_program(root, libraries, cc, soname, nodes)
        good = done.returncode == 0 and not done.stderr and re.fullmatch(r"0 1 \d+\.\d+\.\d+\n", done.stdout)
        expect(good, f"a program that was linked with the library of {what}: status {done.returncode}, {done.stdout}{done.stderr}")
    later = FIRST.replace("0.2", "0.999")
    done = run_program(root, libraries, cc, "libweft.so.0", later)
    expect(done.returncode != 0 and "WEFT_0.999" in done.stderr,
           f"a program that asks for WEFT_0.999: status {done.returncode}, {done.stdout}{done.stderr}")
    print("\n".join(problems) or "programs that were linked before run; one that asks for a later version is refused")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
