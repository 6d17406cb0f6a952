"""Tests that CollectionWriter writes the same files as `maxsim-shard build`, byte for byte.

python same_bytes_test.py MAXSIM_SHARD
"""

import itertools
import json
import shutil

import numpy as np

from collection_fixture import TemporaryFolderTest, documents, main, run_shard
from maxsim.collection import CollectionError, CollectionWriter
from maxsim.vectors import TokenVectors

STORAGES = ("f32", "f16", "bf16", "i8")


class SameBytesTest(TemporaryFolderTest):
    def check(self, made, storage, dim, max_shard_bytes=4 << 30, seed=0):
        self.count = getattr(self, "count", 0) + 1
        built, written = self.folder / f"built-{self.count}", self.folder / f"written-{self.count}"
        options = {"seed": seed} if storage == "i8" else {}
        self.build(made, built, name="x", storage=storage, max_shard_bytes=max_shard_bytes, **options)
        summary = self.write(
            made, written, dim, name="x", storage=storage, max_shard_bytes=max_shard_bytes,
            rotation_seed=seed if storage == "i8" else 0, num_threads=2,
        )  # fmt: skip
        self.assert_same_files(built, written)
        return summary

    def test_every_storage_kind_of_ids_and_payloads(self):
        cases = itertools.product(STORAGES, ("string", "int64"), ("none", "all", "some", "last"), (4 << 30, 30000))
        for seed, (storage, id_type, payloads, max_shard_bytes) in enumerate(cases):
            with self.subTest(storage=storage, id_type=id_type, payloads=payloads, max_shard_bytes=max_shard_bytes):
                made = documents(seed, 60, 32, id_type=id_type, payloads=payloads)
                summary = self.check(made, storage, 32, max_shard_bytes)
                self.assertEqual(summary.num_shards == 1, max_shard_bytes > 30000)
                self.assertEqual(summary.has_payloads, payloads != "none")

    def test_every_type_of_values_and_shape_of_the_rotation(self):
        # The rotation of 8 or 128 dimensions uses one span, that of 96 or 130 dimensions two overlapping spans. 4096 is
        # the largest dimension.
        for storage, dtype, dim in itertools.product(STORAGES, (np.float16, np.float32, np.float64), (8, 96, 128, 130)):
            with self.subTest(storage=storage, dtype=dtype, dim=dim):
                self.check(documents(dim, 50, dim, dtype), storage, dim, seed=dim << 40)
        for storage in STORAGES:
            self.check(documents(1, 20, 4096, longest=30), storage, 4096)

    def test_every_rounding_of_narrow_types(self):
        # Tests values with all exponents near both ends of F16's range, halfway between two F16 values, and for BF16 up
        # to the limit of 1e12.
        rng = np.random.default_rng(5)
        for low, high in ((0x33000000, 0x477FF000), (0x00000000, 0x53680000)):
            bits = rng.integers(low, high, (4096, 64), dtype=np.uint32)
            bits[::3] &= 0xFFFFF000
            bits[1::3] |= 0x80000000
            for storage in ("f16", "bf16") if low else ("f32", "bf16", "i8"):
                made = [(index, bits[index * 64 :][:64].view(np.float32), None) for index in range(64)]
                self.check(made, storage, 64)

    def test_bfloat16_comes_in_as_it_does_through_safetensors(self):
        rng = np.random.default_rng(6)
        bits = (rng.standard_normal((90, 16)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        lengths = np.array([40, 1, 49], "<i4")
        sizes = {"tokens": ("BF16", bits), "lengths": ("I32", lengths)}
        header, at = {}, 0
        for name, (dtype, array) in sizes.items():
            header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
        text = json.dumps(header).encode()
        source = self.folder / "docs.safetensors"
        source.write_bytes(len(text).to_bytes(8, "little") + text + bits.tobytes() + lengths.tobytes())
        made = [
            (i, TokenVectors("bf16", bits[end - lengths[i] : end])) for i, end in enumerate(np.cumsum(lengths).tolist())
        ]
        for storage in (*STORAGES, None):
            built, written = self.folder / f"built-{storage}", self.folder / f"written-{storage}"
            options = [] if storage is None else ["--storage", storage]
            outcome = run_shard("build", "--input", source, "--output", built, "--name", "x", "--quiet", *options)
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            self.assertEqual(self.write(made, written, 16, name="x", storage=storage).storage, storage or "bf16")
            self.assert_same_files(built, written)

    def test_documents_longer_than_a_block_and_than_a_shard(self):
        made = documents(2, 12, 8, longest=5)
        long = np.random.default_rng(3).standard_normal((65536, 8)).astype(np.float32)
        made[3] = ("long", long, {"a": 1})
        made[7] = ("longer than a block", long[:20000], None)
        for storage in STORAGES:
            self.check(made, storage, 8, max_shard_bytes=100000)

    def test_a_late_payload_moves_documents_between_shards(self):
        # Only the last document has a payload. Then each shard needs a list of payload sizes, with which a full shard
        # would be too large. So the programs must end shards at other documents.
        made = [(index, np.full((1, 8), 0.5, np.float32), None) for index in range(20000)]
        made.append((-1, np.full((1, 8), 0.5, np.float32), {"a": 1}))
        for storage in ("f16", "i8"):
            summary = self.check(made, storage, 8, max_shard_bytes=8192)
            self.assertGreater(summary.num_shards, 50)

    def test_the_next_generations_keep_files_as_a_build_does(self):
        built, written = self.folder / "built", self.folder / "written"
        for generation in range(1, 5):
            made = documents(generation, 30, 16, payloads="some")
            self.build(made, built, name="x", storage="f16", max_shard_bytes=20000)
            self.write(made, written, 16, name="x", storage="f16", max_shard_bytes=20000)
            self.assert_same_files(built, written)
        self.assert_whole(written)
        # The build publishes a generation after one of the writer, then the writer publishes one after that of the
        # build. Each must continue the generation numbers of the other.
        self.build(made, written)
        self.write(made, written, 16)
        manifest = json.loads((written / "collection.json").read_text())
        self.assertEqual((manifest["generation"], manifest["storage"], manifest["name"]), (6, "f16", "x"))

    def test_codes_of_every_storage_planes_and_shape(self):
        # The tokens of documents() have different norms, so the codes get factors. If all tokens have the same norm,
        # codes have no factors.
        for storage, dim, planes in itertools.product(STORAGES, (8, 33, 96, 130, 256), (1, 2, 4)):
            for normalized in (False, True):
                with self.subTest(storage=storage, dim=dim, planes=planes, normalized=normalized):
                    made = documents(dim + planes, 70, dim, payloads="some")
                    if normalized:
                        made = [
                            (id, vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30), payload)
                            for id, vectors, payload in made
                        ]
                    built, written = self.folder / "built", self.folder / "written"
                    seed = dim << 40
                    common = {"name": "x", "storage": storage, "max_shard_bytes": 60000, "codes": planes}
                    self.build(made, built, seed=seed, **common)
                    self.write(made, written, dim, rotation_seed=seed, num_threads=2, **common)
                    self.assert_same_files(built, written)
                    self.assert_whole(written)
                    shutil.rmtree(built)
                    shutil.rmtree(written)

    def test_fields_of_every_kind(self):
        rng = np.random.default_rng(7)
        fields = (
            "lang:keyword=meta.lang,tags:keywords=meta.tags,year:integer,real:number=year,price:number,sold:boolean,"
            "at:time,accent:keyword=é.x"
        )
        values = {
            "meta": [
                None, {}, {"lang": ""}, {"lang": "ö", "tags": ["b", "a", "b"]}, {"tags": [], "lang": None},
                {"tags": ["\U00010000", "\uffff"]},
            ],
            "year": [None, 0, -(1 << 63), (1 << 63) - 1, (1 << 53) + 1],
            "price": [None, 0, -0.0, 1e300, 5e-324, 1 / 3, 10**30, (1 << 64) - 1],
            "sold": [None, True, False],
            "at": [
                None, "2026-01-02T03:04:05Z", "0000-01-01T00:00:00.5+00:00", "2016-12-31t23:59:60.1234567-23:59",
                "0000-02-29T01:00:00z",
            ],
            "é": [None, {"x": "y"}],
            "other": [None, [{"year": "x"}]],
        }  # fmt: skip
        for count, max_shard_bytes in ((1, 4 << 30), (7, 4 << 30), (8, 4 << 30), (200, 20000)):
            made = []
            for id, vectors, _ in documents(count, count, 8):
                keys = [key for key in values if rng.random() < 0.8]
                payload = {key: values[key][rng.integers(len(values[key]))] for key in keys}
                made.append((id, vectors, payload))
            made[-1] = (*made[-1][:2], {"year": 1})
            built, written = self.folder / "built", self.folder / "written"
            common = {"name": "x", "max_shard_bytes": max_shard_bytes}
            self.build(made, built, fields=fields, **common)
            self.write(made, written, 8, fields=fields, **common)
            self.assert_same_files(built, written)
            self.assert_whole(written)
            # The next generation keeps the fields. It refuses other fields unless the caller explicitly asks for a
            # change.
            self.build(made, written)
            self.write(made, written, 8)
            self.assert_whole(written)
            self.assertIn('"path": "meta.lang"', (written / "collection.json").read_text())
            with self.assertRaisesRegex(CollectionError, 'field "accent": none, and generation 3 of "x" .* has keyword'):
                self.write(made, written, 8, fields=fields.rpartition(",")[0])
            self.write(made, written, 8, fields="", allow_other_shape=True)
            self.assertIn('"format_version": 1', (written / "collection.json").read_text())
            shutil.rmtree(built)
            shutil.rmtree(written)

    def test_values_that_do_not_fit_their_field_are_refused_as_a_build_refuses_them(self):
        fields = "lang:keyword=m.lang,tags:keywords,year:integer,price:number,sold:boolean,at:time"
        vectors = np.ones((1, 8), np.float32)
        bad = [
            {"m": "x"}, {"m": [1]}, {"m": {"lang": 1}}, {"m": {"lang": {}}}, {"m": {"lang": "x" * 513}}, {"tags": "x"},
            {"tags": ["a", None]}, {"tags": [["a"]]}, {"tags": ["a"] * 1025}, {"year": 1.0}, {"year": 1 << 63}, {"year": True},
            {"price": "1"}, {"price": False}, {"sold": 1}, {"at": "2026-01-02"}, {"at": "1900-02-29T00:00:00Z"}, {"at": 5},
            {"at": "9999-12-31T23:59:59-00:01"}, {"at": "２026-01-02T03:04:05Z"},
        ]  # fmt: skip
        for payload in bad:
            with self.subTest(payload=payload):
                with CollectionWriter(self.folder / "written", dim=8, fields=fields) as writer:
                    writer.add("good", vectors, {"year": 1})
                    with self.assertRaises(CollectionError) as caught:
                        writer.add("bad", vectors, payload)
                    writer.add("good too", vectors)
                reason = str(caught.exception)
                self.assertTrue(reason.startswith('document 1, id "bad": field "'), reason)
                with self.assertRaises(AssertionError) as built:
                    self.build([("bad", vectors, payload)], self.folder / "built", fields=fields)
                self.assertIn(reason.partition(": ")[2][:60], str(built.exception))
        for fields in (
            "lang", "lang:text", "a b:keyword", "and:keyword", "a:keyword=", "a:keyword=x,b:integer=x.y",
            "a:integer,a:number",
        ):  # fmt: skip
            with self.subTest(fields=fields), self.assertRaisesRegex(CollectionError, "^fields: "):
                CollectionWriter(self.folder / "written", dim=8, fields=fields)
        with self.assertRaisesRegex(CollectionError, "fields: no document has a payload"):
            self.write([("a", vectors)], self.folder / "other", 8, fields="a:keyword")

    def test_codes_of_long_documents_and_of_many(self):
        made = documents(2, 12, 8, longest=5)
        long = np.random.default_rng(3).standard_normal((65536, 8)).astype(np.float32)
        made[3] = ("long", long, {"a": 1})
        for storage in ("f16", "i8"):
            built, written = self.folder / f"built-{storage}", self.folder / f"written-{storage}"
            self.build(made, built, name="x", storage=storage, codes=4)
            self.write(made, written, 8, name="x", storage=storage, codes=4)
            self.assert_same_files(built, written)
        # The programs examine only a sample of so large a collection to decide whether codes get factors.
        made = documents(4, 2500, 16, longest=3)
        self.build(made, self.folder / "built-many", name="x", codes=2, max_shard_bytes=30000)
        self.write(made, self.folder / "written-many", 16, name="x", codes=2, max_shard_bytes=30000)
        self.assert_same_files(self.folder / "built-many", self.folder / "written-many")

    def test_the_next_generation_has_codes_where_the_one_there_has(self):
        built, written = self.folder / "built", self.folder / "written"
        made = documents(1, 30, 16)
        for options in ({"codes": 1}, {}, {"codes": 4}, {"codes": 0}, {}):
            self.build(made, built, name="x", storage="f16", max_shard_bytes=20000, **options)
            self.write(made, written, 16, name="x", storage="f16", max_shard_bytes=20000, **options)
            self.assert_same_files(built, written)
        # `encode` publishes a new generation with codes but keeps the shard files, whose names contain the older
        # generation. The next build must make codes too without being told, because the generation that it replaces has
        # codes.
        for folder in (built, written):
            for planes in (2, 1):
                self.assertEqual(run_shard("encode", folder, "--codes", planes).returncode, 0)
        self.build(made, built)
        self.write(made, written, 16)
        self.assert_same_files(built, written)
        self.assert_whole(written)
        manifest = json.loads((written / "collection.json").read_text())
        self.assertEqual((manifest["format_version"], manifest["codes"]["planes"]), (3, 1))

    def test_wrong_codes_are_refused(self):
        for codes in (3, -1, True, "4", 1.0):
            with self.assertRaisesRegex(CollectionError, "codes: .* must be 0, 1, 2 or 4 planes"):
                CollectionWriter(self.folder / "x", dim=8, codes=codes)
        with self.assertRaisesRegex(CollectionError, "only i8 and codes are rotated"):
            CollectionWriter(self.folder / "x", dim=8, storage="f16", codes=0, rotation_seed=3)

    def test_the_encoder_stands_in_the_manifest_as_a_file_of_it_does(self):
        encoder = {"model": 'm "é"\n', "dim": 16, "query_length": 32, "query_expansion": True}
        path = self.folder / "encoder.json"
        path.write_text(json.dumps(encoder))
        made = documents(1, 5, 16)
        self.build(made, self.folder / "built", name="x", encoder=path)
        self.write(made, self.folder / "mapping", 16, name="x", encoder=encoder)
        self.write(made, self.folder / "file", 16, name="x", encoder=path)
        self.assert_same_files(self.folder / "built", self.folder / "mapping")
        self.assert_same_files(self.folder / "built", self.folder / "file")


if __name__ == "__main__":
    main()
