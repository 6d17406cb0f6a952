"""Ids and payloads from files of lines: python document_labels_test.py [PROGRAMS]"""

import unittest

import numpy as np
from stores_fixture import DIM, ImportTest


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
            ("deep.jsonl", b'{"id": 1, "x": ' + b"[" * 200_000 + b"\n", r"deep\.jsonl:1: .* too deeply"),
        ):
            file = self.folder / name
            file.write_bytes(content)
            with self.subTest(name):
                self.assert_refused("npy", path, message, ids=str(file))


if __name__ == "__main__":
    unittest.main()
