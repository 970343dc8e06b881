#!/usr/bin/env python3
"""What the built libraries export and need, beyond what plugin.<id>.abi asks of each plugin.

  check_built.py ROOT LIBRARIES CC NM READELF   LIBRARIES is lib/ of a build tree or of an installed one

- a shard policy has one symbol, needs no library and imports nothing; its source also builds with C99 and no C library, and loads;
- the engine exports its C entry and its C++ API, libweft neither C++ nor a need of libtorch;
- every plugin of this tree was built, and its manifest names the libraries beside it. The device cuda is built where CUDA is;
- no library of Weft needs one of CUDA's, except those of devices.
"""
import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

ENTRY = "weft_plugin_query_v1"
INVALID_ARGUMENT = 3
CUDA = re.compile(r"lib(torch_cuda|c10_cuda|cuda|cudart|cudnn|cublas|cublasLt|cufft|cufile|curand|cusolver|cusparse|cusparseLt|cupti"
                  r"|nccl|nvrtc|nvJitLink|nvshmem\w*|nvToolsExt)\.so")
OPTIONAL = {"cuda"}
problems = []


def expect(true, text):
    if not true:
        problems.append(text)


class Library:
    def __init__(self, path, nm, readelf):
        self.path = path
        defined = [line.split() for line in self.run(nm, "-D", "--defined-only").splitlines()]
        self.defined = {name.split("@")[0]: kind for *_, kind, name in defined}
        # Weak ones are the C runtime's own, which a library without one lacks too.
        self.undefined = re.findall(r"^\s+U (\S+)", self.run(nm, "-D", "--undefined-only"), re.M)
        self.needed = re.findall(r"\(NEEDED\).*\[(.*)\]", self.run(readelf, "-dW"))

    def run(self, *command):
        return subprocess.run([*command, self.path], text=True, capture_output=True, check=True).stdout


def expect_no_cuda(library, name):
    found = [needed for needed in library.needed if CUDA.match(needed)]
    expect(not found, f"{name}: needs {found}, which only the library of a device may")


def check_policy(library, name):
    expect(set(library.defined) == {ENTRY}, f"{name}: exports {sorted(library.defined)}, must be {ENTRY} alone")
    expect(not library.needed, f"{name}: needs {library.needed}, must need no library")
    expect(not library.undefined, f"{name}: imports {library.undefined}, must import nothing")


def check_policy_source(root, source, cc, nm, readelf):
    name = os.path.relpath(source, root)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "policy.so")
        command = [cc, "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-shared", "-nostdlib",
                   "-fvisibility=hidden", "-Wl,-z,defs", '-DWEFT_PLUGIN_ID="x"', '-DWEFT_PLUGIN_VERSION="0.1.0"',
                   "-I", os.path.join(root, "sdk/include"), "-o", path, source]
        done = subprocess.run(command, text=True, capture_output=True)
        if done.returncode != 0:
            problems.append(f"{name} does not build with C99 and no C library:\n{done.stderr}")
            return
        check_policy(Library(path, nm, readelf), name)
        query = getattr(ctypes.CDLL(path), ENTRY)
        query.argtypes = [ctypes.c_void_p] * 3
        status = query(None, None, None)
        expect(status == INVALID_ARGUMENT, f"{name}: a query without a request gives {status}, must be {INVALID_ARGUMENT}")


def check_two_libraries(libraries, nm, readelf):
    engine = Library(os.path.join(libraries, "libweft_engine.so"), nm, readelf)
    exported = sorted(name for name in engine.defined if not name.startswith("_Z"))
    expect(exported == ["weft_engine_v0"], f"libweft_engine.so exports {exported} in C, must be weft_engine_v0 alone")
    foreign = re.compile(r"_ZT?[A-Z]*N?K?(St.*)?(3fmt|6spdlog|8nlohmann|5boost)")
    leaked = [name for name in engine.defined if re.match(foreign, name)]
    expect(not leaked, f"libweft_engine.so exports what it compiled in of other libraries: {leaked[:5]}")
    unique = [name for name, kind in engine.defined.items() if kind == "u"]
    expect(not unique, f"libweft_engine.so has unique symbols: {unique[:5]}")
    host = Library(os.path.join(libraries, "libweft.so"), nm, readelf)
    odd = sorted(name for name in host.defined if not re.match(r"weft_|WEFT_", name))
    expect(not odd, f"libweft.so exports {odd[:5]}, must be weft_* and version nodes alone")
    torch = [name for name in host.needed if re.match(r"lib(torch|c10|weft_engine)", name)]
    expect(not torch, f"libweft.so needs {torch}")
    for path in glob.glob(os.path.join(libraries, "libweft*.so")):
        expect_no_cuda(Library(path, nm, readelf), os.path.basename(path))


def check_plugins(root, libraries, nm, readelf):
    folders = {os.path.basename(os.path.dirname(path)) for kind in ("plugins", "policies")
               for path in glob.glob(os.path.join(root, kind, "*/plugin.json.in"))}
    built = {}
    for path in glob.glob(os.path.join(libraries, "weft/*/plugins/*/*/plugin.json")):
        with open(path, encoding="utf-8") as file:
            built.setdefault(json.load(file)["id"], []).append(path)
    lacking = sorted(folders - OPTIONAL - set(built))
    expect(not lacking, f"{libraries} lacks the plugins {lacking}")
    for manifests in built.values():
        for path in manifests:
            with open(path, encoding="utf-8") as file:
                manifest = json.load(file)
            for entry in manifest["libraries"]:
                library = Library(os.path.join(os.path.dirname(path), entry["file"]), nm, readelf)
                expect(set(library.defined) == {ENTRY}, f"{entry['file']}: exports {sorted(library.defined)[:5]}")
                if entry["kind"] == "shard_policy":
                    check_policy(library, entry["file"])
                if entry["kind"] != "device":
                    expect_no_cuda(library, entry["file"])
    return len(built)


def main():
    root, libraries, cc, nm, readelf = sys.argv[1:]
    sources = sorted(glob.glob(os.path.join(root, "policies/*/policy.c")))
    expect(sources, "there is no policies/*/policy.c")
    for source in sources:
        check_policy_source(root, source, cc, nm, readelf)
    check_two_libraries(libraries, nm, readelf)
    count = check_plugins(root, libraries, nm, readelf)
    print("\n".join(problems) or f"{count} plugins, {len(sources)} policies, the engine and libweft are as they must be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
