"""What TensorBoard shows of a folder of event files, by the definitions of TFRecord and protobuf.

    event_files.py FOLDER    prints a JSON object: of each tag the pairs of step and value
"""

import json
import struct
import sys
from pathlib import Path


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        (length, length_crc) = struct.unpack_from("<QI", data)
        assert length_crc == masked_crc32c(data[:8]), "checksum of a length"
        record = data[12:12 + length]
        assert struct.unpack_from("<I", data, 12 + length) == (masked_crc32c(record),), "checksum of a record"
        yield record
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """The number and value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire_type = key & 7
        if wire_type == 0:
            value, at = varint(data, at)
        elif wire_type == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            form = {1: "<d", 5: "<f"}[wire_type]
            (value,), at = struct.unpack_from(form, data, at), at + struct.calcsize(form)
        yield key >> 3, value


def shown(folder):
    by_tag = {}
    for path in sorted(Path(folder).glob("events.out.tfevents.*")):
        for number, record in enumerate(records(path.read_bytes())):
            event = {2: 0, **dict(fields(record))}
            assert event[1] > 1.5e9, "wall time"
            assert (event.get(3) == b"brain.Event:2") == (number == 0), "version of the file"
            if 7 in event and dict(fields(event[7])) == {1: 1}:  # SessionLog, START
                by_tag = {tag: [pair for pair in pairs if pair[0] < event[2]] for tag, pairs in by_tag.items()}
            for field, value in fields(event.get(5, b"")):
                assert field == 1
                value = dict(fields(value))
                by_tag.setdefault(value[1].decode(), []).append([event[2], value[2]])
    return by_tag


print(json.dumps(shown(sys.argv[1])))
