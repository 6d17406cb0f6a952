#!/usr/bin/env python3
"""Writes the binary seeds of the fuzz targets: small valid inputs for each variant of a format, in one folder per
target.

    make_seeds.py FOLDER

It needs the standard library only.
"""

import io
import json
import os
import struct
import sys
import zipfile


def safetensors(tensors, metadata, alignment=64):
    """Returns a safetensors file. `tensors` is a list of (name, dtype, shape, data)."""
    header, data = {"__metadata__": metadata}, b""
    for name, dtype, shape, part in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % alignment)
    return struct.pack("<Q", len(text)) + text + data


def int64s(*values):
    return struct.pack(f"<{len(values)}q", *values)


def shard(dtype, size, string_ids, payloads, ordinals=()):
    tensors = [("tokens", dtype, [3, 8], bytes(24 * size)), ("offsets", "I64", [3], int64s(0, 1, 3))]
    if ordinals:
        tensors.append(("ordinals", "I64", [2], int64s(*ordinals)))
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


def residual_shard(nbits):
    """Returns a shard file of residual codes with 2 documents, 3 tokens, 16 columns and 2 centroids."""
    rows = b"".join(bytes(range(2 * nbits)) + struct.pack("<I", number) for number in (0, 1, 1))
    weights = [bucket / 2**nbits - 0.5 for bucket in range(2**nbits)]
    tensors = [
        ("tokens", "U8", [3, 2 * nbits + 4], rows),
        ("offsets", "I64", [3], int64s(0, 1, 3)),
        ("ids", "I64", [2], int64s(-1, 7)),
        ("bucket_weights", "F32", [2**nbits], struct.pack(f"<{2**nbits}f", *weights)),
        ("centroids", "F16", [2, 16], struct.pack("<32e", *[column / 32 for column in range(32)])),
    ]
    return safetensors(tensors, {"format": "maxsim-shard", "format_version": "1"})


def code_file(file, factors):
    """Returns an input of the target code_file: bytes that describe the layout, then a code file of this layout with 2
    documents and 3 tokens."""
    dim, documents, tokens = 40, 2, 3
    name, row_bytes = (("plane0", 8), ("plane1", 8), ("planes23", 16))[file]
    tensors = [(name, "U8", [tokens, row_bytes], bytes(range(tokens * row_bytes)))]
    if file == 0 and factors:
        tensors.append(("factors", "U8", [tokens], bytes([255, 7, 0])))
    if file == 0:
        tensors.append(("scales", "F32", [documents], struct.pack("<2f", 0.5, 0)))
    tensors.append(("bounds", "F16", [documents, 4], struct.pack("<8e", 1, 0.5, 1, 1.25, 0, 0, 0, 0)))
    metadata = {
        "format": "maxsim-codes",
        "format_version": "1",
        "originals": "f16",
        "dim": str(dim),
        "rotation": "hadamard",
        "rotation_seed": "0",
    }
    return bytes([file, dim, 0, factors, documents - 1, tokens - documents]) + safetensors(tensors, metadata)


def field_file(documents):
    """Returns an input of the target field_file: the number of documents minus 1, then a file with one field of each
    kind. Only the first document has values."""
    more, bits = documents - 1, bytes([1]) + bytes((documents + 7) // 8 - 1)
    tensors = [
        ("a.term_offsets", "I64", [3], int64s(0, 2, 4)),
        ("a.values", "U32", [documents], struct.pack(f"<{documents}I", 2, *[0] * more)),
        ("a.term_bytes", "U8", [4], b"deen"),
        ("b.term_offsets", "I64", [3], int64s(0, 1, 2)),
        ("b.offsets", "I64", [documents + 1], int64s(0, *[2] * documents)),
        ("b.values", "U32", [2], struct.pack("<2I", 0, 1)),
        ("b.term_bytes", "U8", [2], b"xy"),
        ("c.values", "I64", [documents], int64s(-7, *[0] * more)),
        ("c.present", "U8", [len(bits)], bits),
        ("d.values", "F64", [documents], struct.pack(f"<{documents}d", 0.5, *[0] * more)),
        ("d.present", "U8", [len(bits)], bits),
        ("e.values", "U8", [len(bits)], bits),
        ("e.present", "U8", [len(bits)], bits),
        ("f.values", "I64", [documents], int64s(1_000_000, *[0] * more)),
        ("f.present", "U8", [len(bits)], bits),
    ]
    metadata = {
        "format": "maxsim-fields",
        "format_version": "1",
        "fields": "a:keyword,b:keywords,c:integer,d:number,e:boolean,f:time",
    }
    return bytes([documents - 1]) + safetensors(tensors, metadata)


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


# These functions encode messages of maxsim.v1 from fields: pairs of a field number and a value, which is bytes, text,
# an integer or floats.


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        if isinstance(value, list):
            value = struct.pack(f"<{len(value)}f", *value)
        elif isinstance(value, str):
            value = value.encode()
        out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def matrix(dtype, rows, first=0.0):
    values = [(first + 3 * idx % 17 - 8) / 8 for idx in range(8 * rows)]
    if dtype == 1:
        data = struct.pack(f"<{len(values)}f", *values)
    elif dtype == 2:
        data = struct.pack(f"<{len(values)}e", *values)
    else:
        data = b"".join(struct.pack("<f", value)[2:] for value in values)
    return message((1, dtype), (2, rows), (3, 8), (4, data))


def requests():
    strings = message((1, message((1, "doc-3"), (1, "nobody"), (1, "doc-0"), (1, "doc-3"), (1, "doc-5"))))
    ints = message((2, message((1, int64s(1003, -1, 1000, 1003, 1004)))))
    whole = message((3, b""))
    inline = message((4, message((1, matrix(1, 2)), (1, matrix(2, 3, 1.0)), (1, matrix(3, 1, 2.0)))))
    one = (3, message((1, matrix(1, 2))))
    weighted = (3, message((1, matrix(2, 3)), (2, [1.0, -0.5, 0.0])))
    own = (3, message((1, matrix(3, 1)), (3, whole)))
    long = (3, message((1, matrix(1, 33, 1.0))))
    everything = [(5, 3), (8, 1), (9, 1)]
    return {
        "strings": message((1, "id-1"), (2, "f16"), one, (4, strings)),
        "payloads": message((2, "f16"), weighted, (4, strings), *everything),
        "ints": message((2, "bf16"), weighted, (4, ints), (6, 1), (7, 3)),
        "ints_fail": message((2, "bf16"), one, (4, ints), (6, 2)),
        "quantised": message((2, "i8"), one, weighted, (4, ints), *everything),
        "whole": message((2, "f32"), one, (4, whole), (5, 30)),
        "whole_long": message((2, "f32"), long, (4, whole)),
        "several": message((2, "f16"), one, own, weighted, (4, strings), (5, 2)),
        "inline": message((2, "f16"), one, (4, inline), (9, 1)),
        "inline_f32": message((2, "f32"), weighted, (4, inline)),
        "inline_quantised": message((2, "i8"), one, weighted, (4, inline), (9, 1)),
        "unknown_collection": message((2, "x"), one, (4, whole)),
        "no_candidates": message((2, "f16"), one),
    }


def query_result(hits, position_of, ids=None, payloads=False, alignments=0, missing=()):
    """Returns a QueryResult with the documents of these numbers, in this order. Scores begin with 1 and decrease."""
    names = lambda numbers: message(*((1, f"doc-{number}") for number in numbers))
    fields = []
    if ids == "strings":
        fields = [(1, names(hits))]
    elif ids == "ints":
        fields = [(2, message((1, int64s(*hits))))]
    fields.append((3, [1 - idx / 8 for idx in range(len(hits))]))
    fields.append((4, b"".join(varint(position_of(hit)) for hit in hits)))
    if payloads:
        fields += [(5, f'{{"n":{hit}}}') for hit in hits]
    if alignments:
        one = message((1, b"".join(varint(token) for token in range(alignments))), (2, [0.5] * alignments))
        fields += [(6, one)] * len(hits)
    if missing:
        fields.append((7, names(missing)) if ids == "strings" else (8, message((1, int64s(*missing)))))
    return message(*fields)


def answers(*results, generation=7):
    """Returns the answers of several parts to a request with one query. Each answer is preceded by its length."""
    encoded = [message((1, "r"), (2, generation), (3, result)) for result in results]
    return b"".join(struct.pack("<H", len(one)) + one for one in encoded)


def group_calls():
    """Returns inputs for group_calls_fuzz.cc: correct answers to each call, and answers with one changed field."""
    calls = ("upsert", "delete", "get", "explain", "info", "change")
    seeds = {}
    for number, call in enumerate(calls):
        for options in range(0, 16, 2):
            seeds[f"{call}_{options}"] = bytes([number, options])
        for field in range(8):
            # A change has four parts: number of the answer, number of the field, which of the field's values to change,
            # new value.
            change = bytes([field % 2, field, 3, field, 3, 200, 0, 192, 127])
            seeds[f"{call}_changed_{field}"] = bytes([number, field * 2 % 16]) + change
        seeds[f"{call}_bytes"] = bytes([number, 1, 2, 0, 16, 7, 0, 0])
    for options in (16, 20):
        seeds[f"delete_filter_{options}"] = bytes([1, options])
        for field in range(8):
            seeds[f"delete_filter_{options}_changed_{field}"] = bytes([1, options, field % 2, field, 3, 200])
    return seeds


def group_answers():
    """Returns inputs for group_answers_fuzz.cc, where the first four bytes of an input are described."""
    # Two parts share the documents 0 to 31. These documents belong to the first part, because of the slots of their
    # ids.
    strings = [0, 1, 2, 5, 6, 8, 10, 12, 16, 17, 20, 21, 23, 29, 30]
    ints = [2, 4, 5, 6, 7, 9, 13, 15, 16, 18, 19, 22, 25, 26, 27, 30, 31]
    candidates = [3, 30, 1, 4, 3, 31, 30, 9, 2]
    parts = lambda of_first, numbers: ([n for n in numbers if n in of_first], [n for n in numbers if n not in of_first])
    itself = lambda number: number
    head = lambda kinds, options=0, how=0, top_k=5: bytes([kinds, options, how, top_k - 1])
    seeds = {}
    for name, first, option in (("strings", strings, 0), ("ints", ints, 16)):
        whole = [query_result(part[:5], itself, name) for part in parts(first, range(24))]
        seeds[f"whole_{name}"] = head(0, option) + answers(*whole)
        seeds[f"whole_{name}_live"] = head(0, option | 32) + answers(*whole, generation=0)
        lists = parts(first, candidates)
        listed = [
            query_result(
                [n for n in dict.fromkeys(part) if n < 24], part.index, name, missing=[n for n in dict.fromkeys(part) if n >= 24]
            )
            for part in lists
            if part
        ]
        seeds[f"listed_{name}"] = head(2, option, top_k=16) + answers(*listed)
        seeds[f"listed_{name}_fail"] = head(2, option | 8, top_k=16) + answers(*listed)
    seeds["whole_everything"] = head(0, 1 | 2) + answers(
        *(query_result(part[:5], itself, "strings", True, 2) for part in parts(strings, range(24)))
    )
    seeds["inline"] = head(1, 2) + answers(query_result([2, 0, 1], itself, alignments=2))
    seeds["lost_part"] = head(0, 0, 2) + answers(*(query_result(p[:5], itself, "strings") for p in parts(strings, range(24))))
    change = lambda where, what, idx, value: bytes([where, what, idx]) + struct.pack("<I", value)
    for kinds in (0, 1, 2, 4, 4 | 1, 4 | 8 | 2, 4 | 16 | 1):
        for options in (0, 1 | 2 | 4, 2 | 8, 32):
            seeds[f"right_{kinds}_{options}"] = head(kinds, options, 1, 9)
    bits = lambda value: struct.unpack("<I", struct.pack("<f", value))[0]
    seeds["changed_score"] = head(0, 0, 1) + change(0, 0, 2, bits(float("nan"))) + change(1, 0, 0, bits(float("inf")))
    seeds["changed_alignments"] = head(0, 0, 1) + change(0, 5, 0, 1)
    seeds["changed_id"] = head(2, 0, 1) + change(0, 2, 0, 5) + change(1, 3, 0, 30)
    seeds["changed_count"] = head(2, 0, 1) + change(0, 4, 0, 0) + change(0, 7, 1, 0) + change(1, 7, 0, 1)
    return seeds


def http2(piece, *frames):
    """Returns the bytes that a client sends to the gRPC port. The first byte tells the target to cut the rest into
    pieces of `piece` bytes. `frames` are (type, flags, stream, payload)."""
    data = bytes([piece - 1]) + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for kind, flags, stream, payload in frames:
        data += struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
    return data


def http2_calls():
    field = lambda name, value: b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value
    headers = b"\x83\x86" + field(b":path", b"/maxsim.v1.Reranker/Rerank") + field(b"authorization", b"Bearer t")
    first = [(4, 0, 0, b""), (8, 0, 0, struct.pack(">I", 1000)), (6, 0, 0, b"12345678")]
    message = (0, 1, 1, bytes(5))
    return {
        "call": http2(256, *first, (1, 4, 1, headers), message),
        "pieces": http2(7, *first, (1, 4, 1, headers), message, (1, 4, 3, b"\x83\x86\xbf\xbe"), (3, 0, 3, bytes(4))),
        "continued": http2(64, *first, (1, 0, 1, headers[:9]), (9, 0, 1, headers[9:20]), (9, 4, 1, headers[20:])),
        "padded": http2(256, *first, (1, 0x2C, 1, b"\x02" + bytes(5) + headers + b"pp"), message),
        "unpacked": http2(256, *first, (1, 4, 1, field(b"x", b"y" * 120) + b"\xbe" * 200)),
    }


def main():
    folder = sys.argv[1]
    seeds = {
        "safetensors/plain": safetensors([("a", "F16", [2, 3], bytes(12)), ("b", "I64", [1], bytes(8))], {"k": "v"}),
        "safetensors/empty": safetensors([("a", "F32", [0, 3], b""), ("b", "BF16", [], bytes(2))], {}),
        "npy/v1": npy(1, "<f2", "(2, 3)", bytes(12)),
        "npy/v2": npy(2, "<i8", "(2,)", bytes(16)),
        "npy/v3": npy(3, "|u1", "()", bytes(1)),
        "npy/u8": npy(1, "<u8", "(2,)", bytes(7) + b"\xff" + bytes(8)),
        "npz/stored": npz(zipfile.ZIP_STORED),
        "npz/deflated": npz(zipfile.ZIP_DEFLATED),
        "import/stored": npz(zipfile.ZIP_STORED),
        "import/deflated": npz(zipfile.ZIP_DEFLATED),
        "import/lengths": safetensors(
            [("tokens", "F32", [2, 8], bytes(64)), ("lengths", "I64", [1], int64s(2)), ("ids", "U8", [1], b"\x07")], {}
        ),
        "import/scale_a_token": safetensors(
            [
                ("tokens", "I8", [3, 8], bytes(range(24))),
                ("lengths", "I64", [2], int64s(2, 1)),
                ("scales", "F32", [3, 1], struct.pack("<3f", 0.5, 1, 2)),
            ],
            {},
        ),
        "import/f8": safetensors(
            [("tokens", "F8_E4M3", [2, 8], bytes(range(16))), ("lengths", "I64", [1], int64s(2))], {}
        ),
        "import/f8_scale_a_document": safetensors(
            [
                ("tokens", "F8_E4M3", [3, 8], bytes(range(24))),
                ("lengths", "I64", [2], int64s(2, 1)),
                ("scales", "F16", [2], struct.pack("<2e", 0.5, 1)),
            ],
            {},
        ),
    }
    for dtype, size in (("F16", 2), ("BF16", 2), ("F32", 4)):
        seeds[f"encoder_answer/{dtype}"] = b"310" + safetensors(
            [("tokens", dtype, [3, 8], bytes(24 * size)), ("lengths", "I64", [2], int64s(2, 1))],
            {"model": "m", "fingerprint": "f", "pieces": '[["a","b"],["c"]]'},
        )
    for name, data in requests().items():
        seeds[f"request/{name}"] = data
    for name, data in http2_calls().items():
        seeds[f"http2/{name}"] = data
    for name, data in group_answers().items():
        seeds[f"group_answers/{name}"] = data
    for name, data in group_calls().items():
        seeds[f"group_calls/{name}"] = data
    for dtype, size in (("F16", 2), ("BF16", 2), ("F32", 4), ("I8", 1)):
        for string_ids in (False, True):
            for payloads in (False, True):
                kind = ("strings" if string_ids else "ints") + ("_payloads" if payloads else "")
                seeds[f"shard/{dtype}_{kind}"] = shard(dtype, size, string_ids, payloads)
                seeds[f"import/{dtype}_{kind}"] = shard(dtype, size, string_ids, payloads)
    for nbits in (1, 2, 4, 8):
        seeds[f"shard/residual{nbits}"] = residual_shard(nbits)
    seeds["shard/F16_of_a_partition"] = shard("F16", 2, True, False, ordinals=(3, (1 << 40) + 5))
    for file in range(3):
        for factors in (False, True):
            seeds[f"code_file/{file}{'_with_factors' if factors else ''}"] = code_file(file, factors)
    for documents in (1, 8, 9):
        seeds[f"field_file/{documents}"] = field_file(documents)
    for name, data in seeds.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
