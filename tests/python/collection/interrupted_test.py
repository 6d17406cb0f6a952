"""Stops a writer at many points by an interrupt, a warning or the garbage collector. The writer must leave a complete
collection and no lock.

python interrupted_test.py MAXSIM_SHARD
"""

import gc
import json
import os
import pathlib
import sys
import threading
import time
import warnings
from unittest import mock

import numpy as np

from collection_fixture import CollectionWriter, TemporaryFolderTest, main
from maxsim.collection import CollectionError
from maxsim.collection import folder as folder_module
from maxsim.collection import folder_lock as lock_module
from maxsim.collection.workers import in_pool, make_pool

ONE = np.ones((2, 8), np.float32)
TRACED = ("writer.py", "folder.py")


class InterruptAtLine:
    """Counts the lines of the package that are executed while a generation is published. Raises KeyboardInterrupt
    before line number `at`."""

    def __init__(self, at):
        self._left = at
        self._depth = 0
        self.raised = False

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *error):
        sys.settrace(None)

    def _call(self, frame, event, argument):
        path = pathlib.Path(frame.f_code.co_filename)
        if path.parent.name != "collection" or path.name not in TRACED:
            return None
        if frame.f_code.co_name == "_publish":
            self._depth += 1
        return self._line if self._depth else None

    def _line(self, frame, event, argument):
        if event == "line" and self._depth:
            self._left -= 1
            if self._left == 0:
                self.raised = True
                raise KeyboardInterrupt
        if event == "return" and frame.f_code.co_name == "_publish":
            self._depth -= 1
        return self._line


class InterruptedTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.target = self.folder / "docs"

    def generation(self):
        return json.loads((self.target / "collection.json").read_text())["generation"]

    def assert_usable(self):
        """Checks that the collection is complete, that the folder has no other files, and that a new writer can open
        it."""
        self.assert_whole(self.target)
        generation = self.generation()
        usual = r"^(collection(\.previous)?\.json|shard-0{5}[1-9]-\d{5}\.safetensors)$"
        for name in os.listdir(self.target):
            self.assertRegex(name, usual)
            self.assertLessEqual(int(name[6:12]) if name.startswith("shard") else 0, generation)
        CollectionWriter(self.target, dim=8).abort()
        self.assert_whole(self.target)

    def test_an_interrupt_at_any_line_of_publishing(self):
        seen = set()
        for at in range(1, 1000):
            self.target = self.folder / f"docs-{at}"
            self.write([(1, ONE)], self.target, 8)
            writer = CollectionWriter(self.target, dim=8)
            writer.add(2, ONE)
            with InterruptAtLine(at) as interrupt:
                try:
                    writer.close()
                except KeyboardInterrupt:
                    pass
            generation = self.generation()
            with self.subTest(at=at, generation=generation):
                self.assertEqual(writer.summary.generation if writer.summary else 1, generation)
                self.assert_usable()
            if not interrupt.raised:
                break
            seen.add(generation)
        self.assertFalse(interrupt.raised)
        self.assertEqual(seen, {1, 2})

    def test_an_interrupt_right_behind_the_rename(self):
        for number, exception in enumerate((KeyboardInterrupt, SystemExit, MemoryError)):
            self.target = self.folder / f"docs-{number}"
            self.write([(1, ONE)], self.target, 8)
            rename = os.rename

            def renamed(source, target, exception=exception):
                rename(source, target)
                if str(target).endswith("collection.json"):
                    raise exception

            writer = CollectionWriter(self.target, dim=8)
            writer.add(2, ONE)
            with mock.patch.object(folder_module.os, "rename", renamed):
                self.assertRaises(exception, writer.close)
            self.assertEqual((self.generation(), writer.summary.generation), (2, 2))
            self.assert_usable()

    def test_a_warning_that_is_an_error_gives_the_lock_back(self):
        sync = folder_module.sync_folder

        def fail_when_published(path):
            sync(path)
            if (path / "collection.json").exists():
                raise OSError(5, "Input/output error")

        writer = CollectionWriter(self.target, dim=8)
        writer.add(1, ONE)
        with mock.patch.object(folder_module, "sync_folder", fail_when_published), warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertRaisesRegex(RuntimeWarning, "the new generation is published", writer.close)
        self.assertEqual((self.generation(), writer.summary.generation), (1, 1))
        self.assert_usable()

    def test_a_lock_whose_file_cannot_be_removed_is_given_back(self):
        writer = CollectionWriter(self.target, dim=8)
        writer.add(1, ONE)
        with mock.patch.object(lock_module, "_has_name", side_effect=PermissionError):
            self.assertRaises(PermissionError, writer.close)
        self.write([(2, ONE)], self.target, 8)
        self.assertEqual(self.generation(), 2)

    def lose_writer(self, lose):
        """Calls `lose`, which drops the last reference to a writer while it writes. Waits until the writer's temporary
        folder is gone. Returns the errors of its threads."""
        errors = []
        with mock.patch.object(sys, "unraisablehook", errors.append), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            writer = [CollectionWriter(self.target, dim=128, storage="i8")]
            vectors = np.ones((100_000, 128), np.float32)
            writer[0].add_packed(list(range(10_000)), vectors, [10] * 10_000)
            lose(writer)
            limit = time.monotonic() + 60
            while self.target.exists() and time.monotonic() < limit:
                time.sleep(0.01)
        self.assertFalse(self.target.exists(), os.listdir(self.target) if self.target.exists() else "")
        return [str(error.exc_value) for error in errors]

    def test_a_writer_that_is_lost_while_it_stores_is_ended(self):
        self.assertEqual(self.lose_writer(list.clear), [])
        self.write([(1, ONE)], self.target, 8)

    def test_a_writer_that_is_collected_in_its_own_thread_is_ended(self):
        def lose(writer):
            """Drops the last reference in the thread that stores."""
            pool = writer[0]._storing._pool
            gate = threading.Event()
            held = [writer.pop()]

            def drop():
                gate.wait()
                held.clear()
                gc.collect()

            pool.submit(drop)
            gate.set()

        self.assertEqual(self.lose_writer(lose), [])
        self.write([(1, ONE)], self.target, 8)

    def test_threads_of_pools_know_that_they_are(self):
        pool = make_pool(1, "test")
        self.assertEqual((in_pool(), pool.submit(in_pool).result()), (False, True))
        pool.shutdown()

    def test_a_manifest_that_cannot_be_read_loses_no_shard(self):
        self.write([(1, ONE)], self.target, 8)
        manifest = self.target / "collection.json"
        text = manifest.read_text()
        names = sorted(os.listdir(self.target))
        for wrong in ("{}", "", text.replace('"format_version": 1', '"format_version": 2')):
            manifest.write_text(wrong)
            self.assertRaises(CollectionError, CollectionWriter, self.target, dim=8)
            self.assertEqual(sorted(os.listdir(self.target)), names)
        manifest.write_text(text)
        self.assert_usable()


if __name__ == "__main__":
    main()
