"""Tests ids and payloads from files with one line per document: python document_labels_test.py [PROGRAMS]"""

import pickle
import unittest

import numpy as np
from stores_fixture import DIM, ImportTest

from maxsim.importers.source import ID_NAMES


class FileLabelsTest(ImportTest):
    def test_files_of_lines_are_told_apart_as_maxsim_shard_does(self):
        path = self.folder / "tokens.npy"
        tokens = np.arange(2 * DIM, dtype=np.float32).reshape(2, DIM)
        np.save(path, tokens)
        np.save(self.folder / "lengths.npy", np.array([1, 1]))
        rows = tokens[:1], tokens[1:]
        lines, payloads = b'{"id": "a", "t": 1}\n{"id": "b", "t": 2}\n', [{"t": 1}, {"t": 2}]
        mark = b"\xef\xbb\xbf"
        for name, content, wanted in (
            ("marked.jsonl", mark + lines, payloads),
            ("marked", mark + lines, payloads),
            ("spaced", b" \t" + lines + b" \r\n\n", payloads),
            ("marked.txt", mark + b"a\r\nb", None),
        ):
            file = self.folder / name
            file.write_bytes(content)
            with self.subTest(name):
                self.assert_source("npy", path, ["a", "b"], rows, wanted, ids=str(file))
        for name, content, message in (
            ("plain.json", b"a\nb\n", r"plain\.json:1: not JSON"),
            ("gap.txt", b"a\n\nb\n", r"gap\.txt:2: an empty line between documents"),
            ("twice.jsonl", b'{"id": "a"}\n{"id": "b", "t": 1, "t": 2}\n', r'twice\.jsonl:2: key "t" appears twice'),
            ("inner.jsonl", b'{"id": "a", "t": {"u": 1, "u": 1}}\n', r'inner\.jsonl:1: key "u" appears twice'),
            ("ids.jsonl", b'{"id": "a", "id": "b"}\n', r'ids\.jsonl:1: key "id" appears twice'),
            ("deep.jsonl", b'{"id": 1, "x": ' + b"[" * 200_000 + b"\n", r"deep\.jsonl:1: .* too deeply"),
        ):
            file = self.folder / name
            file.write_bytes(content)
            with self.subTest(name):
                self.assert_refused("npy", path, message, ids=str(file))

    def test_lines_of_json_give_ids_and_payloads_to_a_list_of_tensors(self):
        path, lines = self.folder / "tokens.pkl", self.folder / "docs.jsonl"
        documents = [np.full((number + 1, DIM), number, np.float32) for number in range(3)]
        path.write_bytes(pickle.dumps({"v": documents, "title": ["a", "b", "c"], "n": [0, 1, 2]}))
        lines.write_text('{"id": 7, "title": "x"}\n{"id": 5}\n{"id": 6, "m": [1]}\n')
        options = {"vectors_column": "v", "ids": str(lines)}
        payloads = [{"title": "x"}, None, {"m": [1]}]
        self.assert_source("pt", path, [7, 5, 6], documents, payloads, **options)
        payloads = [{"title": "x", "n": 0}, {"title": "b", "n": 1}, {"title": "c", "n": 2, "m": [1]}]
        self.assert_source("pt", path, [7, 5, 6], documents, payloads, payload_columns=("*",), **options)
        lines.write_text('{"id": 7}\n{"title": "x"}\n{"id": 6}\n')
        self.assert_refused("pt", path, 'docs.jsonl:2: must be an object with "id"', **options)
        lines.write_text("a\nb\n")
        self.assert_refused("pt", path, "docs.jsonl: has 2 lines, but there are 3 documents", **options)


class ArrayIdsTest(ImportTest):
    def test_an_array_under_each_usual_name_holds_the_ids(self):
        tokens, lengths = np.arange(6 * DIM, dtype=np.float32).reshape(6, DIM), [1, 2, 3]
        documents = [tokens[:1], tokens[1:3], tokens[3:]]
        padded = np.zeros((3, 3, DIM), np.float32)
        for row, document in zip(padded, documents):
            row[: len(document)] = document
        for name in (*ID_NAMES, "ID", "Doc_ID", "docIds"):
            np.savez(self.folder / "a.npz", tokens=tokens, lengths=lengths, **{name: ["a", "b", "c"]})
            np.savez(self.folder / "p.npz", vectors=padded, lengths=lengths, **{name: ["a", "b", "c"]})
            for kind, path in (("npz", "a.npz"), ("padded", "p.npz")):
                with self.subTest(name, kind=kind):
                    self.assert_source(kind, self.folder / path, ["a", "b", "c"], documents)

    def test_a_list_beside_tensors_holds_the_ids(self):
        path, documents = self.folder / "a.pkl", [np.full((2, DIM), number, np.float32) for number in range(3)]
        for name in ("ids", "DocID", "_id"):
            path.write_bytes(pickle.dumps({name: ["a", "b", "c"], "v": documents, "n": [1, 2, 3]}))
            with self.subTest(name):
                self.assert_source("pt", path, ["a", "b", "c"], documents, vectors_column="v")
        payloads = [{"n": 1}, {"n": 2}, {"n": 3}]
        options = {"vectors_column": "v", "payload_columns": ("*",)}
        self.assert_source("pt", path, ["a", "b", "c"], documents, payloads, **options)

    def test_the_spelling_in_lower_case_comes_first(self):
        arrays = {"ID": ["x", "y"], "id": ["a", "b"], "PID": [1, 2]}
        np.savez(self.folder / "a.npz", tokens=np.ones((2, DIM), np.float32), lengths=[1, 1], **arrays)
        self.assert_source("npz", self.folder / "a.npz", ["a", "b"], np.ones((2, 1, DIM), np.float32))

    def test_an_array_named_like_ids_that_holds_none_is_refused(self):
        for ids, message in (([0.5, 1.5], "float64"), ([1, 2, 3], r"\[3\]")):
            np.savez(self.folder / "a.npz", tokens=np.ones((2, DIM), np.float32), lengths=[1, 1], document_id=ids)
            with self.subTest(message):
                self.assert_refused("npz", self.folder / "a.npz", message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
