"""Damage: bytes, JSON and safetensors files, changed at random."""
import copy
import json
import os
import random
import struct

NUMBERS = [0, -1, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -2**63, -2**64, 0.5, -0.0,
           1e-320, 1e308, 12.0, 1e18]
OTHERS = [None, True, False, "", "12", "nan", "\u0000", "x" * 5000, "../..", [], {}, [[]], [1, 2, 3], {"a": 1}]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def truncated(rng, data):
    return data[:rng.choice([0, 1, 7, 8, 9, rng.randrange(len(data) + 1), max(0, len(data) - rng.randint(1, 64))])]


def flipped(rng, data, begin=0, end=None):
    """One to eight bits or bytes of data[begin:end], changed."""
    data, end = bytearray(data), len(data) if end is None else end
    for _ in range(rng.randint(1, 8) if end > begin else 0):
        at = rng.randrange(begin, end)
        data[at] = data[at] ^ (1 << rng.randrange(8)) if rng.random() < 0.5 else rng.randrange(256)
    return bytes(data)


def spliced(rng, data, begin=0, end=None):
    """A few bytes are taken out of data[begin:end], doubled, or random ones are put in."""
    end = len(data) if end is None else end
    at = rng.randint(begin, end)
    count = rng.randint(1, 40)
    piece = rng.choice([b"", data[at:at + count] * 2, bytes(rng.randrange(256) for _ in range(count))])
    return data[:at] + piece + data[min(end, at + count):]


def places(value, path=()):
    """The paths of everything in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, path + (key,))


def changed_value(rng, old):
    if isinstance(old, bool):
        return rng.choice([not old] + OTHERS + NUMBERS)
    if isinstance(old, (int, float)) and rng.random() < 0.6:
        return rng.choice(NUMBERS + [old + 1, old - 1, old * 2, -old, float(old)])
    if isinstance(old, str) and old and rng.random() < 0.5:
        at = rng.randrange(len(old))
        other = old[:at] + rng.choice("aZ0./\u00e9\u0000 ") + old[at + 1:]
        return rng.choice([other, old.upper(), old + "x", old[:-1]])
    return copy.deepcopy(rng.choice(OTHERS + NUMBERS))


def changed_json(rng, value):
    """A copy with one place changed, removed, doubled, or exchanged with another; and what was done."""
    value = copy.deepcopy(value)
    paths = [path for path in places(value) if path]
    if not paths or rng.random() < 0.03:
        return rng.choice(OTHERS + NUMBERS), "the whole is another value"
    path = rng.choice(paths)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    key, where = path[-1], "/".join(map(str, path))
    how = rng.random()
    if how < 0.2:
        del parent[key]
        return value, f"{where} is removed"
    if how < 0.3:
        if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        else:
            parent[str(key) + "x"] = parent.pop(key)
        return value, f"{where} is doubled or renamed"
    if how < 0.4:
        others = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        other = rng.choice(others)
        parent[key], parent[other] = parent[other], parent[key]
        return value, f"{where} and {other} are exchanged"
    parent[key] = changed_value(rng, parent[key])
    return value, f"{where} is {json.dumps(parent[key])[:40]}"


def changed_json_text(rng, data):
    """The bytes of a JSON file, changed as JSON or as text."""
    how = rng.random()
    if how < 0.7:
        value, what = changed_json(rng, json.loads(data))
        return json.dumps(value).encode(), what
    if how < 0.75:
        return b"[" * 200000, "200000 brackets"
    if how < 0.8:
        return b"\xef\xbb\xbf" + data, "a byte order mark"
    if how < 0.85:
        return data.replace(b"1", b"NaN", 1), "a NaN"
    return rng.choice([truncated, flipped, spliced])(rng, data), "other bytes"


POSITIONS = {"step", "steps", "epoch", "batch", "last_step"}  # keys of state.json that count steps and batches


def differs_in_positions(old, new, key=None):
    """Whether two JSON values are equal, apart from positions, which are small in the second one."""
    if key in POSITIONS and type(old) is int and type(new) is int:
        return old == new or 0 <= new <= 1000
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(differs_in_positions(old[name], new[name], name) for name in old)
    if isinstance(old, list):
        return len(old) == len(new) and all(map(differs_in_positions, old, new))
    return old == new


def parsed(text):
    """The JSON value of a text that may be damaged. Raises ValueError where there is none that Python reads."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_another_position(right, changed):
    """Whether a changed state.json says that the training was at another step or batch, which nothing else reveals."""
    try:
        right, changed = json.loads(right), parsed(changed)
    except ValueError:
        return False
    return right != changed and differs_in_positions(right, changed)


def header_of(data):
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size]), data[8 + size:]


def safetensors(header, body):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def exchanges_elements(header, changed):
    """Whether a header differs from a right one only in which tensor has which elements."""
    if changed == header or not isinstance(changed, dict) or changed.keys() != header.keys():
        return False
    def without_places(entries):
        return {name: {key: value for key, value in entry.items() if key != "data_offsets"}
                for name, entry in entries.items() if isinstance(entry, dict)}
    def places_of(entries):
        return sorted(str(entry.get("data_offsets")) for entry in entries.values() if isinstance(entry, dict))
    return without_places(changed) == without_places(header) and places_of(changed) == places_of(header)


def changed_safetensors(rng, data, may_exchange):
    """A safetensors file with a changed header, length or end. Elements of tensors stay as they are, and tensors
    change places in the header only where that is to be found out."""
    header, body = header_of(data)
    begin = len(data) - len(body)
    how = rng.random()
    if how < 0.5:
        changed, what = changed_json(rng, header)
        while not may_exchange and exchanges_elements(header, changed):
            changed, what = changed_json(rng, header)
        return safetensors(changed, body), what
    if how < 0.6:
        size = rng.choice([0, 1, 8, begin - 9, begin - 7, len(data), 2**31, 2**62, 2**63, 2**64 - 1,
                           rng.getrandbits(64)])
        return struct.pack("<Q", size % 2**64) + data[8:], f"the header's length is {size}"
    if how < 0.75:
        return flipped(rng, data, 0, begin), "bytes of the header"
    if how < 0.8:
        return spliced(rng, data, 8, begin), "a part of the header"
    if how < 0.9:
        return truncated(rng, data), "truncated"
    return data + bytes(rng.randrange(1, 4096)), "bytes behind the end"


def exchanged(rng, folder, names):
    """Two files of a folder change places."""
    first, second = rng.sample(names, 2)
    paths = [os.path.join(folder, name) for name in (first, second)]
    os.rename(paths[0], paths[0] + ".other")
    os.rename(paths[1], paths[0])
    os.rename(paths[0] + ".other", paths[1])
    return f"{first} and {second} changed places"


def misplaced(rng, path):
    """The file is gone, or something else stands there."""
    how = rng.choice(["missing", "a folder", "a link to itself", "a link to nowhere", "empty"])
    os.remove(path)
    if how == "a folder":
        os.mkdir(path)
    elif how == "a link to itself":
        os.symlink(os.path.basename(path), path)
    elif how == "a link to nowhere":
        os.symlink("/nowhere/at/all", path)
    elif how == "empty":
        write(path, b"")
    return how


def drawn_headers(rng, header, may_exchange):
    """Files that have another header than this one, which they can be read with."""
    files = (changed_safetensors(rng, safetensors(header, b"\1" * 16), may_exchange) for _ in range(2000))
    return [data for data, what in files if what.endswith("are exchanged")]


def prove():
    """Mutations change something, and nothing that is no part of the header."""
    rng = random.Random(1)
    data = safetensors({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"\1" * 8)
    changed = [changed_safetensors(rng, data, True)[0] for _ in range(300)]
    same = sum(item == data for item in changed)
    values = sum(item[:-8] == data[:-8] and len(item) == len(data) and item != data for item in changed)
    pair = {"v": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}
    exchanged_pair, moved = {"v": pair["w"], "w": pair["v"]}, {"v": pair["v"], "w": pair["v"]}
    exchanges = exchanges_elements(pair, exchanged_pair) and not exchanges_elements(pair, moved)
    drawn = [[exchanges_elements(pair, header_of(item)[0]) for item in drawn_headers(rng, pair, may)]
             for may in (True, False)]
    exchanges = exchanges and any(drawn[0]) and not any(drawn[1])
    state = b'{"step": 3, "version": 1, "data": {"batch": 9, "shuffle": true}}'
    moves = [is_another_position(state, text) for text in (
        state.replace(b"3", b"2"), state.replace(b"9", b"0"), state, state.replace(b"3", b"-1"),
        state.replace(b"3", b"4000000000"), state.replace(b"3", b"x"), state.replace(b"1", b"2"), b"[" * 200000)]
    texts = len({changed_json_text(rng, b'{"a": 1, "b": [1, 2], "c": "text"}')[0] for _ in range(200)})
    print(f"mutations: {same} of 300 files are as they were, {values} have other elements, {texts} texts of 200 differ")
    return same < 30 and values == 0 and texts > 50 and exchanges and moves == 2 * [True] + 6 * [False]
