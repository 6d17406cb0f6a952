"""Tests maxsim-encoder: compares the demo model with the bundled vectors, and tests every dialect, the program's
flags, how it stops, and the loaders.

python python_encoder_test.py      needs the packages of demo/requirements.txt
"""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from encoder_fixture import (  # noqa: E402
    ROOT,
    FakeEncoder,
    Program,
    call,
    error_of,
    from_base64,
    metric,
    read_safetensors,
    split_rows,
)
from maxsim_encoder.cli import make_parser  # noqa: E402
from maxsim_encoder.encoder import EncoderError  # noqa: E402
from maxsim_encoder.fingerprint import checkpoint_files, fingerprint  # noqa: E402
from maxsim_encoder.loaders import minilm, pylate, sentence_transformers, torch_models  # noqa: E402

DEMO = ROOT / "demo"
TOLERANCE = 1e-3


def demo_records(name):
    return [json.loads(line) for line in (DEMO / name).read_text(encoding="utf-8").splitlines()]


def text_of(record):
    title = record.get("title", "").strip()
    return f"{title}. {record['text']}" if title else record["text"]


def stored(prefix):
    lengths = np.load(DEMO / f"{prefix}lengths.npy")
    return np.split(np.load(DEMO / f"{prefix}tokens.npy").astype(np.float32), np.cumsum(lengths)[:-1])


class DemoTest(unittest.TestCase):
    """Tests the program with the bundled model."""

    @classmethod
    def setUpClass(cls):
        cls.program = Program("--demo")
        cls.addClassCleanup(cls.program.stop)
        cls.program.wait_until_ready()
        cls.port = cls.program.port
        cls.questions = [text_of(record) for record in demo_records("queries.jsonl")]
        cls.info = json.loads(call(cls.port, "GET", "/info")[2])

    def encode(self, texts, kind, **more):
        status, headers, data = call(self.port, "POST", "/encode", {"texts": texts, "kind": kind, **more})
        self.assertEqual(status, 200, data)
        self.assertEqual(headers["Content-Type"], "application/octet-stream")
        return read_safetensors(data)

    def test_vectors_are_the_bundled_ones(self):
        for name, prefix, kind in (("passages.jsonl", "", "document"), ("queries.jsonl", "query_", "query")):
            records = demo_records(name)
            tensors, metadata = self.encode([text_of(record) for record in records], kind, pieces=True)
            self.assertEqual(tensors["tokens"].dtype, np.float32)
            self.assertEqual(json.loads(metadata["pieces"]), [record["tokens"] for record in records])
            for got, wanted in zip(split_rows(tensors), stored(prefix)):
                self.assertEqual(got.shape, wanted.shape)
                self.assertLessEqual(np.abs(got - wanted).max(), TOLERANCE)

    def test_every_dialect_answers_the_same_vectors(self):
        texts = self.questions[:4]
        wanted = split_rows(self.encode(texts, "query")[0])
        requests = {
            "pooling": ("/pooling", {"model": self.info["model"], "task": "token_embed", "input": texts}),
            "float": ("/v1/embeddings", {"input": texts, "input_type": "query", "encoding_format": "float"}),
            "base64": ("/v1/embeddings", {"input": texts, "is_query": True, "encoding_format": "base64"}),
            "tei": ("/embed_all", {"inputs": texts, "prompt_name": "query", "truncate": True}),
        }
        for name, (path, body) in requests.items():
            status, _, data = call(self.port, "POST", path + "?kind=query", body)
            self.assertEqual(status, 200, data)
            answer = json.loads(data)
            if name == "tei":
                got = answer
            else:
                self.assertEqual([item["index"] for item in answer["data"]], list(range(len(texts))))
                self.assertEqual(answer["model"], self.info["model"])
                self.assertEqual(answer["usage"]["total_tokens"], sum(map(len, wanted)))
                got = [item["data" if name == "pooling" else "embedding"] for item in answer["data"]]
            if name == "base64":
                got = [from_base64(item, self.info["dim"]) for item in got]
            for one, other in zip(got, wanted):
                np.testing.assert_allclose(np.float32(one), other, atol=1e-6, err_msg=name)

    def test_a_text_does_not_depend_on_those_beside_it(self):
        together = split_rows(self.encode(self.questions, "query")[0])
        for text, wanted in zip(self.questions, together):
            np.testing.assert_allclose(self.encode([text], "query")[0]["tokens"], wanted, atol=1e-6)

    def test_max_tokens_cuts_and_keeps_the_separator(self):
        whole = self.encode(["volcanoes are mountains that open downward"], "document")[0]["tokens"]
        # The four tokens are [CLS], two word pieces and [SEP]. [SEP] has no vector.
        cut = self.encode(["volcanoes are mountains that open downward"], "document", max_tokens=4)[0]["tokens"]
        short = self.encode(["volcanoes are"], "document")[0]["tokens"]
        self.assertEqual((len(whole), len(cut)), (7, 3))
        np.testing.assert_allclose(cut, short, atol=1e-6)

    def test_texts_that_were_cut_are_named(self):
        longest = "word " * 254  # 256 tokens with [CLS] and [SEP]
        _, metadata = self.encode([longest + "word", "short", longest, "word " * 300], "document")
        self.assertEqual(json.loads(metadata["truncated"]), [0, 3])
        self.assertNotIn("truncated", self.encode(["short", longest], "query")[1])
        texts = ["one two three", "one two"]
        self.assertEqual(json.loads(self.encode(texts, "query", max_tokens=4)[1]["truncated"]), [0])

    def test_truncate_false_refuses_what_would_be_cut(self):
        body = {"inputs": ["short", "word " * 300], "truncate": False}
        status, code, message = error_of(self.port, "/embed_all", body)
        self.assertEqual((status, code), (413, "text_too_long"))
        self.assertIn("text 1 has 302 tokens, more than the limit 256", message)

    def test_print_info_is_what_info_answers(self):
        command = [sys.executable, "-m", "maxsim_encoder", "--demo", "--print-info"]
        output = subprocess.run(command, cwd=ROOT / "client" / "python", capture_output=True, check=True).stdout
        self.assertEqual(json.loads(output), self.info)
        self.assertRegex(self.info["fingerprint"], r"^[0-9a-f]{16}$")
        self.assertEqual(self.info["dim"], 128)

    def test_the_fingerprint_follows_the_settings(self):
        other = minilm.load_demo(None, 128, "")
        self.assertNotEqual(other.info.fingerprint, self.info["fingerprint"])

    def test_the_script_of_the_demo_agrees_with_the_bundled_arrays(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, DEMO / "encode.py", "--input", DEMO / "queries.jsonl", "--queries"]
            subprocess.run([*command, "--output", folder], check=True, capture_output=True)
            got = np.load(pathlib.Path(folder) / "query_tokens.npy")
            self.assertEqual(got.dtype, np.float16)
            wanted = np.concatenate(stored("query_"))
            self.assertLessEqual(np.abs(got.astype(np.float32) - wanted).max(), TOLERANCE)
            lines = (pathlib.Path(folder) / "queries.jsonl").read_text(encoding="utf-8")
            self.assertEqual(lines, (DEMO / "queries.jsonl").read_text(encoding="utf-8"))


class ProgramTest(unittest.TestCase):
    """Tests that need a separate process: flags, token, TLS, how the program stops."""

    def test_sigterm_answers_what_was_accepted(self):
        program = Program("--demo", "--window-ms", "700")
        self.addCleanup(program.stop)
        program.wait_until_ready()
        answers = []
        idle = socket.create_connection(("127.0.0.1", program.port))
        self.addCleanup(idle.close)
        body = {"texts": ["a volcano"], "kind": "query"}
        thread = threading.Thread(target=lambda: answers.append(call(program.port, "POST", "/encode", body)))
        thread.start()
        while metric(program.port, "maxsim_encoder_queued_texts") != 1:
            time.sleep(0.01)
        self.assertEqual(program.stop(), 0)
        thread.join()
        status, headers, data = answers[0]
        self.assertEqual((status, headers["Connection"]), (200, "close"))
        self.assertEqual(list(read_safetensors(data)[0]["lengths"]), [3])
        with self.assertRaises(ConnectionError):
            call(program.port, "GET", "/health")

    def test_a_token_is_wanted_by_all_but_health(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "token"
            path.write_text("secret word\n")
            program = Program("--demo", "--token-file", path)
            self.addCleanup(program.stop)
            program.wait_until_ready()
            body = {"inputs": "a"}
            for header in (None, "Bearer wrong", "Basic secret word", "Bearer "):
                headers = {"Authorization": header} if header else {}
                self.assertEqual(error_of(program.port, "/embed_all", body, headers)[:2], (401, "unauthorized"))
            self.assertEqual(call(program.port, "GET", "/metrics")[0], 401)
            good = {"Authorization": "Bearer secret word"}
            self.assertEqual(call(program.port, "POST", "/embed_all", body, good)[0], 200)

    def test_the_port_speaks_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = pathlib.Path(folder) / "key.pem", pathlib.Path(folder) / "certificate.pem"
            command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=encoder"]
            command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
            subprocess.run(command, check=True, capture_output=True)
            program = Program("--demo", "--tls-certificate", certificate, "--tls-key", key)
            self.addCleanup(program.stop)
            context = ssl.create_default_context(cafile=certificate)
            # A peer that never begins its TLS handshake must not keep other clients waiting.
            silent = socket.create_connection(("127.0.0.1", program.port))
            self.addCleanup(silent.close)
            connection = http.client.HTTPSConnection("127.0.0.1", program.port, timeout=60, context=context)
            self.addCleanup(connection.close)
            while call(program.port, "GET", "/health", connection=connection)[0] == 503:
                time.sleep(0.05)
            status, _, _ = call(program.port, "POST", "/embed_all", {"inputs": "a"}, connection=connection)
            self.assertEqual(status, 200)

    def run_failing(self, *flags):
        command = [sys.executable, "-m", "maxsim_encoder", "--port", "0", *map(str, flags)]
        result = subprocess.run(command, cwd=ROOT / "client" / "python", capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        return result.stderr

    def test_what_the_caller_can_mend_is_one_line(self):
        self.assertIn("no such file", self.run_failing("--demo", "--projection", "/none.npy").lower())
        self.assertIn("/none: No such file", self.run_failing("--demo", "--token-file", "/none"))
        self.assertIn("go together", self.run_failing("--demo", "--tls-key", "/none"))
        self.assertIn("takes 3 to 512", self.run_failing("--demo", "--max-tokens", "513"))
        self.assertIn("must be at most 65535", self.run_failing("--demo", "--port", "70000"))
        self.assertIn("must be at least 1, is 0", self.run_failing("--demo", "--max-batch-texts", "0"))
        self.assertIn("sentence-transformers>=6.0", self.run_failing("--model", "none"))
        self.assertIn("pip install 'pylate'", self.run_failing("--model", "none", "--loader", "pylate"))

    def test_the_page_has_every_flag(self):
        page = (ROOT / "docs" / "use" / "encoder.md").read_text(encoding="utf-8")
        described = set(re.findall(r"^\| `(--[a-z-]+)", page, re.MULTILINE))
        flags = {flag for action in make_parser()._actions for flag in action.option_strings if flag.startswith("--")}
        self.assertEqual(described, flags - {"--help", "--version"})

    def test_importing_the_program_imports_nothing_heavy(self):
        code = (
            "import sys, maxsim_encoder.cli; print([m for m in ('numpy', 'torch', 'tokenizers') if m in sys.modules])"
        )
        command = [sys.executable, "-c", code]
        output = subprocess.run(command, cwd=ROOT / "client" / "python", capture_output=True, text=True, check=True)
        self.assertEqual(output.stdout.strip(), "[]")


class LoaderTest(unittest.TestCase):
    """Tests the loaders of PyTorch models with a fake of the libraries."""

    class Library:
        """A fake of both libraries. It records the arguments of its calls, and returns results in the libraries'
        form."""

        tokenizer = staticmethod(lambda texts, truncation, padding: {"input_ids": [text.split() for text in texts]})
        query_length = document_length = 10

        def __init__(self):
            self.calls = []

        def _answer(self, name, texts, options):
            self.calls.append((name, options, self.query_length, self.document_length))
            return [np.ones((2, 3), np.float16) for _ in texts]

        def encode(self, texts, **options):
            return self._answer("encode", texts, options)

        def encode_query(self, texts, **options):
            return self._answer("encode_query", texts, options)

        def encode_document(self, texts, **options):
            return self._answer("encode_document", texts, options)

    def test_sentence_transformers_is_told_the_kind_and_the_length(self):
        library = self.Library()
        encoder = sentence_transformers.MultiVector(library, FakeEncoder(length=10).info, batch_size=7)
        self.assertEqual(encoder.encode(["a b"], "query", None)[0].vectors.dtype, np.float32)
        encoder.encode(["a b"], "document", 5)
        (query, options, _, _), (document, cut, _, _) = library.calls
        self.assertEqual((query, document), ("encode_query", "encode_document"))
        self.assertNotIn("processing_kwargs", options)
        self.assertEqual(cut["processing_kwargs"]["text"]["max_length"], 5)
        self.assertEqual((cut["batch_size"], cut["convert_to_numpy"]), (7, True))
        self.assertEqual(encoder.count_tokens(["a b"], "query"), [3])

    def test_pylate_is_told_the_kind_and_gets_its_length_back(self):
        library = self.Library()
        encoder = pylate.PyLate(library, FakeEncoder(length=10).info, batch_size=7)
        encoder.encode(["a"], "query", None)
        encoder.encode(["a"], "document", 5)
        self.assertEqual([options["is_query"] for _, options, _, _ in library.calls], [True, False])
        self.assertEqual([call[2:] for call in library.calls], [(10, 10), (10, 5)])
        self.assertEqual(library.document_length, 10)

    def test_a_checkpoint_without_a_projection_is_refused(self):
        cases = [
            ("config.json", {"architectures": ["BertModel"]}, False),
            ("config.json", {"architectures": ["HF_ColBERT"]}, True),
            ("config.json", {"architectures": ["ColPaliForRetrieval"]}, True),
            ("config_sentence_transformers.json", {"model_type": "SentenceTransformer"}, False),
            ("config_sentence_transformers.json", {"model_type": "MultiVectorEncoder"}, True),
            ("config_sentence_transformers.json", {"query_length": 32, "document_length": 180}, True),
        ]
        for name, content, good in cases:
            with self.subTest(content=content), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / name
                path.write_text(json.dumps(content))
                with contextlib.nullcontext() if good else self.assertRaisesRegex(EncoderError, "would be random"):
                    torch_models.check_trained(folder, {name: path})

    def test_the_fingerprint_is_of_contents_and_settings(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            for folder in (one, other):
                for name in ("model.safetensors", "pytorch_model.bin", "config.json", "1_Dense/config.json"):
                    path = pathlib.Path(folder) / name
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(name)
                (pathlib.Path(folder) / "README.md").write_text(folder)
            files = dict(checkpoint_files(pathlib.Path(one)))
            self.assertEqual(sorted(files), ["1_Dense/config.json", "config.json", "model.safetensors"])
            first = fingerprint(files.items(), {"a": 1, "b": 2})
            again = fingerprint(checkpoint_files(pathlib.Path(other)), {"b": 2, "a": 1})
            self.assertEqual(first, again)
            self.assertNotEqual(first, fingerprint(files.items(), {"a": 1, "b": 3}))
            (pathlib.Path(other) / "model.safetensors").write_text("model.safetensorz")
            self.assertNotEqual(first, fingerprint(checkpoint_files(pathlib.Path(other)), {"a": 1, "b": 2}))


if __name__ == "__main__":
    unittest.main(verbosity=2)
