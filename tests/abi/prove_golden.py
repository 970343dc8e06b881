#!/usr/bin/env python3
"""Each change of the C headers that breaks or extends the ABI is found by `sdk/abi/regenerate --check`.

  prove_golden.py ROOT CC
"""
import os
import shutil
import subprocess
import sys
import tempfile

LOG = "  void (*log)(uint32_t level, weft_str plugin_id, weft_str text);"
EXTENSION = "  const void* (*get_extension)(weft_str id);\n} weft_host;"
# What is changed: header, old text, new text, part of the message.
CHANGES = {
    "a function is appended": ("host.h", EXTENSION, EXTENSION.replace("}", "  void (*more)(void);\n}"),
                               "name its new last member"),
    "a parameter is wider": ("host.h", LOG, LOG.replace("uint32_t", "uint64_t"), "(*log)(uint64_t"),
    "a function changes its place": ("host.h", LOG, "", "must be function number"),
    "a function is inserted": ("host.h", LOG, LOG + "\n  void (*more)(void);", "must be function number"),
    "two functions are swapped": ("training.h", "(*unit_count)(weft_training* training);\n  weft_unit*",
                                  "(*param_count)(weft_training* training);\n  weft_unit*", "duplicate member"),
    "two members are swapped": ("plugin.h", "uint32_t abi_minor;   /*", "uint32_t tier; uint32_t abi_minor; /*",
                                "duplicate member"),
    "a member is renamed": ("strategy.h", "uint32_t partition_axes;", "uint32_t split_axes;", "split_axes"),
    "a member is inserted": ("tensor.h", "  uint32_t dtype;", "  uint32_t layout, reserved;\n  uint32_t dtype;",
                             "layout"),
    "a member is narrower": ("types.h", "  double real;", "  float real;", "float real"),
    "a struct ends in padding": ("types.h", "text;\n} weft_kv;", "text;\n  uint32_t more;\n} weft_kv;",
                                 "pad it explicitly"),
    "a size is not first": ("host.h", "  uint64_t struct_size;", "  uint64_t version, struct_size;",
                            "must begin with uint64_t struct_size"),
    "a constant is renumbered": ("types.h", "WEFT_ABORTED 10", "WEFT_ABORTED 16", "WEFT_ABORTED 16"),
    "a constant is added": ("types.h", "#define WEFT_BOOL 10", "#define WEFT_BOOL 10\n#define WEFT_U16 11", "WEFT_U16"),
    "an id changes": ("comm.h", "SERVICES \"weft.comm/1\"", "SERVICES \"weft.comm/2\"", "weft.comm/2"),
    "a status is wider": ("types.h", "typedef int32_t weft_status", "typedef int64_t weft_status",
                          "int64_t weft_status"),
    "an exported function changes": ("runtime.h", "WEFT_EXPORT weft_str weft_version(void)",
                                     "WEFT_EXPORT weft_str weft_version(uint32_t part)", "weft_version(uint32_t)"),
    "a struct is missing in structs.h": ("tensor.h", "typedef struct weft_tensor weft_tensor;",
                                         "typedef struct weft_tensor weft_tensor;\n"
                                         "typedef struct weft_box {\n  uint64_t struct_size;\n} weft_box;", "weft_box"),
    "a new minor without its golden": ("abi_version.h", "MINOR 2", "MINOR 3", "run sdk/abi/regenerate"),
}


def main():
    root, cc = sys.argv[1:]
    script = os.path.join(root, "sdk/abi/regenerate")
    headers = os.path.join(root, "sdk/include/weft")
    failures = 0
    for name, (header, old, new, message) in CHANGES.items():
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(headers, os.path.join(folder, "weft"))
            path = os.path.join(folder, "weft", header)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if text.count(old) != 1:
                sys.exit(f"{name}: {header} has {text.count(old)} times: {old}")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
            done = subprocess.run([script, "--check", "--cc", cc, "--include", folder], text=True, capture_output=True)
        said = done.stdout + done.stderr
        if done.returncode == 77:
            print(said)
            return 77
        if done.returncode == 0 or message not in said:
            failures += 1
            print(f"not found: {name}; exit code {done.returncode}, wanted \"{message}\" in:\n{said}")
    print(f"{len(CHANGES) - failures} of {len(CHANGES)} changes found")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
