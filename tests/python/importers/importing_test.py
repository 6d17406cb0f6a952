"""What is common to all kinds: checks, payloads, dry runs, the command. python importing_test.py PROGRAMS"""

import contextlib
import datetime
import decimal
import importlib
import io
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import time
import types
import unittest
import unittest.mock
import uuid

import numpy as np
from stores_fixture import ImportTest, random_documents, read_collection, string_ids

import maxsim.importers
from maxsim.collection import CollectionError, CollectionWriter
from maxsim.command_line import main
from maxsim.command_line.progress import ProgressLine
from maxsim.importers import (
    KINDS,
    ImportOptions,
    OptionError,
    SourceDocument,
    SourceError,
    check_options,
    import_collection,
)
from maxsim.importers.payloads import json_payload

PACKAGE = pathlib.Path(maxsim.importers.__file__).resolve().parents[2]


class ListSource:
    """A source of documents that a test gives, under the name of a kind that needs no library."""

    kind = "npz"
    notes = ("made by a test",)

    def __init__(self, documents, dim=16):
        self.documents, self.dim, self.num_documents = documents, dim, len(documents)

    def __iter__(self):
        return iter(self.documents)


class Labelled:
    """An object, as a saved model is."""


class ImportingTest(ImportTest):
    def import_documents(self, documents, dim=16, dry_run=False, **options):
        source = ListSource([SourceDocument(*document) for document in documents], dim)
        module = types.SimpleNamespace(open_source=lambda path, options: source)
        with unittest.mock.patch.object(importlib, "import_module", lambda name: module):
            output = None if dry_run else self.folder / "collection"
            return import_collection("npz", "somewhere", output, dry_run=dry_run, **options)

    def assert_documents_refused(self, documents, message, **options):
        """By the dry run, and by the import in the same line, which leaves nothing behind."""
        documents = list(documents)
        with self.assertRaisesRegex((SourceError, CollectionError), message) as dry:
            self.import_documents(documents, dry_run=True, **options)
        with self.assertRaises(ValueError) as caught:
            self.import_documents(documents, **options)
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(str(dry.exception), str(caught.exception))
        self.assertEqual(list(self.folder.rglob("*.safetensors")) + list(self.folder.rglob("*.json")), [])

    def test_documents_and_what_the_report_says(self):
        vectors, ids = random_documents(30), string_ids(30)
        payloads = [{"title": f"t{number}", **({"year": number} if number % 3 == 0 else {})} for number in range(30)]
        for storage in ("f16", "f32"):
            report = self.import_documents(zip(ids, vectors, payloads), storage=storage)
            self.assert_documents(read_collection(self.folder / "collection"), ids, vectors, payloads)
            self.assertEqual((report.num_documents, report.num_tokens), (30, sum(map(len, vectors))))
            self.assertEqual((report.dim, report.id_type, report.storage), (16, "string", storage))
            self.assertEqual((report.num_payloads, report.payload_fields), (30, {"title": 30, "year": 10}))
            self.assertEqual((report.notes, report.num_skipped), (("made by a test",), 0))
            shard = sum(path.stat().st_size for path in (self.folder / "collection").glob("shard-*-00000.safetensors"))
            self.assertLessEqual(report.num_bytes, shard)
            self.assertGreater(report.num_bytes, shard - 5000 if storage == "f16" else 0)
            dry = self.import_documents(zip(ids, vectors, payloads), storage=storage, dry_run=True)
            # A dry run leaves the headers out.
            self.assertTrue(report.num_bytes - 5000 < dry.num_bytes < report.num_bytes)

    def test_integers_of_numpy_are_ids(self):
        vectors = random_documents(3)
        self.import_documents(zip(np.arange(3), vectors))
        self.assert_documents(read_collection(self.folder / "collection"), range(3), vectors)

    def test_documents_that_cannot_be_stored_are_named(self):
        one = np.ones((1, 16), np.float32)
        self.assert_documents_refused([], "there is no document to import")
        self.assert_documents_refused([("a", one), (1, one)], "document 1: id 1 is int64, those before it are string")
        self.assert_documents_refused([(True, one)], "document 0: its id is True, must be a string or an integer")
        self.assert_documents_refused([(None, one)], "document 0: its id is None")
        self.assert_documents_refused([(1.5, one)], "document 0: its id is 1.5")
        self.assert_documents_refused([(2**63, one)], "id 9223372036854775808 must fit in 64 bits")
        self.assert_documents_refused(
            [("a", one), ("b", one), ("a", one)], 'document 2: id "a" is that of document 0 already'
        )
        self.assert_documents_refused([("", one)], '^document 0: id "": empty, 1 to 512 bytes are expected$')
        self.assert_documents_refused([("x" * 513, one)], '^document 0: id "x+...": 513 bytes, the limit is 512$')
        self.assert_documents_refused([("a", one[:, :8])], r"shape \[1, 8\], must be \[tokens, 16\]")
        self.assert_documents_refused([("a", one[0])], r"shape \[16\], must be")
        for value, message in (
            (np.nan, "is not finite"),
            (np.inf, "is not finite"),
            (2e12, "beyond the limit of 1e\\+12"),
        ):
            vectors = np.full((2, 16), value, np.float32)
            message = f'document 0, id "a": vectors: token 0, column 0: .*{message}'
            self.assert_documents_refused([("a", vectors)], message, storage="f32")
        self.assert_documents_refused([("a", np.full((2, 16), 1e5, np.float32))], "too large for f16")
        self.assert_documents_refused([("a", np.ones((65537, 16), np.float16))], "65537 .*65536")
        self.assert_documents_refused([("a", one[:, :7])], "7 columns, must have 8 to 4096", dim=7)
        self.assert_documents_refused([("a", one, {"x": b"bytes"})], "field 'x': JSON has no bytes")

    def test_documents_without_tokens_are_left_out_where_that_is_asked_for(self):
        vectors = random_documents(3)
        vectors[1] = vectors[1][:0]
        self.assert_documents_refused(zip("abc", vectors), 'document 1, id "b": has no token vectors; --skip-empty')
        report = self.import_documents(zip("abc", vectors), skip_empty=True)
        self.assertEqual((report.num_documents, report.num_skipped), (2, 1))
        self.assert_documents(read_collection(self.folder / "collection"), "ac", [vectors[0], vectors[2]])

    def test_payloads_become_json(self):
        made = json_payload(
            {
                "numbers": np.arange(3),
                "number": np.float32(0.5),
                "text": np.str_("x"),
                "day": datetime.date(2026, 1, 2),
                "time": np.datetime64("2026-01-02T03:04:05"),
                "price": decimal.Decimal("1.10"),
                "uuid": uuid.UUID(int=1),
                "inner": {"list": (1, [None, True])},
            },
            "document 1",
        )
        self.assertEqual(made["numbers"], [0, 1, 2])
        self.assertEqual((made["number"], made["text"], made["day"]), (0.5, "x", "2026-01-02"))
        self.assertEqual((made["time"], made["price"]), ("2026-01-02T03:04:05", "1.10"))
        self.assertEqual(made["uuid"], "00000000-0000-0000-0000-000000000001")
        self.assertEqual(made["inner"], {"list": [1, [None, True]]})
        for value in (float("nan"), np.float64("inf"), object(), b"x", {1, 2}):
            with self.assertRaisesRegex(SourceError, "document 1, field 'a': JSON has no"):
                json_payload({"a": [value]}, "document 1")

    def test_an_option_that_a_kind_does_not_take_is_refused(self):
        with self.assertRaisesRegex(OptionError, "--mask: plaid does not take it; it takes --id-column, --ids"):
            check_options("plaid", ImportOptions(mask="m"), ("id_column", "ids"))
        check_options("plaid", ImportOptions(id_column="m"), ("id_column", "ids"))

    def test_a_missing_library_is_named_with_what_installs_it(self):
        project = (PACKAGE / "pyproject.toml").read_text()
        for name, kind in KINDS.items():
            for library in kind.libraries[:1]:
                error = ModuleNotFoundError("missing", name=library + ".part")
                with unittest.mock.patch.object(importlib, "import_module", side_effect=error):
                    with self.assertRaises(SourceError) as caught:
                        import_collection(name, "x", dry_run=True)
                    wanted = " ".join(f"'{requirement}'" for requirement in kind.requirements)
                    self.assertEqual(
                        str(caught.exception),
                        f"{name}: needs {library}, which is not installed: pip install {wanted}",
                    )
                    # The distribution's extra asks for the same.
                    extra = re.search(rf"^import-{kind.extra} = (\[.*\])$", project, re.MULTILINE)
                    self.assertEqual(json.loads(extra[1]), list(kind.requirements))
        with self.assertRaisesRegex(SourceError, "kind 'plait': must be one of plaid, colbert"):
            import_collection("plait", "x", dry_run=True)

    def test_importing_the_package_imports_no_library(self):
        code = "import sys; sys.path.insert(0, sys.argv[1]); import maxsim.command_line, maxsim.importers.indexes.plaid\n"
        code += "import maxsim.importers.indexes.pt; print(*sys.modules)"
        run = subprocess.run([sys.executable, "-c", code, str(PACKAGE)], check=True, capture_output=True, text=True)
        self.assertEqual(set(run.stdout.split()) & {"grpc", "torch", "pyarrow", "h5py", "pandas"}, set())


class CommandTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.vectors, self.ids = random_documents(30), string_ids(30)
        self.path = self.folder / "documents.pkl"
        self.path.write_bytes(pickle.dumps(dict(zip(self.ids, self.vectors))))

    def test_a_dry_run_says_what_is_there_and_writes_nothing(self):
        code, out, err = self.run_command("import", "--from", "pt", self.path, "--dry-run", "--storage", "f32")
        self.assertEqual((code, err), (0, ""))
        tokens = sum(map(len, self.vectors))
        self.assertRegex(out, rf"found +pt\ndocuments +30\ntokens +{tokens}, {tokens / 30:.1f} a document\ndim +16\n")
        self.assertRegex(out, r"ids +string\npayloads +none\nstorage +f32, [0-9.]+ KiB\nnothing was written\n$")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["documents.pkl"])

    def test_an_import_and_the_next_generation(self):
        target = self.folder / "docs"
        command = ["import", "--from", "pt", self.path, "--output", target]
        code, out, err = self.run_command(*command, "--name", "mine", "--storage", "f32")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, rf"imported +pt\n(.*\n)*written to {target}\n$")
        self.assert_documents(read_collection(target), self.ids, self.vectors)
        code, out, _ = self.run_command(*command)
        self.assertEqual(code, 0)
        self.assertIn("storage    f32", out)  # that of the generation before
        manifest = (target / "collection.json").read_text()
        self.assertIn('"name": "mine"', manifest)
        self.assertIn('"generation": 2', manifest)

    def test_codes_are_stored_beside_the_vectors(self):
        target = self.folder / "docs"
        command = ["import", "--from", "pt", self.path, "--output", target]

        def planes():
            manifest = json.loads((target / "collection.json").read_text())
            return manifest.get("codes", {}).get("planes")

        for options, expected in (((), None), (("--codes", "2"), 2), ((), 2), (("--codes", "0"), None)):
            self.assertEqual(self.run_command(*command, *options)[0], 0)
            self.assertEqual(planes(), expected)
            self.assert_documents(read_collection(target), self.ids, self.vectors)
        self.assertEqual(self.run_command(*command, "--codes", "4", "--dry-run")[0], 0)
        self.assertIsNone(planes())

    def test_a_dry_run_refuses_the_output_that_the_import_refuses(self):
        def write(name, ids, dim=16, payload=None):
            with CollectionWriter(self.folder / name, dim=dim) as writer:
                for id in ids:
                    writer.add(id, np.ones((1, dim), np.float32), payload)
            return self.folder / name

        def refused(output, message, *flags):
            lines = []
            before = sorted(self.folder.rglob("*"))
            for dry in (["--dry-run"], []):
                command = ("import", "--from", "pt", self.path, "--output", output, "--quiet", *flags, *dry)
                code, out, err = self.run_command(*command)
                self.assertEqual((code, out, err.count("\n")), (1, "", 1), (message, dry))
                self.assertRegex(err, message)
                lines.append(err)
                self.assertEqual(sorted(self.folder.rglob("*")), before)
            self.assertEqual(lines[0], lines[1])

        end = ", which its clients expect; choose another folder, or --allow-other-shape\n$"
        with_payloads = write("payloads", ["a"], payload={"title": "t"})
        for output, message in (
            (with_payloads, 'payloads: none, and generation 1 of "payloads" in the folder has some'),
            (write("wide", ["a"], dim=32), "dimension: 16, .* has 32"),
            (write("numbers", [1]), "type of ids: string, .* has int64"),
        ):
            refused(output, message + end)
            command = ("import", "--from", "pt", self.path, "--output", output, "--dry-run", "--allow-other-shape")
            self.assertEqual(self.run_command(*command)[0], 0)
        refused(with_payloads, 'holds the collection "payloads", not "other"', "--name", "other")
        (self.folder / "a b").mkdir()
        refused(self.folder / "a b", "name: .* it is the folder's, as none was given")
        refused(self.path, "documents.pkl: File exists")
        refused(self.path / "inner", "inner: Not a directory")
        (self.folder / "link").symlink_to("nowhere")
        refused(self.folder / "link", "link: File exists")
        (with_payloads / "collection.json").write_text("{")
        refused(with_payloads, "a manifest that cannot be read")

    def test_a_dry_run_refuses_a_folder_that_another_build_writes_to(self):
        target = self.folder / "docs"
        command = ("import", "--from", "pt", self.path, "--output", target, "--quiet")
        with CollectionWriter(target, dim=16) as writer:
            wanted = (1, "", f"maxsim import: {target}: another build is writing to this folder\n")
            self.assertEqual(self.run_command(*command, "--dry-run"), wanted)
            self.assertEqual(self.run_command(*command), wanted)
            writer.add("a", np.ones((1, 16), np.float32))
        self.assertEqual(self.run_command(*command, "--dry-run")[0], 0)

    def test_a_dry_run_refuses_a_folder_that_cannot_be_written_to(self):
        self.folder.chmod(0o755)
        for name in ("closed", "closed/docs"):
            (self.folder / name).mkdir()
        (self.folder / "closed" / "docs").chmod(0o555)
        (self.folder / "closed").chmod(0o555)
        is_root = os.geteuid() == 0
        for output, named in (("closed/new/docs", "closed/new"), ("closed/docs", "closed/docs/.maxsim-build.lock")):
            command = ("import", "--from", "pt", self.path, "--output", self.folder / output, "--quiet")
            wanted = (1, "", f"maxsim import: {self.folder / named}: Permission denied\n")
            try:
                if is_root:  # who may write everywhere
                    os.seteuid(65534)
                found = [self.run_command(*command, *dry) for dry in ([], ["--dry-run"])]
            finally:
                if is_root:
                    os.seteuid(0)
            self.assertEqual(found, [wanted, wanted])
        (self.folder / "closed").chmod(0o755)

    def test_exit_codes_and_errors_of_one_line(self):
        (self.folder / "empty.txt").write_text("a\n\n" + "b\n" * 28)
        (self.folder / "object.pkl").write_bytes(pickle.dumps(Labelled()))
        for code, message, arguments in (
            (
                1,
                r"maxsim import: .*nowhere.pt: No such file or directory\n",
                ["pt", self.folder / "nowhere.pt", "--dry-run"],
            ),
            (
                1,
                rf"maxsim import: {self.folder}/empty.txt:2: an empty line between documents\n",
                ["pt", self.path, "--dry-run", "--ids", self.folder / "empty.txt"],
            ),
            (
                1,
                rf"maxsim import: {self.folder}/object.pkl: is a pickle of objects \(for instance a saved model\), of which "
                r"only tensors, arrays, numbers, strings and containers are read: .*Labelled at byte \d+\n",
                ["pt", self.folder / "object.pkl", "--dry-run"],
            ),
        ):
            found, out, err = self.run_command("import", "--from", *arguments)
            self.assertEqual((found, out), (code, ""))
            self.assertRegex(err, rf"^{message}$")
        for message, arguments in (
            ("--output DIR must be given, or --dry-run", ["pt", self.path]),
            ("argument --from: invalid choice: 'plait'", ["plait", self.path, "--dry-run"]),
            ("--mask: pt does not take it; it takes --id-column", ["pt", self.path, "--dry-run", "--mask", "m"]),
            ('argument --name: "a b" is not 1 to 128 of', ["pt", self.path, "--dry-run", "--name", "a b"]),
            ('argument --name: "a/b" is not 1 to 128 of', ["pt", self.path, "--output", "x", "--name", "a/b"]),
        ):
            err = io.StringIO()
            with self.assertRaises(SystemExit) as caught, contextlib.redirect_stderr(err):
                main(["import", "--from", *map(str, arguments)])
            self.assertEqual(caught.exception.code, 2)
            self.assertIn(f"maxsim import: error: {message}", err.getvalue())

    def test_an_interrupted_import_leaves_nothing(self):
        documents = [
            np.ones((1, 1024), np.float16)
        ] * 400_000  # The pickle holds one array; the collection would have 800 MB.
        self.path.write_bytes(pickle.dumps(documents, 4))
        target = self.folder / "docs"
        command = [sys.executable, "-m", "maxsim", "import", "--from", "pt", self.path, "--output", target]
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
            process = subprocess.Popen(
                command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            limit = time.monotonic() + 60
            while not any(path.stat().st_size > 0 for path in target.glob("*.tmp")):
                self.assertIsNone(process.poll(), "the import has ended before the signal")
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.01)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, err)
            self.assertEqual((out, err), ("", "maxsim import: interrupted, nothing was written\n"))
            self.assertEqual([path.name for path in target.glob("*") if path.name != ".maxsim-build.lock"], [])

    def test_an_interrupt_behind_the_publishing_says_that_it_is_published(self):
        from maxsim.collection import folder

        self.path.write_bytes(pickle.dumps([np.ones((2, 16), np.float16)] * 3, 4))
        sync = folder.sync_folder
        for generation, (number, code) in enumerate(((signal.SIGINT, 130), (signal.SIGTERM, 143)), 1):
            target = self.folder / "docs"

            def sync_and_interrupt(path, generation=generation, number=number, manifest=target / "collection.json"):
                sync(path)
                if manifest.exists() and json.loads(manifest.read_text())["generation"] == generation:
                    os.kill(os.getpid(), number)

            with unittest.mock.patch.object(folder, "sync_folder", sync_and_interrupt):
                found, out, err = self.run_command(
                    "import", "--from", "pt", self.path, "--output", target, "--storage", "f32", "--quiet"
                )
            message = f"maxsim import: interrupted, generation {generation} is published in {target}\n"
            self.assertEqual((found, out, err), (code, "", message))
            self.assertEqual(len(read_collection(target)), 3)
            self.assertEqual(len(list(target.iterdir())), 1 + generation)

    def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(self):
        times = iter([5.0, 5.3, 15.4])
        with unittest.mock.patch("time.monotonic", lambda: next(times)):
            terminal = io.StringIO()
            terminal.isatty = lambda: True
            progress = ProgressLine(terminal)
            for documents in (1, 15, 30):
                progress(documents, 30, documents * 7)
        shown = terminal.getvalue()
        self.assertEqual(shown.count("\r"), 2)
        self.assertIn("\r[###############               ] 15 of 30 documents, 105 tokens, 50 documents/s", shown)
        self.assertIn("\r[##############################] 30 of 30 documents, 210 tokens, 3 documents/s", shown)
        progress.finish()
        self.assertTrue(terminal.getvalue().endswith(" \r"))
        times = iter([5.0, 14.9, 15.4])
        with unittest.mock.patch("time.monotonic", lambda: next(times)):
            log = io.StringIO()
            progress = ProgressLine(log)
            for documents in (1, 15, 30):
                progress(documents, None, documents * 7)
            progress.finish()
        self.assertEqual(log.getvalue(), "30 documents, 210 tokens, 3 documents/s\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
