"""Tests the command `maxsim import`: dry runs, errors, interrupts, progress. python import_command_test.py PROGRAMS"""

import contextlib
import io
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

import numpy as np
from stores_fixture import ImportTest, random_documents, read_collection, string_ids

import maxsim.importers
from maxsim.collection import CollectionWriter
from maxsim.command_line import main
from maxsim.command_line.progress import ProgressLine

PACKAGE = pathlib.Path(maxsim.importers.__file__).resolve().parents[2]


class Labelled:
    """An object, as a saved model is."""


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

    def test_tokens_that_i8_keeps_too_little_of_are_warned_of_or_refused(self):
        self.vectors[3][0] *= 1e6
        lost = len(self.vectors[3]) - 1
        self.path.write_bytes(pickle.dumps(dict(zip(self.ids, self.vectors))))
        target = self.folder / "docs"
        said = rf"i8 keeps too little of {lost} tokens? of 1 document \({lost} became zeros\)"
        command = ["import", "--from", "pt", self.path]
        for options in (["--dry-run"], ["--output", target]):
            code, out, _ = self.run_command(*command, *options, "--storage", "i8")
            self.assertEqual(code, 0)
            self.assertRegex(out, rf"\nwarning    {said}: others of the same documents are far longer\n")
            code, out, _ = self.run_command(*command, *options, "--storage", "f32", "--refuse-lossy")
            self.assertEqual(code, 0)
            self.assertNotIn("warning", out)
        manifest = (target / "collection.json").read_text()
        for options in (["--dry-run"], ["--output", target]):
            code, out, err = self.run_command(*command, *options, "--storage", "i8", "--refuse-lossy")
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(err, rf'document 3, id "{self.ids[3]}": i8 keeps too little .*: {lost} tokens of 1 document')
        self.assertEqual((target / "collection.json").read_text(), manifest)

    def test_fields_are_those_of_the_writer(self):
        command = ["import", "--from", "pt", self.path, "--output", self.folder / "docs"]
        self.assertEqual(self.run_command(*command, "--fields", "none")[0], 0)
        code, _, err = self.run_command(*command, "--fields", "lang:text")
        self.assertEqual(code, 1)
        self.assertRegex(err, r'fields: "lang:text": kind: "text", expected one of keyword, .*time\n$')
        for dry_run in ((), ("--dry-run",)):
            code, _, err = self.run_command(*command, "--fields", "lang:keyword", *dry_run)
            self.assertEqual(code, 1)
            self.assertIn("fields: no document has a payload, from which their values are read\n", err)

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
        refused(self.folder / "a b", "name: .* it is the name of the folder, because no name was given")
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
                if is_root:  # root may write everywhere
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
            ('argument --name: "a b" must be 1 to 128 characters of', ["pt", self.path, "--dry-run", "--name", "a b"]),
            ('argument --name: "a/b" must be 1 to 128 characters of', ["pt", self.path, "--output", "x", "--name", "a/b"]),
        ):
            err = io.StringIO()
            with self.assertRaises(SystemExit) as caught, contextlib.redirect_stderr(err):
                main(["import", "--from", *map(str, arguments)])
            self.assertEqual(caught.exception.code, 2)
            self.assertIn(f"maxsim import: error: {message}", err.getvalue())

    def test_an_interrupted_import_leaves_nothing(self):
        documents = [
            np.ones((1, 1024), np.float16)
        ] * 400_000  # The pickle stores this array only once, but the collection would have 800 MB.
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
            left = [path.name for path in target.iterdir() if path.name != "collection.previous.json"]
            self.assertEqual(len(left), 1 + generation)  # the manifest, and a shard of each generation

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
