#!/usr/bin/env python3
"""The test that weft_add_plugin gives to every author (sdk/cmake/WeftPluginCheck.cmake) finds what is wrong with a library.

  prove_plugin_check.py ROOT CC CMAKE NM READELF
Each library here is bad in one way; a good one passes. Unique symbols need g++, which alone makes them.
"""
import os
import shutil
import subprocess
import sys
import tempfile

GOOD_LINK = ["-Wl,-z,relro,-z,now"]
ENTRY = '__attribute__((visibility("default"))) int weft_plugin_query_v1(void) { return 0; }\n'


def call(function):
    """The source of a library that imports a function."""
    return f"int {function}(void);\n" + ENTRY.replace("0;", function + "();")


SHOWN = '__attribute__((visibility("default"))) '
# source, tier, more options of the compiler, what the check must say ("" for nothing).
CASES = {
    "good": (ENTRY, "c", GOOD_LINK, ""),
    "exports_more": (ENTRY + SHOWN + "int helper(void) { return 1; }\n", "c", GOOD_LINK, "exports more than its entry"),
    "exports_nothing": ("int helper(void) { return 1; }\n", "c", GOOD_LINK, "does not export weft_plugin_query_v1"),
    "imports_weft": ("int weft_log(void);\n" + ENTRY.replace("0;", "weft_log();"), "torch", GOOD_LINK, "imports weft_log"),
    "needs_libtorch": (ENTRY, "c", ["-Wl,--no-as-needed", "{stubs}/libtorch_cpu.so", *GOOD_LINK], "needs libtorch_cpu.so"),
    "torch_may_need_libtorch": (ENTRY, "torch", ["-Wl,--no-as-needed", "{stubs}/libtorch_cpu.so", *GOOD_LINK], ""),
    "needs_libstdcxx": (ENTRY, "c", ["-Wl,--no-as-needed", "{stubs}/libstdc++.so.6", *GOOD_LINK], "needs libstdc++.so.6"),
    "needs_the_engine": (ENTRY, "torch", ["-Wl,--no-as-needed", "{stubs}/libweft_engine.so", *GOOD_LINK],
                         "needs libweft_engine.so"),
    "native_may_need_the_engine": (ENTRY, "native", ["-Wl,--no-as-needed", "{stubs}/libweft_engine.so", *GOOD_LINK], ""),
    "torch_may_not_need_cuda": (ENTRY, "torch", ["-Wl,--no-as-needed", "{stubs}/libtorch_cuda.so", *GOOD_LINK],
                                "needs libtorch_cuda.so"),
    "native_may_need_cuda": (ENTRY, "native", ["-Wl,--no-as-needed", "{stubs}/libtorch_cuda.so", *GOOD_LINK], ""),
    "needs_a_private_library": (ENTRY, "native", ["-Wl,--no-as-needed", "{stubs}/libprivate.so", *GOOD_LINK],
                                "needs libprivate.so"),
    "stable_may_need_libtorch": (ENTRY, "stable", ["-Wl,--no-as-needed", "{stubs}/libtorch_cpu.so", *GOOD_LINK], ""),
    "stable_may_call_the_c_shim": (call("aoti_torch_get_numel"), "stable", GOOD_LINK, ""),
    "stable_may_use_the_standard_library": (call("_ZNSt12__basic_fileIcED1Ev"), "stable", GOOD_LINK, ""),
    "stable_calls_c10": (call("_ZN3c1014_SmallVectorBaseIjE8grow_podEPvmm"), "stable", GOOD_LINK, "imports _ZN3c10"),
    "stable_calls_at": (call("_ZN2at4_ops6detach4callERKNS_6TensorE"), "stable", GOOD_LINK, "imports _ZN2at"),
    "stable_needs_the_engine": (ENTRY, "stable", ["-Wl,--no-as-needed", "{stubs}/libweft_engine.so", *GOOD_LINK],
                                "needs libweft_engine.so"),
    "has_rpath": (ENTRY, "c", ["-Wl,-rpath,/opt/x", *GOOD_LINK], "search path of its own"),
    "binds_late": (ENTRY, "c", ["-Wl,-z,relro", "-Wl,-z,lazy"], "not linked with -z now"),
    "no_relro": (ENTRY, "c", ["-Wl,-z,norelro", "-Wl,-z,now"], "not linked with -z relro"),
}
UNIQUE = ('extern "C" ' + ENTRY.replace("0;", "++counter();").replace("(void)", "()"))
UNIQUE = SHOWN + "inline int& counter() { static int value; return value; }\n" + UNIQUE


def build(compiler, language, source, options, library):
    command = [compiler, "-x", language, "-", "-x", "none", "-shared", "-fPIC", "-fvisibility=hidden", *options, "-o", library]
    done = subprocess.run(command, input=source, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")


def main():
    root, cc, cmake, nm, readelf = sys.argv[1:]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for stub in ("libtorch_cpu.so", "libstdc++.so.6", "libweft_engine.so", "libprivate.so", "libtorch_cuda.so"):
            build(cc, "c", "int stub;\n", [f"-Wl,-soname,{stub}"], os.path.join(folder, stub))

        def check(name, compiler, language, source, tier, options, wanted):
            library = os.path.join(folder, name + ".so")
            build(compiler, language, source, [option.format(stubs=folder) for option in options], library)
            checks = os.path.join(folder, name + ".cmake")
            with open(checks, "w", encoding="utf-8") as file:
                file.write(f"weft_check([==[{library}]==] {tier})\n")
            done = subprocess.run([cmake, f"-DCHECKS={checks}", f"-DNM={nm}", f"-DREADELF={readelf}", "-P",
                                   os.path.join(root, "sdk/cmake/WeftPluginCheck.cmake")], text=True, capture_output=True)
            said = " ".join(done.stderr.split())
            if (done.returncode == 0) != (wanted == "") or wanted not in said:
                print(f"{name}: exit code {done.returncode}, wanted \"{wanted}\" in: {said}")
                return 1
            return 0

        for name, case in CASES.items():
            failures += check(name, cc, "c", *case)
        count = len(CASES)
        gxx = shutil.which("g++")
        if gxx:
            failures += check("unique", gxx, "c++", UNIQUE, "native", ["-nostdlib", *GOOD_LINK], "has a unique symbol")
            count += 1
    print(f"{count - failures} of {count} libraries judged rightly" + ("" if gxx else "; no g++ to make a unique symbol"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
