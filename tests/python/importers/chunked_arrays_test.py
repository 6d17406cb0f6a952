"""Tests imports of arrays in HDF5 and Zarr, which h5py and zarr write.

python chunked_arrays_test.py [PROGRAMS]
"""

import unittest
import warnings

import h5py
import numpy as np
import zarr

from arrays_fixture import COUNT, ArraysTest, offsets_of, padded
from stores_fixture import DIM


class Hdf5Test(ArraysTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "a.h5"

    def test_packed_vectors_with_lengths_or_offsets(self):
        for name, counts in (("lengths", self.lengths), ("offsets", offsets_of(self.lengths))):
            for options in ({}, {"chunks": (7, DIM), "compression": "gzip"}):
                with self.subTest(name, **options), h5py.File(self.path, "w") as file:
                    group = file.create_group("wiki")
                    group.create_dataset("vectors", data=self.tokens, **options)
                    group[name] = counts
                    group["ids"] = self.ids
                    group["title"] = self.titles
                columns = {"table": "wiki", "payload_columns": ("title",)}
                self.assert_source("hdf5", self.path, self.ids, self.documents, self.payloads, **columns)
        paths = {"vectors_column": "wiki/vectors", "lengths": "wiki/offsets", "id_column": "wiki/ids"}
        self.assert_source("hdf5", self.path, self.ids, self.documents, **paths)
        self.assert_imports("hdf5", self.path, self.ids, self.documents, self.payloads, **columns)

    def test_a_group_with_a_data_set_for_each_document(self):
        names = [f"doc-{n:03}" for n in range(COUNT)]
        with h5py.File(self.path, "w") as file:
            group = file.create_group("documents")
            for name, document in zip(names, self.documents):
                group[name] = document.astype(np.float16)
        self.assert_source("hdf5", self.path, names, self.documents, table="documents")

    def test_rows_of_variable_length(self):
        for dtype in (np.float16, np.float32, np.float64):
            with self.subTest(str(dtype)), h5py.File(self.path, "w") as file:
                rows = file.create_dataset("vectors", (COUNT,), dtype=h5py.vlen_dtype(dtype))
                for index, document in enumerate(self.documents):
                    rows[index] = document.reshape(-1)
                file["ids"] = np.arange(COUNT) * 2
            self.assert_source("hdf5", self.path, range(0, 2 * COUNT, 2), self.documents, dim=DIM)
        self.assert_refused("hdf5", self.path, r"/vectors: has rows of tokens \* dim values; give --dim")
        self.assert_refused("hdf5", self.path, r"/vectors: row 0 is float64 \[\d+\]; .* a multiple of 1000", dim=1000)

    def test_padded_vectors_with_a_mask(self):
        array, mask = padded(self.documents, 45)
        with h5py.File(self.path, "w") as file:
            file.create_dataset("embeddings", data=array, chunks=(4, 45, DIM))
            file["mask"] = mask
        self.assert_source("hdf5", self.path, range(COUNT), self.documents)

    def test_what_is_not_there_is_named(self):
        with h5py.File(self.path, "w") as file:
            file["vectors"] = self.tokens
        self.assert_refused("hdf5", self.path, r"a\.h5: /vectors: is packed .* give --lengths")
        self.assert_refused("hdf5", self.path, r"a\.h5: has no 'n'; it has vectors", lengths="n")
        self.assert_refused("hdf5", self.path, r"a\.h5: has no group 'g'; it has vectors", table="g")
        self.path.write_bytes(b"nothing")
        self.assert_refused("hdf5", self.path, r"a\.h5: cannot be opened as HDF5")
        self.path.unlink()
        code, out, err = self.run_command("import", "--from", "hdf5", self.path, "--dry-run")
        self.assertEqual((code, out, err), (1, "", f"maxsim import: {self.path}: No such file or directory\n"))


class ZarrTest(ArraysTest):
    def make(self, version, path=None, **arrays):
        path = path or self.folder / f"v{version}.zarr"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group = zarr.open_group(str(path), mode="w", zarr_format=version)
            for name, array in arrays.items():
                if isinstance(array, list):
                    texts = group.create_array(name, shape=(len(array),), dtype=str)
                    texts[:] = np.array(array, dtype=object)
                else:
                    chunks = (7, *array.shape[1:])
                    group.create_array(name, data=np.asarray(array), chunks=chunks)
        return path

    def test_packed_vectors_of_both_versions(self):
        for version in (2, 3):
            for name, counts in (("lengths", self.lengths), ("offsets", offsets_of(self.lengths))):
                with self.subTest(version, counts=name):
                    path = self.make(version, tokens=self.tokens, ids=self.ids, title=self.titles, **{name: counts})
                    columns = {"payload_columns": ("title",)}
                    self.assert_source("zarr", path, self.ids, self.documents, self.payloads, **columns)
        self.assert_imports("zarr", path, self.ids, self.documents, self.payloads, **columns)

    def test_shards_of_chunks_and_a_zip_file(self):
        path = self.folder / "s.zarr"
        group = zarr.open_group(str(path), mode="w")
        rows = len(self.tokens)
        group.create_array("tokens", shape=(rows, DIM), chunks=(8, DIM), shards=(64, DIM), dtype="f2")[:] = self.tokens
        group.create_array("lengths", data=self.lengths)
        self.assert_source("zarr", path, range(COUNT), self.documents)
        with zarr.storage.ZipStore(str(self.folder / "a.zip"), mode="w") as store:
            group = zarr.open_group(store, mode="w")
            group.create_array("tokens", data=self.tokens)
            group.create_array("lengths", data=self.lengths)
        self.assert_source("zarr", self.folder / "a.zip", range(COUNT), self.documents)

    def test_a_group_with_an_array_for_each_document_or_padded_ones(self):
        names = [f"doc-{n:03}" for n in range(COUNT)]
        path = self.make(3, **dict(zip(names, self.documents)))
        self.assert_source("zarr", path, names, self.documents)
        array, mask = padded(self.documents, 45)
        for version in (2, 3):
            path = self.make(version, embeddings=array, attention_mask=mask.astype(np.int8))
            self.assert_source("zarr", path, range(COUNT), self.documents)

    def test_what_is_not_there_is_named(self):
        path = self.make(3, tokens=self.tokens)
        self.assert_refused("zarr", path, r"v3\.zarr: tokens: is packed .* give --lengths")
        self.assert_refused("zarr", path / "tokens", "is an array without lengths beside it")
        self.assert_refused("zarr", path, "cannot be opened as Zarr: .*", table="g")
        self.assert_refused("zarr", self.folder / "none", "no such file or folder")


if __name__ == "__main__":
    unittest.main(verbosity=2)
