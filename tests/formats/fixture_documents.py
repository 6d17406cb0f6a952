"""The documents of the collections in data/, and input files from which today's programs build the same collections."""

import json
import pathlib
import struct

DIM = 8
# (id, number of tokens, payload) of each document.
DOCUMENTS = (
    ("a", 2, {"lang": "en", "year": 2020}),
    ("b", 1, {"lang": "de", "year": 2021}),
    ("c", 3, {"lang": "en"}),
    ("d", 2, {"lang": "fr", "year": 1999}),
)
FIELDS = "lang:keyword,year:integer"

# The documents of data/log-1 and data/log-2. Write 1 deleted "z" (version 3), which never existed. Write 2 deleted "b"
# (version 9), which is still in the shard and has a tombstone. The log holds the later writes: upsert "e" (version 5),
# delete "a" (version 7), upsert "d" without a version. In data/log-2, a message follows that the server skipped.
LIVE_DOCUMENTS = (("c", 3, {"lang": "en"}), ("e", 2, {"lang": "it"}), ("d", 1, {"lang": "fr", "year": 2000}))
LOG_SEQUENCE = 2


def values(document_id, num_tokens):
    """Returns the values of a document, num_tokens x DIM. All are exact in FP16."""
    seed = 7 * ord(document_id)
    return [((seed + 3 * token + column * column) % 17 - 8) / 8 for token in range(num_tokens) for column in range(DIM)]


def half_rows(document_id, num_tokens):
    """Returns the rows of a document as little-endian FP16."""
    numbers = values(document_id, num_tokens)
    return struct.pack(f"<{len(numbers)}e", *numbers)


def payload_text(payload):
    return json.dumps(payload, separators=(",", ":"))


def npy_bytes(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def write_input(folder, documents, int_ids=False, payloads=True):
    """Writes the files of a build into `folder`. Returns the arguments that name them."""
    folder = pathlib.Path(folder)
    tokens = b"".join(half_rows(name, num_tokens) for name, num_tokens, _ in documents)
    lengths = [num_tokens for _, num_tokens, _ in documents]
    (folder / "tokens.npy").write_bytes(npy_bytes("<f2", (sum(lengths), DIM), tokens))
    (folder / "lengths.npy").write_bytes(npy_bytes("<i8", (len(lengths),), struct.pack(f"<{len(lengths)}q", *lengths)))
    lines = [
        json.dumps({"id": ord(name) if int_ids else name, **(payload if payloads else {})}, separators=(",", ":"))
        for name, _, payload in documents
    ]
    (folder / "docs.jsonl").write_text("".join(line + "\n" for line in lines))
    return ["--tokens", folder / "tokens.npy", "--lengths", folder / "lengths.npy", "--ids", folder / "docs.jsonl"]
