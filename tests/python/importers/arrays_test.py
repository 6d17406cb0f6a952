"""Tests imports of arrays in .npy, .npz and safetensors files, which NumPy and safetensors write.

python arrays_test.py [PROGRAMS]
"""

import json
import pickle
import unittest

import h5py
import numpy as np
import safetensors.numpy

from arrays_fixture import COUNT, ArraysTest, offsets_of, padded
from stores_fixture import DIM, ImportTest, random_documents


class NpyTest(ArraysTest):
    def save(self, **arrays):
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", array)
        return self.folder / "tokens.npy"

    def test_tokens_and_lengths_beside_them_or_named(self):
        for dtype in (np.float16, np.float32, np.float64, ">f4"):
            with self.subTest(str(dtype)):
                path = self.save(tokens=self.tokens.astype(dtype), lengths=self.lengths.astype(np.int32))
                self.assert_source("npy", path, range(COUNT), self.documents)
                self.assert_source("npy", self.folder, range(COUNT), self.documents)
        self.save(other=offsets_of(self.lengths))
        self.assert_source("npy", path, range(COUNT), self.documents, lengths=str(self.folder / "other.npy"))

    def test_offsets_of_a_single_document_are_not_lengths(self):
        """[0, N] and [0, 0, N] can be lengths or offsets of N tokens. The importer must decide by the name of the array
        or, if that does not tell, by the number of ids."""
        rows, empty = np.ones((5, DIM), np.float32), np.ones((0, DIM), np.float32)
        named, ids = self.folder / "counts.npy", self.folder / "ids.txt"
        for values, documents in (([0, 5], [rows]), ([0, 0, 5], [empty, rows])):
            with self.subTest(values):
                path = self.save(tokens=rows, counts=np.array(values))
                self.assert_refused("npy", path, "counts.npy: .* can be lengths of .* or offsets", lengths=str(named))
                for wanted in (documents, [empty, *documents]):
                    ids.write_text("".join(f"d{n}\n" for n in range(len(wanted))))
                    names = [f"d{n}" for n in range(len(wanted))]
                    self.assert_source("npy", path, names, wanted, lengths=str(named), ids=str(ids))
                for name, wanted in (("offsets", documents), ("lengths", [empty, *documents])):
                    archive = self.folder / f"{name}.npz"
                    np.savez(archive, vectors=rows, **{name: np.array(values)})
                    self.assert_source("npz", archive, range(len(wanted)), wanted)

    def test_ids_and_payloads_from_a_file_of_lines(self):
        path = self.save(tokens=self.tokens, lengths=self.lengths)
        plain, lines = self.folder / "ids.txt", self.folder / "docs.jsonl"
        plain.write_text("".join(f"{id}\n" for id in self.ids), encoding="utf-8")
        rows = [{"id": id, **payload} for id, payload in zip(self.ids, self.payloads)]
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.assert_source("npy", path, self.ids, self.documents, ids=str(plain))
        self.assert_source("npy", path, self.ids, self.documents, self.payloads, ids=str(lines))
        self.assert_imports("npy", path, self.ids, self.documents, self.payloads, ids=str(lines))
        for name, text, message in (
            ("few", "a\nb\n", r"few: has 2 lines, but there are 50 documents"),
            ("many", "".join(f"{n}\n" for n in range(51)), r"many: has more lines, but there are 50 documents"),
            ("bad", '{"id": 1}\n{"x": 2}\n', r'bad:2: must be an object with "id"'),
            ("json", '{"id": 1}\n{"id"\n', r"json:2: not JSON"),
            ("empty", "a\n\nc\n", r"empty:2: an empty line between documents$"),
            ("long", "a\n" + "x" * 513 + "\n", r'long:2: id "x+\.\.\.": 513 bytes, the limit is 512$'),
            ("no id", '{"id": "a"}\n{"id": ""}\n', r"no id:2: an empty id$"),
        ):
            (self.folder / name).write_text(text)
            self.assert_refused("npy", path, message, ids=str(self.folder / name))

    def test_documents_longer_than_a_block_that_is_read(self):
        documents = [np.arange(n * 512, dtype=np.float32).reshape(n, 512) for n in (3, 9000, 1, 5000, 2)]
        path = self.save(tokens=np.concatenate(documents), lengths=[len(array) for array in documents])
        self.assert_source("npy", path, range(5), documents, columns=512)

    def test_int8_with_scales_as_maxsim_shard_takes_them(self):
        rng = np.random.default_rng(4)
        elements = rng.integers(-127, 128, self.tokens.shape).astype(np.int8)
        for count in (len(elements), COUNT, 1):
            scales = rng.uniform(0.01, 0.02, (count, 1) if count == COUNT else count).astype(np.float32)
            path = self.save(tokens=elements, lengths=self.lengths, scales=scales)
            a_token = np.repeat(scales.reshape(-1), self.lengths) if count == COUNT else scales
            values = elements * np.broadcast_to(a_token, len(elements))[:, None]
            wanted = np.split(values.astype(np.float32), np.cumsum(self.lengths)[:-1])
            with self.subTest(count):
                self.assert_source("npy", path, range(COUNT), wanted)

    def test_errors_name_the_file_and_the_numbers(self):
        short = self.lengths.copy()
        short[0] += 1
        total = len(self.tokens)
        for arrays, message in (
            (
                {"tokens": self.tokens, "lengths": short},
                rf"lengths\.npy: 50 lengths sum to {total + 1}, .* has {total} rows",
            ),
            ({"tokens": self.tokens, "lengths": -self.lengths}, r"lengths\.npy: row 0 is -\d+; must be 0 or more"),
            ({"tokens": self.tokens, "lengths": self.lengths / 2}, r"must be integers \[N\], but they are float64"),
            ({"tokens": np.asfortranarray(self.tokens)}, r"tokens\.npy: is in Fortran order"),
            ({"tokens": self.tokens.astype(np.int32), "lengths": self.lengths}, r"tokens\.npy: is int32 \[\d+, 16\]"),
            ({"tokens": np.array([{}], object)}, r"tokens\.npy: is an array of Python objects"),
        ):
            with self.subTest(message):
                self.assert_refused("npy", self.save(**arrays), message)
        (self.folder / "lengths.npy").unlink()
        path = self.save(tokens=self.tokens)
        self.assert_refused("npy", path, r"tokens\.npy: is packed \[\d+, 16\]; give --lengths")
        self.assert_refused("npy", path, r"tokens\.npy: 16 columns, but --dim says 8", dim=8)
        path.write_bytes(path.read_bytes()[:-100])
        self.assert_refused("npy", path, r"tokens\.npy: has \d+ bytes of data, but \d+ belong to float32")
        path.write_bytes(b"nothing")
        self.assert_refused("npy", path, r"tokens\.npy: is not a \.npy array")

    def test_a_pickle_in_a_npy_file_is_never_loaded(self):
        class Hostile:
            def __reduce__(self):
                return (open, (str(victim), "w"))

        victim = self.folder / "victim"
        path = self.folder / "tokens.npy"
        np.save(path, np.array([Hostile()], object), allow_pickle=True)
        self.assert_refused("npy", path, "is an array of Python objects")
        path.write_bytes(pickle.dumps(Hostile()))
        self.assert_refused("npy", path, r"is not a \.npy array")
        self.assertFalse(victim.exists())


class NpzTest(ArraysTest):
    def test_an_archive_of_packed_vectors(self):
        for save in (np.savez, np.savez_compressed):
            for counts in ({"lengths": self.lengths}, {"offsets": offsets_of(self.lengths)}):
                with self.subTest(save.__name__, counts=list(counts)):
                    path = self.folder / "a.npz"
                    save(path, tokens=self.tokens, ids=self.ids, title=self.titles, **counts)
                    self.assert_source("npz", path, self.ids, self.documents)
                    columns = {"payload_columns": ("*",)}
                    self.assert_source("npz", path, self.ids, self.documents, self.payloads, **columns)
        self.assert_imports("npz", path, self.ids, self.documents, self.payloads, payload_columns=("title",))

    def test_lengths_of_0_are_documents_without_tokens(self):
        documents = list(self.documents)
        for place in (50, 21, 20, 0):
            documents.insert(place, np.empty((0, DIM), np.float32))
        path = self.folder / "a.npz"
        np.savez(path, tokens=self.tokens, lengths=[len(array) for array in documents])
        self.assert_source("npz", path, range(54), documents)
        self.assert_refused("npz", path, "document 0, id 0: has no token vectors; --skip-empty")

    def test_integer_and_byte_ids_and_names_of_the_users_own(self):
        path = self.folder / "a.npz"
        for ids, wanted in (
            (np.arange(COUNT, dtype=np.uint32) + 7, range(7, COUNT + 7)),
            (np.array([id.encode() for id in self.ids]), self.ids),
        ):
            np.savez(path, emb=self.tokens, n=self.lengths, key=ids)
            options = {"vectors_column": "emb", "lengths": "n", "id_column": "key"}
            self.assert_source("npz", path, wanted, self.documents, **options)

    def test_an_array_for_each_document(self):
        path = self.folder / "a.npz"
        np.savez(path, **dict(zip(self.ids, self.documents)))
        self.assert_source("npz", path, self.ids, self.documents)
        self.assert_refused("npz", path, "--ids: .* whose name is the id", ids=str(path))
        np.savez(path, a=np.zeros((2, DIM), np.float32), b=np.zeros((2, DIM + 1), np.float32))
        self.assert_refused("npz", path, r"b\.npy: 17 columns, but those before it have 16")

    def test_what_is_no_archive_of_vectors_is_refused(self):
        path = self.folder / "a.npz"
        np.savez(path, tokens=self.tokens, lengths=self.lengths, ids=self.ids[:-1])
        self.assert_refused("npz", path, r"ids\.npy: has shape \[49\], but there are 50 documents")
        self.assert_refused("npz", path, r"has no 'x'; it has tokens, lengths, ids", vectors_column="x")
        np.savez(path, x=self.lengths, y=self.tokens)
        self.assert_refused("npz", path, "name the vectors with --vectors-column; there are x, y")
        path.write_bytes(path.read_bytes()[:1000])
        self.assert_refused("npz", path, r"a\.npz: is not a \.npz archive")


class MemoryTest(ImportTest):
    def test_arrays_need_not_fit_into_memory(self):
        array = np.random.default_rng(1).standard_normal((8000, 40, 128), dtype=np.float32)
        lengths = np.full(8000, 40)
        np.savez(self.folder / "packed.npz", tokens=array.reshape(-1, 128), lengths=lengths)
        np.savez(self.folder / "padded.npz", vectors=array, lengths=lengths)
        with h5py.File(self.folder / "a.h5", "w") as file:
            file["vectors"], file["lengths"] = array.reshape(-1, 128), lengths
        num_bytes = array.nbytes
        del array
        for kind, name in (("npz", "packed.npz"), ("padded", "padded.npz"), ("hdf5", "a.h5")):
            with self.subTest(kind):
                self.assert_streams(kind, self.folder / name, num_bytes, num_bytes // 3)


class PaddedTest(ArraysTest):
    def setUp(self):
        super().setUp()
        self.array, self.mask = padded(self.documents, 45)

    def test_a_mask_or_lengths_in_every_kind_of_file(self):
        for name, counts in (
            ("mask", self.mask),
            ("attention_mask", self.mask.astype(np.int64)),
            ("lengths", self.lengths),
        ):
            arrays = {"emb": self.array, name: counts, "ids": np.arange(COUNT) + 3}
            np.savez(self.folder / "a.npz", **arrays)
            safetensors.numpy.save_file(arrays, self.folder / "a.safetensors")
            np.save(self.folder / "a.npy", self.array)
            np.save(self.folder / f"{name}.npy", counts)
            for path in ("a.npz", "a.safetensors"):
                with self.subTest(name, path=path):
                    self.assert_source("padded", self.folder / path, range(3, COUNT + 3), self.documents)
            option = {"lengths" if name == "lengths" else "mask": str(self.folder / f"{name}.npy")}
            with self.subTest(name, path="a.npy"):
                self.assert_source("padded", self.folder / "a.npy", range(COUNT), self.documents, **option)

    def test_padding_in_front_and_holes(self):
        array, mask = padded(self.documents, 45, at_end=True)
        np.savez(self.folder / "a.npz", vectors=array, mask=mask)
        self.assert_source("padded", self.folder / "a.npz", range(COUNT), self.documents)
        holes = mask & (np.arange(45) % 3 != 0)
        np.savez(self.folder / "a.npz", vectors=array, mask=holes.astype(np.float32))
        self.assert_source("padded", self.folder / "a.npz", range(COUNT), [a[m] for a, m in zip(array, holes)])

    def test_many_documents_are_read_in_blocks(self):
        documents = random_documents(3000, seed=5, dim=64)
        array, mask = padded(documents, 40)
        np.savez(self.folder / "a.npz", vectors=array, mask=mask)
        self.assert_source("padded", self.folder / "a.npz", range(3000), documents, columns=64)

    def test_bfloat16_of_safetensors(self):
        """safetensors.numpy cannot write bfloat16. So the test writes the bits as uint16, then changes the type in the
        file's header."""
        bits = (self.array.view(np.uint32) >> 16).astype(np.uint16)
        path = self.folder / "a.safetensors"
        safetensors.numpy.save_file({"vectors": bits, "mask": self.mask}, path)
        data = path.read_bytes()
        self.assertEqual(data.count(b'"U16"'), 1)
        path.write_bytes(
            data.replace(b'"U16"', b'"BF16"').replace(
                data[:8], (int.from_bytes(data[:8], "little") + 1).to_bytes(8, "little"), 1
            )
        )
        wide = (bits.astype(np.uint32) << 16).view(np.float32)
        self.assert_source("padded", path, range(COUNT), [a[m] for a, m in zip(wide, self.mask)])

    def test_lengths_all_takes_every_token(self):
        path = self.folder / "a.npy"
        np.save(path, self.array)
        self.assert_source("padded", path, range(COUNT), self.array, lengths="all")
        self.assert_refused("padded", path, r"is padded \[50, 45, 16\]; give --mask or --lengths")

    def test_a_document_without_tokens_is_refused_or_skipped(self):
        self.mask[4] = False
        np.savez(self.folder / "a.npz", vectors=self.array, mask=self.mask)
        self.assert_refused("padded", self.folder / "a.npz", "id 4: has no token vectors; --skip-empty")
        command = ("import", "--from", "padded", self.folder / "a.npz", "--dry-run", "--skip-empty", "--quiet")
        code, out, _ = self.run_command(*command)
        self.assertEqual(code, 0)
        self.assertIn("documents  49\n", out)

    def test_what_does_not_fit_is_refused(self):
        path = self.folder / "a.npz"
        for arrays, message in (
            ({"mask": self.mask[:, :-1]}, r"mask\.npy: a mask of .* is \[50, 45\], it is bool \[50, 44\]"),
            ({"lengths": self.lengths[1:]}, r"lengths must be integers \[50\], but they are int64 \[49\]"),
            ({"lengths": self.lengths + 40}, r"lengths\.npy: row \d+ is \d+, but the array has 45 tokens per document"),
            ({"more": self.array, "mask": self.mask}, r"has 2 arrays \[N, L, dim\]; name one of"),
        ):
            np.savez(path, vectors=self.array, **arrays)
            with self.subTest(message):
                self.assert_refused("padded", path, message)
        self.assert_refused("padded", self.folder / "a.txt", r"ends in \.txt, a padded array in \.npy")
        bad = self.folder / "a.safetensors"
        bad.write_bytes(b"\xff" * 64)
        self.assert_refused("padded", bad, r"a\.safetensors: is not a safetensors file")


if __name__ == "__main__":
    unittest.main(verbosity=2)
