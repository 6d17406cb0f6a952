#!/usr/bin/env python3
"""Writes a seed corpus for shard_fuzz: one small valid input for each parser and variant.

    make_shard_corpus.py FOLDER

Standard library only. The first byte of each file picks the parser (see shard_fuzz.cc).
"""

import io
import json
import os
import struct
import sys
import zipfile


def safetensors(tensors, metadata, alignment=64):
    """tensors: (name, dtype, shape, data)."""
    header, data = {"__metadata__": metadata}, b""
    for name, dtype, shape, part in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % alignment)
    return struct.pack("<Q", len(text)) + text + data


def int64s(*values):
    return struct.pack(f"<{len(values)}q", *values)


def shard(dtype, size, string_ids, payloads):
    tensors = [("tokens", dtype, [3, 8], bytes(24 * size)), ("offsets", "I64", [3], int64s(0, 1, 3))]
    if string_ids:
        tensors += [("id_offsets", "I64", [3], int64s(0, 1, 4)), ("id_bytes", "U8", [4], b"abcd")]
    else:
        tensors += [("ids", "I64", [2], int64s(-1, 7))]
    if payloads:
        text = b'{"t":"x"}'
        tensors += [
            ("payload_offsets", "I64", [3], int64s(0, 0, len(text))),
            ("payload_bytes", "U8", [len(text)], text),
        ]
    metadata = {"format": "maxsim-shard", "format_version": "1"}
    if dtype == "I8":
        tensors.append(("scales", "F32", [2], struct.pack("<2f", 0.5, 0)))
        metadata |= {"rotation": "hadamard", "rotation_seed": "17"}
    return safetensors(tensors, metadata)


def npy(version, descr, shape, data):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    fixed = 10 if version == 1 else 12
    text += b" " * (63 - (fixed + len(text)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def npz(compression):
    members = {
        "tokens.npy": npy(1, "<f2", "(3, 8)", bytes(48)),
        "lengths.npy": npy(1, "|u1", "(2,)", bytes([1, 2])),
        "ids.npy": npy(1, "<i4", "(2,)", struct.pack("<2i", 5, -6)),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            with archive.open(name, "w", force_zip64=name == "tokens.npy") as member:
                member.write(data)
    return buffer.getvalue()


def manifest(storage):
    entry = {
        "file": "a.safetensors",
        "num_documents": 2,
        "num_tokens": 3,
        "num_bytes": 400,
        "checksum": "xxh3-128:" + "0" * 32,
    }
    return json.dumps(
        {
            "format": "maxsim-collection",
            "format_version": 1,
            "name": "x",
            "generation": 1,
            "dim": 8,
            "storage": storage,
            **({"rotation": {"kind": "hadamard", "seed": 17}} if storage == "i8" else {}),
            "id_type": "int64",
            "has_payloads": False,
            "num_documents": 2,
            "num_tokens": 3,
            "created_by": "seed",
            "created_at": "2026-01-01T00:00:00Z",
            "shards": [entry],
            "later": {"a": [1, {"b": None}]},
        }
    ).encode()


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    seeds = {
        "s_plain": safetensors([("a", "F16", [2, 3], bytes(12)), ("b", "I64", [1], bytes(8))], {"k": "v"}),
        "n_v1": npy(1, "<f2", "(2, 3)", bytes(12)),
        "n_v2": npy(2, "<i8", "(2,)", bytes(16)),
        "n_v3": npy(3, "|u1", "()", bytes(1)),
        "m_manifest": manifest("f16"),
        "m_i8": manifest("i8"),
        "d_string": b'{"id":"a","title":"x \\u00e9","n":[1,{"y":-2.5e3}],"z":null}',
        "d_integer": b'{"title":"x","id":-17}',
        "z_stored": npz(zipfile.ZIP_STORED),
        "z_deflated": npz(zipfile.ZIP_DEFLATED),
        "Z_stored": npz(zipfile.ZIP_STORED),
        "Z_deflated": npz(zipfile.ZIP_DEFLATED),
        "I_stored": npz(zipfile.ZIP_STORED),
        "I_deflated": npz(zipfile.ZIP_DEFLATED),
        "I_lengths": safetensors(
            [("tokens", "F32", [2, 8], bytes(64)), ("lengths", "I64", [1], int64s(2)), ("ids", "U8", [1], b"\x07")], {}
        ),
        "I_scale_a_token": safetensors(
            [
                ("tokens", "I8", [3, 8], bytes(range(24))),
                ("lengths", "I64", [2], int64s(2, 1)),
                ("scales", "F32", [3, 1], struct.pack("<3f", 0.5, 1, 2)),
            ],
            {},
        ),
        "I_f8": safetensors([("tokens", "F8_E4M3", [2, 8], bytes(range(16))), ("lengths", "I64", [1], int64s(2))], {}),
        "I_f8_scale_a_document": safetensors(
            [
                ("tokens", "F8_E4M3", [3, 8], bytes(range(24))),
                ("lengths", "I64", [2], int64s(2, 1)),
                ("scales", "F16", [2], struct.pack("<2e", 0.5, 1)),
            ],
            {},
        ),
    }
    for dtype, size in (("F16", 2), ("BF16", 2), ("F32", 4), ("I8", 1)):
        for string_ids in (False, True):
            for payloads in (False, True):
                seeds[f"S_{dtype}_{string_ids}_{payloads}"] = shard(dtype, size, string_ids, payloads)
                seeds[f"I_{dtype}_{string_ids}_{payloads}"] = shard(dtype, size, string_ids, payloads)
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(name[0].encode() + data)


if __name__ == "__main__":
    main()
