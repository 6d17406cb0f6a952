"""Tests array files that are damaged or whose headers have wrong sizes: python array_files_test.py [PROGRAMS]"""

import io
import unittest
import warnings
import zipfile

import numpy as np
from stores_fixture import DIM, ImportTest


class DamagedTest(ImportTest):
    def test_damaged_members_are_refused(self):
        path = self.folder / "a.npz"
        values = np.random.default_rng(1).standard_normal((5000, DIM)).astype(np.float32)
        np.savez_compressed(path, vectors=values, lengths=np.array([5000]))
        whole = path.read_bytes()
        path.write_bytes(whole[:50_000] + b"\xff" * 40 + whole[50_040:])
        self.assert_refused("npz", path, r"a\.npz: vectors\.npy: cannot be read: ")
        np.savez(path, vectors=values, lengths=np.array([5000]))
        whole = path.read_bytes()
        path.write_bytes(whole[:50_000] + b"\xff" * 40 + whole[50_040:])
        self.assert_refused("npz", path, r"a\.npz: vectors\.npy: cannot be read: Bad CRC-32")
        directory = whole.rindex(b"PK\x01\x02", 0, whole.rindex(b"PK\x01\x02"))
        for at, value in ((8, 1), (6, 99)):  # encrypted; of a newer version of the format
            changed = bytearray(whole)
            changed[directory + at] |= value
            path.write_bytes(changed)
            self.assert_refused("npz", path, r"a\.npz")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("vectors.npy", b"")
        self.assert_refused("npz", path, r"a\.npz: vectors\.npy: is compressed in a way")

    def test_a_member_that_is_there_twice_is_refused(self):
        # Some programs would read the first member of this name, others the second. So the importer must refuse the
        # file.
        path, first, second = self.folder / "a.npz", io.BytesIO(), io.BytesIO()
        np.save(first, np.zeros((5, DIM), np.float32))
        np.save(second, np.ones((5, DIM), np.float32))
        for name in ("vectors.npy", "vectors"):
            with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                archive.writestr("vectors.npy", first.getvalue())
                archive.writestr(name, second.getvalue())
            with self.subTest(name):
                self.assert_refused("npz", path, rf"a\.npz: holds the member '{name}' twice")

    def test_sizes_that_are_only_stated_take_no_memory(self):
        path, stated, vectors = self.folder / "a.npz", io.BytesIO(), io.BytesIO()
        np.lib.format.write_array_header_1_0(stated, {"descr": "<i8", "fortran_order": False, "shape": (2**38,)})
        np.save(vectors, np.zeros((5, DIM), np.float32))
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("vectors.npy", vectors.getvalue())
            archive.writestr("lengths.npy", stated.getvalue())
        self.assert_refused("npz", path, r"lengths\.npy: has 0 bytes of data, but 2199023255552 belong to int64")
        for shape in ("(-1, 8)", "(1" + "0" * 30 + ", 0)", "(" * 500 + ")" * 500):
            text = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}\n"
            path = self.folder / "tokens.npy"
            path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
            with self.subTest(shape[:8]):
                self.assert_refused("npy", path, r"tokens\.npy: is not a \.npy array")


if __name__ == "__main__":
    unittest.main(verbosity=2)
