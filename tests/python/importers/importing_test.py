"""Tests what all kinds of imports have in common: checks, payloads, reports. python importing_test.py PROGRAMS"""

import datetime
import decimal
import importlib
import json
import pathlib
import re
import subprocess
import sys
import types
import unittest
import unittest.mock
import uuid

import numpy as np
from stores_fixture import ImportTest, random_documents, read_collection, string_ids

import maxsim.importers
from maxsim.collection import CollectionError
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
    """A source with documents that a test gives it. It claims to be of the kind "npz", which needs no library."""

    kind = "npz"
    notes = ("made by a test",)

    def __init__(self, documents, dim=16):
        self.documents, self.dim, self.num_documents = documents, dim, len(documents)

    def __iter__(self):
        return iter(self.documents)


class ImportingTest(ImportTest):
    def import_documents(self, documents, dim=16, dry_run=False, **options):
        source = ListSource([SourceDocument(*document) for document in documents], dim)
        module = types.SimpleNamespace(open_source=lambda path, options: source)
        with unittest.mock.patch.object(importlib, "import_module", lambda name: module):
            output = None if dry_run else self.folder / "collection"
            return import_collection("npz", "somewhere", output, dry_run=dry_run, **options)

    def assert_documents_refused(self, documents, message, **options):
        """Checks that the dry run and the import refuse the documents with the same message, and that the import leaves
        no files."""
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
        self.assert_documents_refused([("a", one), (1, one)], "1: id 1 is int64, but those before it are string")
        self.assert_documents_refused([(True, one)], "document 0: its id is True; must be a string or an integer")
        self.assert_documents_refused([(None, one)], "document 0: its id is None")
        self.assert_documents_refused([(1.5, one)], "document 0: its id is 1.5")
        self.assert_documents_refused([(2**63, one)], "id 9223372036854775808 must fit in 64 bits")
        self.assert_documents_refused(
            [("a", one), ("b", one), ("a", one)], 'document 2: id "a" is already the id of document 0'
        )
        self.assert_documents_refused([("", one)], '^document 0: id "": empty; must have 1 to 512 bytes$')
        self.assert_documents_refused([("x" * 513, one)], '^document 0: id "x+...": 513 bytes, the limit is 512$')
        self.assert_documents_refused([("a", one[:, :8])], r"shape \[1, 8\]; must be \[tokens, 16\]")
        self.assert_documents_refused([("a", one[0])], r"shape \[16\]; must be")
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
        self.assert_documents_refused([("a", one[:, :7])], "7 columns; must have 8 to 4096", dim=7)
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
                    # The Python package's extra must list the same packages.
                    extra = re.search(rf"^import-{kind.extra} = (\[.*\])$", project, re.MULTILINE)
                    self.assertEqual(json.loads(extra[1]), list(kind.requirements))
        with self.assertRaisesRegex(SourceError, "kind 'plait': must be one of plaid, colbert"):
            import_collection("plait", "x", dry_run=True)

    def test_importing_the_package_imports_no_library(self):
        code = "import sys; sys.path.insert(0, sys.argv[1]); import maxsim.command_line, maxsim.importers.indexes.plaid\n"
        code += "import maxsim.importers.indexes.pt; print(*sys.modules)"
        run = subprocess.run([sys.executable, "-c", code, str(PACKAGE)], check=True, capture_output=True, text=True)
        self.assertEqual(set(run.stdout.split()) & {"grpc", "torch", "pyarrow", "h5py", "pandas"}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
