"""Makes random documents for tests that write them with other libraries, and checks imports of the files."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "service"), str(TESTS.parent / "client" / "python")]
from maxsim.collection import CollectionError  # noqa: E402
from maxsim.command_line import main  # noqa: E402
from maxsim.importers import ImportOptions, SourceError, import_collection, open_source  # noqa: E402

DIM = 16
# The folder of maxsim-shard and maxsimd, from the command line, or None if it is missing there.
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None


def random_documents(count, dtype=np.float32, seed=1, dim=DIM):
    """Returns documents of 1 to 40 token vectors, whose values float16 holds exactly."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 41, count)
    return [rng.standard_normal((int(n), dim)).astype(np.float16).astype(dtype) for n in lengths]


def string_ids(count):
    return [f"doc/{number:03} é" for number in range(count)]


def decode_rows(rows, centroids, weights):
    """Decodes rows of residual codes to float64 vectors. Rounds each sum of a centroid and a residual to FP16, as the
    kernels do."""
    nbits = len(weights).bit_length() - 1
    bits = np.unpackbits(rows[:, :-4], axis=1).reshape(len(rows), centroids.shape[1], nbits).astype(np.int64)
    sums = weights.astype(np.float16)[(bits << np.arange(nbits)).sum(axis=2)]
    sums = (sums + centroids[np.ascontiguousarray(rows[:, -4:]).view("<u4").reshape(-1)]).astype(np.float64)
    return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)


def read_collection(folder):
    """Returns (id, vectors, payload) of each document of a collection, which its files have in f16, f32 or residual
    codes."""
    manifest = json.loads((folder / "collection.json").read_text())
    documents = []
    for shard in manifest["shards"]:
        data = (folder / shard["file"]).read_bytes()
        header_bytes = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + header_bytes])
        types = {"F16": "<f2", "F32": "<f4", "I64": "<i8", "U8": "u1"}

        def tensor(name, data=data, header=header, base=8 + header_bytes):
            entry = header[name]
            begin, end = entry["data_offsets"]
            return np.frombuffer(data[base + begin : base + end], types[entry["dtype"]]).reshape(entry["shape"])

        def texts(name, tensor=tensor):
            offsets, content = tensor(f"{name}_offsets"), tensor(f"{name}_bytes").tobytes()
            return [content[begin:end].decode() for begin, end in zip(offsets, offsets[1:])]

        ids = tensor("ids").tolist() if "ids" in header else texts("id")
        payloads = [None] * len(ids)
        if "payload_bytes" in header:
            payloads = [json.loads(text) if text else None for text in texts("payload")]
        offsets, tokens = tensor("offsets"), tensor("tokens")
        if "centroids" in header:
            tokens = decode_rows(tokens, tensor("centroids"), tensor("bucket_weights"))
        vectors = [tokens[begin:end] for begin, end in zip(offsets, offsets[1:])]
        documents += zip(ids, vectors, payloads)
    return documents


def anonymous_bytes():
    """Returns the bytes of this process's memory that are not mapped from a file."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:")) * 1024


class ImportTest(unittest.TestCase):
    """The base class of tests. Gives each test its own folder, self.folder."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def assert_documents(self, found, ids, vectors, payloads=None):
        """Compares `found` with the expected documents, in the order of ids. `found` has SourceDocuments, or documents
        from read_collection."""
        found = list(found)
        self.assertEqual([document[0] for document in found], list(ids))
        for document, wanted in zip(found, vectors):
            self.assertEqual(np.shape(document[1]), np.shape(wanted), document[0])
            self.assertTrue(np.array_equal(document[1], wanted), f"{document[0]}: other vectors")
        wanted_payloads = [None] * len(found) if payloads is None else list(payloads)
        self.assertEqual([document[2] or None for document in found], wanted_payloads)

    def assert_source(self, kind, path, wanted_ids, vectors, payloads=None, columns=DIM, num_documents=-1, **options):
        """Opens a source and reads it twice. The source must say how many documents it has or, if `num_documents` is
        None, that it does not know."""
        source = open_source(kind, str(path), ImportOptions(**options))
        self.assertEqual(source.kind, kind)
        self.assertEqual(source.dim, columns)
        self.assertEqual(source.num_documents, len(wanted_ids) if num_documents == -1 else num_documents)
        for _ in range(2):
            documents = list(source)
            self.assertTrue(all(document.vectors.dtype in (np.float16, np.float32) for document in documents))
            self.assert_documents(documents, wanted_ids, vectors, payloads)
        return source

    def assert_refused(self, kind, path, message, **options):
        """Expects the import to fail with a SourceError or CollectionError. The error's text must be one line that
        matches `message`."""
        with self.assertRaisesRegex((SourceError, CollectionError), message) as caught:
            import_collection(kind, str(path), None, options=ImportOptions(**options), dry_run=True)
        self.assertNotIn("\n", str(caught.exception))

    def assert_streams(self, kind, path, num_bytes, limit, **options):
        """Checks that reading `num_bytes` of vectors takes at most `limit` bytes of memory."""
        source = open_source(kind, str(path), ImportOptions(**options))
        before = anonymous_bytes()
        most = total = 0
        for number, document in enumerate(source):
            total += document.vectors.nbytes
            if number % 100 == 0:
                most = max(most, anonymous_bytes() - before)
        self.assertEqual(total, num_bytes)
        self.assertLess(most, limit)

    def assert_imports(self, kind, path, wanted_ids, vectors, payloads=None, **options):
        """Imports the source into a collection, which must have the documents and pass `maxsim-shard verify`."""
        target = self.folder / "collection"
        import_collection(kind, str(path), target, options=ImportOptions(**options), storage="f16")
        self.assert_documents(
            read_collection(target), wanted_ids, [np.asarray(v, np.float16) for v in vectors], payloads
        )
        if PROGRAMS is not None:
            subprocess.run([PROGRAMS / "maxsim-shard", "verify", target], check=True, capture_output=True)
        return target

    def run_command(self, *arguments):
        """Runs the command `maxsim` in this process. Returns exit code, standard output and standard error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
        return code, out.getvalue(), err.getvalue()
