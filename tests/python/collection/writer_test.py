"""Tests the errors of CollectionWriter, and which files it leaves in the folder.

python writer_test.py MAXSIM_SHARD
"""

import datetime
import json
import os
import sys
import threading
import warnings
from unittest import mock

import numpy as np

from collection_fixture import CollectionWriter, TemporaryFolderTest, documents, main, run_shard
from maxsim.collection import CollectionError
from maxsim.collection.dry_run import DryRunWriter

ONE = np.ones((2, 8), np.float32)


class WriterTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.target = self.folder / "parent" / "docs"

    def refuses(self, message, call, *arguments, **options):
        with self.assertRaises(CollectionError) as raised:
            call(*arguments, **options)
        self.assertIn(message, str(raised.exception))
        self.assertNotIn("\n", str(raised.exception))
        return raised.exception

    def test_options_are_checked(self):
        for message, options in (
            ("dim: 7 is not in 8 .. 4096", {"dim": 7}),
            ("dim: 4097 is not in 8 .. 4096", {"dim": 4097}),
            ("dim: '8'; must be an integer", {"dim": "8"}),
            ('storage: "int8"; must be f32, f16, bf16 or i8', {"storage": "int8"}),
            ("max_shard_bytes: 8191 is not 8192 or more", {"max_shard_bytes": 8191}),
            ("rotation_seed: 5: only i8 and codes are rotated, but the storage is f16", {"storage": "f16", "rotation_seed": 5}),
            ("rotation_seed: 9007199254740992 is not in 0 .. 9007199254740991", {"rotation_seed": 1 << 53}),
            ("num_threads: 0 is not 1 or more", {"num_threads": 0}),
            ('name: "a b" must be 1 to 128 characters of A-Z a-z 0-9 . _ -', {"name": "a b"}),
            ('name: ".." is only dots', {"name": ".."}),
            ('encoder: key "model" is missing', {"encoder": {"dim": 8}}),
            ('encoder: unknown key "modle"', {"encoder": {"modle": "m", "dim": 8}}),
            ("encoder: dim: 16, but the token vectors' dim is 8", {"encoder": {"model": "m", "dim": 16}}),
            ("encoder: query_length: 65537 is not in 1 .. 65536",
             {"encoder": {"model": "m", "dim": 8, "query_length": 65537}}),
            ("encoder: model: 1025 bytes, the limit is 1024", {"encoder": {"model": "m" * 1025, "dim": 8}}),
            ("encoder: query_expansion: 1; must be true or false",
             {"encoder": {"model": "m", "dim": 8, "query_expansion": 1}}),
        ):  # fmt: skip
            with self.subTest(message):
                error = self.refuses(message, CollectionWriter, self.target, **{"dim": 8, **options})
                self.assertIn(error.field, options)
                self.assertEqual(str(error), f"{error.field}: {error.reason}")
                self.assertFalse(self.target.parent.exists())
        self.refuses("it is the name of the folder, because no name was given", CollectionWriter, self.folder / "a b", dim=8)

    def test_a_refused_document_is_not_added_and_the_writer_goes_on(self):
        deep = {"a": [1]}
        for _ in range(63):
            deep = {"a": deep}
        with CollectionWriter(self.target, dim=8) as writer:
            writer.add("a", ONE)
            for message, arguments in (
                ('document 1, id "b": vectors: shape [2, 16]; must be [tokens, 8]', ("b", np.ones((2, 16)))),
                (
                    'document 1, id "b": vectors: 0 tokens; must be 1 to 65536',
                    ("b", np.ones((0, 8), np.float16)),
                ),
                ("vectors: 65537 tokens; must be 1 to 65536", ("b", np.ones((65537, 8), np.float16))),
                ("vectors has elements of int64", ("b", np.ones((2, 8), np.int64))),
                ("vectors: shape [8]; must be [tokens, 8]", ("b", np.ones(8, np.float32))),
                ('document 1: id "": empty; must have 1 to 512 bytes', ("", ONE)),
                ("513 bytes, the limit is 512", ("x" * 513, ONE)),
                ("document 1, id 5: the id is an integer, unlike those before it", (5, ONE)),
                ("must be a string or a 64-bit integer, is float", (1.5, ONE)),
                ("payload: must be a mapping, is list", ("b", ONE, [1])),
                ("payload: key 1 is not a string", ("b", ONE, {1: 2})),
                ('payload: field "a": key 2 is not a string', ("b", ONE, {"a": {2: 3}})),
                ('payload: field "a": a set is not a value of JSON', ("b", ONE, {"a": {1}})),
                ("payload: a number that is not finite", ("b", ONE, {"a": float("nan")})),
                ("payload: a number that is not finite", ("b", ONE, {"a": [np.float32("inf")]})),
                ('payload: field "a": an integer of 1024 bits, the limit is 1023', ("b", ONE, {"a": 1 << 1023})),
                ("payload: 1048577 bytes as JSON, the limit is 1048576", ("b", ONE, {"a": "x" * 1048569})),
                ("nested deeper than the limit of 64 levels", ("b", ONE, deep)),
                ("payload: a string is not UTF-8", ("b", ONE, {"a": "\ud800"})),
                ('payload: field "a": a date is not a value of JSON', ("b", ONE, {"a": datetime.date(2026, 1, 1)})),
            ):
                with self.subTest(message):
                    self.refuses(message, writer.add, *arguments)
            writer.add("b", ONE, {"a": "x" * 1048568})
            writer.add("c", ONE, deep["a"])
            writer.add("d", ONE, {"i": np.int16(3), "f": np.float32(0.5), "l": np.arange(2), "t": (1, None)})
        self.assertEqual((writer.num_documents, writer.summary.num_documents), (4, 4))
        self.assert_whole(self.target)

    def test_packed_documents_are_added_together_or_not_at_all(self):
        rows = np.ones((5, 8), np.float16)
        with CollectionWriter(self.target, dim=8) as writer:
            for message, arguments in (
                ("vectors: float64 [5, 8]; must be float16 or float32 [tokens, 8]", (["a"], np.ones((5, 8)), [5])),
                ("must be one for each of the 2 ids", (["a", "b"], rows, [5])),
                ("must be one for each of the 2 ids", (["a", "b"], rows, [2, 3], [None])),
                ("lengths: 0 .. 5, 5 in all", (["a", "b"], rows, [0, 5])),
                ("lengths: 2 .. 2, 4 in all", (["a", "b"], rows, [2, 2])),
                ("lengths: elements of float64; must be integers", (["a", "b"], rows, [2.9, 3.9])),
                ("lengths: elements of bool; must be integers", (["a", "b"], rows, [True, True])),
                ("lengths: elements of object; must be integers", (["a", "b"], rows, [1 << 70, 5])),
                ("document 1, id 7: ", (["a", 7], rows, [2, 3])),
                ('document 1, id "b": payload: must be a mapping', (["a", "b"], rows, [2, 3], [None, 5])),
            ):
                with self.subTest(message):
                    self.refuses(message, writer.add_packed, *arguments)
                    self.assertEqual(writer.num_documents, 0)
            writer.add_packed(["a", "b"], rows, [2, 3], [None, {"x": 1}])
            self.refuses("the id is an integer, unlike those before it", writer.add_packed, [1], rows, [5])
        self.assertEqual(writer.summary.num_tokens, 5)
        self.assert_whole(self.target)

    def test_a_wrong_value_names_its_document_and_ends_the_writer(self):
        for storage, value, message in (
            ("f16", 65520.0, 'document 300, id "d300": vectors: token 1, column 3: 65520 is too large for f16 '
                             "(largest: 65504)"),
            ("f32", np.nan, "token 1, column 3: nan is not finite"),
            ("bf16", 1.003e12, "token 1, column 3: 1.003e+12 is beyond the limit of 1e+12"),
            ("f32", 2e12, "token 1, column 3: 2e+12 is beyond the limit of 1e+12"),
            ("i8", -np.inf, "token 1, column 3: -inf is not finite"),
            ("i8", 1e12, 'document 300, id "d300": vectors: '),
        ):  # fmt: skip
            wrong = np.full((2, 8), 1e12 if storage == "i8" and value > 0 else 1, np.float32)
            wrong[1, 3] = value
            writer = CollectionWriter(self.target, dim=8, storage=storage)
            for index in range(600):
                writer.add(f"d{index}", wrong if index == 300 else ONE)
            self.refuses(message, writer.close)
            self.assertFalse(self.target.parent.exists())
            self.refuses("the writer is closed", writer.add, "x", ONE)

    def test_ids_that_repeat_end_the_writer(self):
        with self.assertRaises(CollectionError) as raised:
            with CollectionWriter(self.target, dim=8) as writer:
                for index in range(100_000):
                    writer.add(index if index != 70_000 else 8, ONE)
        self.assertEqual(str(raised.exception), "document 70000: id 8 is already the id of document 8")
        self.assertFalse(self.target.parent.exists())
        writer = CollectionWriter(self.target, dim=8)
        writer.add("x", ONE)
        writer.add("x", ONE)
        self.refuses('document 1: id "x" is already the id of document 0', writer.close)

    def test_after_a_late_error_only_the_end_is_left(self):
        with self.assertRaises(CollectionError) as raised:
            with CollectionWriter(self.target, dim=8) as writer:
                try:
                    for index in range(200_000):
                        writer.add(index // 2, ONE)
                except CollectionError:
                    self.refuses("cannot go on after an error: document 1: id 0 is", writer.add, -1, ONE)
        self.assertIn("cannot go on after an error", str(raised.exception))
        self.assertFalse(self.target.parent.exists())

    def test_vectors_are_copied(self):
        made = documents(1, 200, 8)
        self.write(made, self.folder / "one", 8, name="x")
        buffer = np.empty((40, 8), np.float32)
        with CollectionWriter(self.folder / "two", dim=8, name="x") as writer:
            for id, vectors, _ in made:
                buffer[: len(vectors)] = vectors
                writer.add(id, buffer[: len(vectors)])
                buffer[:] = 9
        self.assert_same_files(self.folder / "one", self.folder / "two")

    def test_views_and_lists_are_vectors(self):
        for vectors in (
            ONE.tolist(),
            np.ones((8, 2), np.float32).T,
            np.ones((4, 8), np.float16)[::2],
            ONE.astype(">f4"),
        ):
            with CollectionWriter(self.folder / "docs", dim=8, storage="f32") as writer:
                writer.add(1, vectors)
            self.assert_whole(self.folder / "docs")

    def test_leaving_by_an_exception_leaves_what_was_there(self):
        def fail(target):
            with CollectionWriter(target, dim=8, max_shard_bytes=8192) as writer:
                for index in range(60_000):
                    writer.add(index, ONE, {"a": 1} if index > 50_000 else None)
                raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, fail, self.target)
        self.assertFalse(self.target.parent.exists())
        self.write([(1, ONE)], self.target, 8)
        before = sorted(os.listdir(self.target))
        self.assertRaises(KeyboardInterrupt, fail, self.target)
        self.assertEqual(sorted(os.listdir(self.target)), before)
        self.assert_whole(self.target)
        writer = CollectionWriter(self.target, dim=8)
        self.refuses("there is no document to build from", writer.close)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            writer = CollectionWriter(self.target, dim=8)
            writer.add(1, ONE)
            del writer
        self.assertIn("was never closed: nothing is published", str(caught[0].message))
        self.assertEqual(sorted(os.listdir(self.target)), before)

    def test_a_system_without_file_locks_is_refused(self):
        with mock.patch.dict("sys.modules", {"fcntl": None}):
            sys.modules.pop("maxsim.collection.folder_lock", None)
            self.refuses("POSIX systems only", CollectionWriter, self.target, dim=8)
        self.assertFalse(self.target.parent.exists())

    def test_a_full_disk_is_an_error_of_the_system_and_leaves_nothing(self):
        with mock.patch("maxsim.collection.folder.os.fsync", side_effect=OSError(28, "No space left on device")):
            writer = CollectionWriter(self.target, dim=8)
            writer.add(1, ONE)
            self.assertRaises(OSError, writer.close)
        self.assertFalse(self.target.parent.exists())

    def test_one_writer_at_a_time(self):
        writer = CollectionWriter(self.target, dim=8)
        self.refuses("another build is writing to this folder", CollectionWriter, self.target, dim=8)
        np.save(self.folder / "t.npy", ONE)
        np.save(self.folder / "l.npy", np.array([2]))
        build = [
            "build",
            "--tokens",
            self.folder / "t.npy",
            "--lengths",
            self.folder / "l.npy",
            "--output",
            self.target,
        ]
        self.assertIn("another build is writing to this folder", run_shard(*build).stderr)
        # A process that is forked while the writer is open must not end the writer, and must not keep its lock.
        ready, end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                writer.add(1, ONE)
            except CollectionError:
                writer.abort()
                os.read(ready, 1)
            os._exit(0)
        writer.add(1, ONE)
        writer.close()
        self.assertEqual(run_shard(*build, "--quiet").stderr, "")
        os.write(end, b"x")
        os.waitpid(child, 0)
        self.assertEqual(sorted(os.listdir(self.target))[0], "collection.json")
        self.refuses("the writer is closed", writer.close)

    def test_the_next_generation_has_the_shape_of_the_one_before(self):
        self.write([("a", ONE, {"t": 1})], self.target, 8, storage="bf16", name="x")
        self.refuses('holds the collection "x", not "y"', CollectionWriter, self.target, dim=8, name="y")
        self.refuses(
            'dimension: 16, and generation 1 of "x" in the folder has 8', CollectionWriter, self.target, dim=16
        )
        with CollectionWriter(self.target, dim=8) as writer:
            self.refuses("type of ids: int64, and generation 1", writer.add, 1, ONE)
            writer.add("b", ONE)
            writer.add("c", ONE, {"t": 2})
        self.assertEqual((writer.summary.storage, writer.summary.generation), ("bf16", 2))
        writer = CollectionWriter(self.target, dim=8)
        writer.add("d", ONE)
        self.refuses('payloads: none, and generation 2 of "x" in the folder has some', writer.close)
        summary = self.write([(1, np.ones((1, 16)))], self.target, 16, allow_other_shape=True)
        self.assertEqual((summary.generation, summary.dim, summary.id_type), (3, 16, "int64"))
        self.assert_whole(self.target)

    def test_the_generation_before_is_kept_and_the_one_that_a_server_serves(self):
        texts = {}
        for number in range(1, 6):
            self.write([(number, ONE)], self.target, 8)
            texts[number] = (self.target / "collection.json").read_text()
            if number == 2:
                # A server notes that it is to serve this generation.
                (self.target / "collection.served.json").write_text(texts[2])
            if number > 1:
                previous = (self.target / "collection.previous.json").read_text()
                self.assertEqual(previous, texts[min(number - 1, 2)], f"generation {number}")
        shards = [f"shard-{number:06d}-00000.safetensors" for number in (2, 4, 5)]
        self.assertEqual([name for name in sorted(os.listdir(self.target)) if name.startswith("shard")], shards)
        (self.target / "collection.served.json").write_text("{")
        self.write([(6, ONE)], self.target, 8)
        self.assertTrue((self.target / shards[0]).exists(), "the server may need it")

    def test_a_note_that_the_writer_may_not_read_keeps_all_files(self):
        self.write([(1, ONE)], self.target, 8)
        published = (self.target / "collection.json").read_text()
        note = self.target / "collection.served.json"

        def refusing(path, *arguments, **options):
            if str(path) == str(note):
                raise PermissionError(13, "Permission denied", str(path))
            return open(path, *arguments, **options)

        note.write_text(published)
        with mock.patch("maxsim.collection.manifest.open", refusing, create=True):
            for number in (2, 3, 4):
                self.write([(number, ONE)], self.target, 8)
        self.assertTrue((self.target / "shard-000001-00000.safetensors").exists(), "the server may need it")

    def test_what_is_no_collection_is_refused(self):
        self.target.mkdir(parents=True)
        (self.target / "collection.json").write_text("{}")
        shard = self.target / "shard-000001-00000.safetensors"
        shard.write_text("of a generation that the manifest may have named")
        begin = f"{self.target / 'collection.json'}: a manifest that cannot be read; remove it to start over: "
        self.refuses(begin + "KeyError: 'format'", CollectionWriter, self.target, dim=8)
        (self.target / "collection.json").write_text('{"format": "other"}')
        self.refuses(begin + "its format is not maxsim-collection", CollectionWriter, self.target, dim=8)
        for version, problem in (
            (0, "format_version: 0; this version reads 1 to 4"),
            (2, "it is a partition of a collection; use a folder of its own for the whole collection"),
            (5, "format_version: 5; this version reads 1 to 4"),
        ):
            text = f'{{"format": "maxsim-collection", "format_version": {version}}}'
            (self.target / "collection.json").write_text(text)
            # The manifest is not damaged, so the error must not advise removing it.
            self.refuses(f"{self.target / 'collection.json'}: {problem}", CollectionWriter, self.target, dim=8)
        self.assertTrue(shard.exists())
        (self.target / "collection.json").unlink()
        os.symlink("/dev/null", self.target / "shard-000001-00000.safetensors.tmp")
        writer = CollectionWriter(self.target, dim=8)
        writer.add(1, ONE)
        self.refuses("something of that name that is not a file is in the way; remove it", writer.close)
        (self.folder / "file").write_text("")
        self.assertRaises(OSError, CollectionWriter, self.folder / "file", dim=8)

    def test_a_folder_that_cannot_be_synchronised_after_publishing_is_a_warning(self):
        from maxsim.collection import folder

        def sync(path):
            if (path / "collection.json").exists():
                raise OSError(5, "Input/output error")

        with mock.patch.object(folder, "sync_folder", sync):
            with self.assertWarnsRegex(RuntimeWarning, "a power failure now may bring back the one before"):
                self.write([(1, ONE)], self.target, 8)
        self.assert_whole(self.target)

    def test_the_folders_that_are_created_are_synchronised_before_publishing(self):
        from maxsim.collection import folder

        synchronised = []

        def sync(path):
            synchronised.append((path, (self.target / "collection.json").exists()))

        with mock.patch.object(folder, "sync_folder", sync):
            self.write([(1, ONE)], self.target, 8)
            first, synchronised = synchronised, []
            self.write([(2, ONE)], self.target, 8)
        published = [(self.target, False), (self.target, True)]
        self.assertEqual(first, [(self.target.parent, False), (self.folder, False), *published])
        self.assertEqual(synchronised, [(self.target, True)] * 2)

    def test_a_parent_that_cannot_be_read_is_not_synchronised(self):
        from maxsim.collection import folder

        def sync(path):
            if path != self.target:
                raise PermissionError(13, "Permission denied")

        with mock.patch.object(folder, "sync_folder", sync):
            self.write([(1, ONE)], self.target, 8)
        self.assert_whole(self.target)

    def test_shards_of_a_manifest_are_checked(self):
        self.write([(1, ONE)], self.target, 8)
        manifest = self.target / "collection.json"
        values = json.loads(manifest.read_text())
        shard = values["shards"][0]
        for wrong in ({**shard, "file": []}, {**shard, "num_tokens": "2"}, {**shard, "num_documents": True}, [], {}):
            manifest.write_text(json.dumps({**values, "shards": [wrong]}))
            self.refuses("a manifest that cannot be read", CollectionWriter, self.target, dim=8)

    def test_a_live_collection_is_refused_and_left_as_it_is(self):
        (self.target / "log").mkdir(parents=True)
        for writer in (CollectionWriter, DryRunWriter):
            with self.subTest(writer=writer.__name__):
                self.refuses("is a live collection", writer, self.target, dim=8)
                self.assertEqual([path.name for path in self.target.iterdir()], ["log"])

    def test_threads_of_the_writer_end_with_it(self):
        before = threading.active_count()
        self.write(documents(1, 300, 128), self.target, 128, storage="i8", num_threads=3)
        self.assertEqual(threading.active_count(), before)

    def test_the_manifest_names_the_program(self):
        self.write([(1, ONE)], self.target, 8)
        manifest = json.loads((self.target / "collection.json").read_text())
        self.assertRegex(manifest["created_by"], r"^maxsim \d+\.\d+\.\d+ \(Python\)$")
        self.write([(1, ONE)], self.target, 8, created_by="mine 1")
        self.assertEqual(json.loads((self.target / "collection.json").read_text())["created_by"], "mine 1")


if __name__ == "__main__":
    main()
