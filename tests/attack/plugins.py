"""Kind "plugin": damaged libraries, manifests and folders. Listing and validating them never crashes."""
import hashlib
import json
import os
import shutil

import mutate


def shipped(weft):
    """The folders of the plugins that stand beside the command."""
    root = os.path.join(os.path.dirname(os.path.dirname(weft)), "lib", "weft")
    return sorted(place for place, _, files in os.walk(root) if "plugin.json" in files)


def tell_digests(folder):
    """Writes the digests of the libraries as they are now into the manifest, so that they do not stop the loader."""
    path = os.path.join(folder, "plugin.json")
    manifest = json.loads(mutate.read(path))
    for library in manifest["libraries"]:
        data = mutate.read(os.path.join(folder, library["file"]))
        for key, value in library.items():
            if isinstance(value, str) and len(value) == 64:
                library[key] = hashlib.sha256(data).hexdigest()
    mutate.write(path, json.dumps(manifest).encode())


def damage_library(case, folder, name):
    rng, path = case.random, os.path.join(folder, name)
    data = mutate.read(path)
    how = rng.choice(["header", "bytes", "truncated", "text", "misplaced", "other"])
    if how == "misplaced":
        return f"{name}: {mutate.misplaced(rng, path)}"
    if how == "header":
        data = mutate.flipped(rng, data, 0, 64 + 56 * 12)  # the ELF header and the program headers
    elif how == "bytes":
        data = mutate.flipped(rng, data)
    elif how == "truncated":
        data = mutate.truncated(rng, data)
    elif how == "text":
        data = b"#!/bin/sh\necho no library\n"
    else:
        data = mutate.read(case.bench.weft)
    os.chmod(path, 0o755)
    mutate.write(path, data)
    if rng.random() < 0.8:
        tell_digests(folder)
    return f"{name}: {how}"


def damage_manifest(case, folder):
    rng, path = case.random, os.path.join(folder, "plugin.json")
    if rng.random() < 0.1:
        return "plugin.json: " + mutate.misplaced(rng, path)
    data, what = mutate.changed_json_text(rng, mutate.read(path))
    mutate.write(path, data)
    return "plugin.json: " + what


def damage_modes(case, folder):
    rng = case.random
    target = rng.choice([folder, os.path.dirname(folder), *[os.path.join(folder, name) for name in os.listdir(folder)]])
    mode = rng.choice([0o777, 0o775, 0o000, 0o666, 0o4755, 0o222])
    os.chmod(target, mode)
    return f"{os.path.basename(target)} has mode {mode:o}"


def run(case):
    rng, bench = case.random, case.bench
    source = rng.choice(shipped(bench.weft))
    identity, version = source.split(os.sep)[-2:]
    folder = os.path.join(case.path("plugins"), identity, version)
    shutil.copytree(source, folder)
    libraries = sorted(name for name in os.listdir(folder) if name.endswith(".so"))
    library = rng.choice(libraries)
    what = rng.random()
    if what < 0.4:
        case.what = damage_library(case, folder, library)
    elif what < 0.85:
        case.what = damage_manifest(case, folder)
    else:
        case.what = damage_modes(case, folder)
    case.what = f"{identity}/{case.what}"
    verb = rng.choice([["validate", "--interface-only", os.path.join(folder, library)], ["list"], ["doctor"], ["show", identity],
                       ["list", "--json"], ["doctor", "--json"], ["validate", "--interface-only", os.path.join(folder, library), "--json"]])
    outcome = case.weft(["plugins", *verb], {"WEFT_PLUGIN_ADD_PATH": case.path("plugins")})
    if verb[0] in ("list", "doctor"):
        case.expect(outcome.code == 0, f"one bad plugin makes {verb[0]} fail")
        case.expect("torch_ddp" in outcome.output, f"one bad plugin hides others in {verb[0]}")
    if "--json" in verb and outcome.code == 0:
        try:
            json.loads(outcome.output)
        except ValueError:
            case.expect(False, "the output of --json is no JSON")
    for place, folders, files in os.walk(case.folder):  # so that the folder can be removed
        for path in (os.path.join(place, name) for name in folders + files):
            if not os.path.islink(path):
                os.chmod(path, 0o755)
