"""maxsim-encoder: the demo model against the bundled vectors, every dialect, batches, limits, errors, its end.

python python_encoder_test.py      wants the packages of demo/requirements.txt
"""

import contextlib
import http.client
import io
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
    BatchOptions,
    FakeEncoder,
    Limits,
    LocalServer,
    Program,
    call,
    error_of,
    from_base64,
    metric,
    read_safetensors,
    split_rows,
)
from maxsim_encoder.cli import make_parser  # noqa: E402
from maxsim_encoder.fingerprint import checkpoint_files, fingerprint  # noqa: E402
from maxsim_encoder.loaders import minilm, pylate, sentence_transformers  # noqa: E402

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
    """The program itself with the bundled model."""

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
        # Four tokens are [CLS], two pieces and [SEP], which has no vector.
        cut = self.encode(["volcanoes are mountains that open downward"], "document", max_tokens=4)[0]["tokens"]
        short = self.encode(["volcanoes are"], "document")[0]["tokens"]
        self.assertEqual((len(whole), len(cut)), (7, 3))
        np.testing.assert_allclose(cut, short, atol=1e-6)

    def test_truncate_false_refuses_what_would_be_cut(self):
        body = {"inputs": ["short", "word " * 300], "truncate": False}
        status, code, message = error_of(self.port, "/embed_all", body)
        self.assertEqual((status, code), (413, "text_too_long"))
        self.assertIn("text 1 has 302 tokens, more than the limit 256", message)

    def test_print_info_is_what_info_answers(self):
        command = [sys.executable, "-B", "-m", "maxsim_encoder", "--demo", "--print-info"]
        output = subprocess.run(command, cwd=ROOT / "client" / "python", capture_output=True, check=True).stdout
        self.assertEqual(json.loads(output), self.info)
        self.assertRegex(self.info["fingerprint"], r"^[0-9a-f]{16}$")
        self.assertEqual(self.info["dim"], 128)

    def test_the_fingerprint_follows_the_settings(self):
        other = minilm.load_demo(None, 128, "")
        self.assertNotEqual(other.info.fingerprint, self.info["fingerprint"])

    def test_the_script_of_the_demo_agrees_with_the_bundled_arrays(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-B", DEMO / "encode.py", "--input", DEMO / "queries.jsonl", "--queries"]
            subprocess.run([*command, "--output", folder], check=True, capture_output=True)
            got = np.load(pathlib.Path(folder) / "query_tokens.npy")
            self.assertEqual(got.dtype, np.float16)
            wanted = np.concatenate(stored("query_"))
            self.assertLessEqual(np.abs(got.astype(np.float32) - wanted).max(), TOLERANCE)
            lines = (pathlib.Path(folder) / "queries.jsonl").read_text(encoding="utf-8")
            self.assertEqual(lines, (DEMO / "queries.jsonl").read_text(encoding="utf-8"))


class ProgramTest(unittest.TestCase):
    """What needs a process: flags, token, TLS, its end."""

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
            # A peer that never shakes hands keeps nobody waiting.
            silent = socket.create_connection(("127.0.0.1", program.port))
            self.addCleanup(silent.close)
            connection = http.client.HTTPSConnection("127.0.0.1", program.port, timeout=60, context=context)
            self.addCleanup(connection.close)
            while call(program.port, "GET", "/health", connection=connection)[0] == 503:
                time.sleep(0.05)
            status, _, _ = call(program.port, "POST", "/embed_all", {"inputs": "a"}, connection=connection)
            self.assertEqual(status, 200)

    def run_failing(self, *flags):
        command = [sys.executable, "-B", "-m", "maxsim_encoder", "--port", "0", *map(str, flags)]
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
        code = "import sys, maxsim_encoder.cli; print([m for m in ('numpy', 'torch', 'tokenizers') if m in sys.modules])"
        command = [sys.executable, "-B", "-c", code]
        output = subprocess.run(command, cwd=ROOT / "client" / "python", capture_output=True, text=True, check=True)
        self.assertEqual(output.stdout.strip(), "[]")


class BatchTest(unittest.TestCase):
    """How texts of concurrent requests meet, with a model that the test holds back."""

    def start(self, **options):
        self.encoder = FakeEncoder()
        server = LocalServer(self.encoder, BatchOptions(**options))
        self.addCleanup(server.stop)
        self.addCleanup(self.encoder.gate.set)
        return server

    def post_all(self, server, bodies):
        """Sends the bodies side by side; returns their threads and a list that their answers come into."""
        answers = [None] * len(bodies)

        def post(i):
            answers[i] = call(server.port, "POST", "/encode", bodies[i])

        threads = [threading.Thread(target=post, args=(i,)) for i in range(len(bodies))]
        for thread in threads:
            thread.start()
        return threads, answers

    def hold(self, server, text="held"):
        """Begins a call of the model that ends with encoder.gate.set()."""
        self.encoder.gate.clear()
        threads, _ = self.post_all(server, [{"texts": [text], "kind": "query"}])
        self.encoder.entered.acquire()
        return threads[0]

    def wait_for_queue(self, server, num_texts):
        limit = time.monotonic() + 30
        while server.service._batcher.queued_texts != num_texts:
            self.assertLess(time.monotonic(), limit, "the queue is not as it should be")
            time.sleep(0.005)

    def test_concurrent_texts_share_a_call_and_kinds_do_not(self):
        server = self.start(window_s=0.0)
        held = self.hold(server)
        bodies = [{"texts": [f"text {i}"], "kind": "query" if i % 2 else "document"} for i in range(12)]
        threads, answers = self.post_all(server, bodies)
        self.wait_for_queue(server, 12)
        self.encoder.gate.set()
        for thread in [*threads, held]:
            thread.join()
        self.assertEqual(sorted((kind, len(texts)) for texts, kind, _ in self.encoder.calls[1:]),
                         [("document", 6), ("query", 6)])
        for i, (status, _, data) in enumerate(answers):
            self.assertEqual(status, 200)
            tokens = read_safetensors(data)[0]["tokens"]
            self.assertEqual("".join(map(chr, tokens[:, 0].astype(int))), f"text {i}")
            self.assertEqual(set(tokens[:, 2]), {float(i % 2)})
        self.assertEqual(metric(server.port, 'maxsim_encoder_batch_texts_count{kind="document"}'), 1)
        self.assertEqual(metric(server.port, 'maxsim_encoder_batch_texts_sum{kind="document"}'), 6)
        self.assertEqual(metric(server.port, 'maxsim_encoder_requests_total{route="/encode",code="200"}'), 13)

    def test_the_window_gathers_what_comes_within_it(self):
        server = self.start(window_s=1.0, max_batch_texts=3)
        began = time.monotonic()
        threads, _ = self.post_all(server, [{"texts": [text], "kind": "query"} for text in "abc"])
        for thread in threads:
            thread.join()
        # A full batch does not wait for the end of the window.
        self.assertLess(time.monotonic() - began, 0.9)
        self.assertEqual([len(texts) for texts, _, _ in self.encoder.calls], [3])

    def test_a_long_request_is_split_and_lets_others_between(self):
        server = self.start(window_s=0.0, max_batch_texts=4)
        held = self.hold(server)
        long, answers = self.post_all(server, [{"texts": [f"long {i}" for i in range(10)], "kind": "document"}])
        self.wait_for_queue(server, 10)
        short, _ = self.post_all(server, [{"texts": ["short"], "kind": "document"}])
        self.wait_for_queue(server, 11)
        self.encoder.gate.set()
        for thread in [*long, *short, held]:
            thread.join()
        sizes = [len(texts) for texts, _, _ in self.encoder.calls[1:]]
        self.assertEqual((sum(sizes), max(sizes)), (11, 4))
        self.assertIn("short", self.encoder.calls[2][0])
        texts = ["".join(map(chr, rows[:, 0].astype(int))) for rows in split_rows(read_safetensors(answers[0][2])[0])]
        self.assertEqual(texts, [f"long {i}" for i in range(10)])

    def test_a_full_queue_refuses(self):
        server = self.start(window_s=0.0, max_queue_texts=5)
        held = self.hold(server)
        waiting, _ = self.post_all(server, [{"texts": ["a"] * 4, "kind": "query"}])
        self.wait_for_queue(server, 4)
        status, headers, data = call(server.port, "POST", "/encode", {"texts": ["b"] * 2, "kind": "query"})
        self.assertEqual((status, headers["Retry-After"]), (429, "1"))
        self.assertIn("4 texts wait, 2 more exceed 5", json.loads(data)["error"]["message"])
        self.encoder.gate.set()
        for thread in [*waiting, held]:
            thread.join()
        self.assertEqual(call(server.port, "POST", "/encode", {"texts": ["b"] * 2, "kind": "query"})[0], 200)

    def test_a_request_that_waits_too_long_is_given_up(self):
        server = self.start(window_s=0.0, queue_timeout_s=0.2)
        held = self.hold(server)
        status, code, _ = error_of(server.port, "/encode", {"texts": ["late"], "kind": "query"})
        self.assertEqual((status, code), (503, "overloaded"))
        self.encoder.gate.set()
        held.join()
        self.assertEqual(metric(server.port, "maxsim_encoder_abandoned_total"), 1)
        self.assertNotIn("late", [text for texts, _, _ in self.encoder.calls for text in texts])

    def test_the_text_of_a_client_that_went_away_is_not_encoded(self):
        server = self.start(window_s=0.0)
        held = self.hold(server)
        body = b'{"texts": ["gone"], "kind": "query"}'
        gone = socket.create_connection(("127.0.0.1", server.port))
        gone.sendall(b"POST /encode HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.wait_for_queue(server, 1)
        gone.close()
        self.wait_for_queue(server, 0)
        self.encoder.gate.set()
        held.join()
        self.assertEqual([texts for texts, _, _ in self.encoder.calls], [["held"]])

    def test_a_text_that_fails_does_not_fail_those_beside_it(self):
        server = self.start(window_s=0.0)
        held = self.hold(server)
        texts = ["good", "explode", "nan", "narrow", "fine"]
        threads, answers = self.post_all(server, [{"texts": [text], "kind": "query"} for text in texts])
        self.wait_for_queue(server, len(texts))
        with contextlib.redirect_stderr(io.StringIO()) as log:
            self.encoder.gate.set()
            for thread in [*threads, held]:
                thread.join()
        self.assertEqual([answer[0] for answer in answers], [200, 500, 500, 500, 200])
        self.assertIn("a secret path", log.getvalue())
        self.assertNotIn(b"a secret path", answers[1][2])
        self.assertIn(b"not finite", answers[2][2])
        self.assertIn(b"[6, 2] and not [tokens, 3]", answers[3][2])
        self.assertEqual(call(server.port, "POST", "/encode", {"texts": ["on"], "kind": "query"})[0], 200)


class RequestTest(unittest.TestCase):
    """What a request may say, and the errors of what it may not."""

    @classmethod
    def setUpClass(cls):
        cls.encoder = FakeEncoder(length=64)
        limits = Limits(max_request_texts=5, max_text_bytes=100)
        cls.server = LocalServer(cls.encoder, limits=limits, max_body_bytes=2000, body_timeout_s=0.5)
        cls.addClassCleanup(cls.server.stop)
        cls.port = cls.server.port

    def test_bad_bodies_name_what_is_wrong(self):
        cases = [
            ("/encode", b"", 400, "not JSON"),
            ("/encode", b"\xff", 400, "not UTF-8: invalid start byte at byte 0"),
            ("/encode", b"{", 400, "not JSON"),
            ("/encode", b"[" * 1500, 400, "not JSON"),
            ("/encode", [1], 400, "must be a JSON object, is [1]"),
            ("/encode", {}, 400, "texts is missing"),
            ("/encode", {"texts": "a"}, 400, 'texts must be a list of strings, is "a"'),
            ("/encode", {"texts": []}, 422, "texts must not be empty"),
            ("/encode", {"texts": ["a", 3]}, 400, "texts[1] must be a string, is 3"),
            ("/encode", {"texts": ["a", " \n"]}, 422, "texts[1] must not be empty"),
            ("/encode", b'{"texts": ["\\ud800"]}', 422, "half a surrogate pair"),
            ("/encode", {"texts": ["a"] * 6}, 413, "texts has 6 texts, more than the limit 5"),
            ("/encode", {"texts": ["ä" * 51]}, 413, "texts[0] has 102 bytes, more than the limit 100"),
            ("/encode", {"texts": ["a"], "kind": "image"}, 422, 'kind must be query or document, is "image"'),
            ("/encode", {"texts": ["a"], "kind": 1}, 400, "kind must be a string, is 1"),
            ("/encode", {"texts": ["a"], "max_tokens": 2}, 422, "max_tokens must be 3 to"),
            ("/encode", {"texts": ["a"], "max_tokens": 3.5}, 400, "max_tokens must be an integer, is 3.5"),
            ("/encode", {"texts": ["a"], "max_tokens": True}, 400, "max_tokens must be an integer, is true"),
            ("/encode", {"texts": ["a"], "colour": 1}, 400, 'unknown member "colour"'),
            ("/encode?kind=document", {"texts": ["a"], "kind": "query"}, 422, "the kind is said twice"),
            ("/pooling", {"input": ["a"], "task": "embed"}, 422, 'task must be token_embed, is "embed"'),
            ("/pooling", {"input": [[1, 2]]}, 400, "input[0] must be a string, is [1, 2]"),
            ("/pooling", {"input": ["a"], "model": "other"}, 404, 'model "other" is not served here, "fake" is'),
            ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, 422, "encoding_format must be float or"),
            ("/v1/embeddings", {"input": "a", "dimensions": 2}, 422, "dimensions must be 3"),
            ("/v1/embeddings", {"input": "a", "input_type": "image"}, 422, "input_type must be query or document"),
            ("/embed_all", {"inputs": {"a": 1}}, 400, "inputs must be a string or a list of strings"),
            ("/embed_all", {"inputs": "a", "truncate": "yes"}, 400, 'truncate must be true or false, is "yes"'),
            ("/embed_all", {"inputs": "a" * 65, "truncate": False}, 413, "text 0 has 65 tokens, more than the limit 64"),
            ("/nowhere", {}, 404, 'no route "/nowhere"'),
        ]
        for path, body, wanted, text in cases:
            with self.subTest(path=path, body=body):
                status, _, message = error_of(self.port, path, body)
                self.assertEqual(status, wanted, message)
                self.assertIn(text, message)

    def test_methods_and_bodies_without_a_length(self):
        status, headers, _ = call(self.port, "GET", "/encode")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(call(self.port, "POST", "/info", {})[1]["Allow"], "GET")
        status, code, _ = error_of(self.port, "/encode", None, {"Transfer-Encoding": "chunked"})
        self.assertEqual((status, code), (411, "length_required"))
        status, _, message = error_of(self.port, "/encode", b"a" * 2001)
        self.assertEqual(status, 413)
        self.assertIn("2001 bytes, more than the limit 2000", message)

    def raw(self, data):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(data)
            answer = b""
            while part := connection.recv(1 << 16):
                answer += part
            return answer

    def test_what_is_no_http_is_answered_and_ends_the_connection(self):
        self.assertIn(b'"code": "invalid_http"', self.raw(b"nonsense of a peer\r\n\r\n"))
        self.assertIn(b" 400 ", self.raw(b"POST /encode HTTP/1.1\r\nContent-Length: -1\r\n\r\n"))
        self.assertIn(b" 414 ", self.raw(b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n"))

    def test_a_body_that_does_not_come_is_given_up(self):
        answer = self.raw(b"POST /encode HTTP/1.1\r\nContent-Length: 10\r\n\r\n{")
        self.assertIn(b" 408 ", answer)
        self.assertIn(b"1 of 10 bytes of the body came in 0.5 s", answer)

    def test_a_connection_carries_many_requests_and_survives_errors(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self.addCleanup(connection.close)
        connection.connect()
        first = connection.sock
        for body, wanted in (({"inputs": "a"}, 200), ({}, 400), ({"inputs": "b"}, 200)):
            self.assertEqual(call(self.port, "POST", "/embed_all", body, connection=connection)[0], wanted)
        self.assertEqual(call(self.port, "POST", "/nowhere", {"a": 1}, connection=connection)[0], 404)
        self.assertEqual(call(self.port, "GET", "/health", connection=connection)[0], 200)
        self.assertIs(connection.sock, first)

    def kind_of(self, path, body):
        status, _, data = call(self.port, "POST", path, body)
        self.assertEqual(status, 200, data)
        answer = json.loads(data)
        matrix = answer[0] if isinstance(answer, list) else answer["data"][0].get("embedding", answer["data"][0].get("data"))
        return "query" if matrix[0][2] else "document"

    def test_the_kind_is_document_unless_something_says_query(self):
        self.assertEqual(self.kind_of("/embed_all", {"inputs": "a"}), "document")
        self.assertEqual(self.kind_of("/embed_all", {"inputs": "a", "prompt_name": "query"}), "query")
        self.assertEqual(self.kind_of("/embed_all?kind=query", {"inputs": "a"}), "query")
        self.assertEqual(self.kind_of("/pooling", {"input": "a"}), "document")
        self.assertEqual(self.kind_of("/pooling?kind=query", {"input": "a"}), "query")
        self.assertEqual(self.kind_of("/v1/embeddings", {"input": "a", "input_type": "search_query"}), "query")
        self.assertEqual(self.kind_of("/v1/embeddings", {"input": "a", "input_type": "search_document"}), "document")
        self.assertEqual(self.kind_of("/v1/embeddings", {"input": "a", "is_query": True}), "query")

    def test_members_that_clients_send_are_accepted(self):
        body = {"input": "a", "user": "me", "encoding_format": "float", "model": "fake", "truncate_prompt_tokens": -1}
        self.assertEqual(call(self.port, "POST", "/v1/embeddings", body)[0], 200)

    def test_the_binary_answer_may_be_float16(self):
        server = LocalServer(self.encoder, limits=Limits(dtype="float16"))
        self.addCleanup(server.stop)
        data = call(server.port, "POST", "/encode", {"texts": ["ab", "c"], "kind": "query"})[2]
        tensors, metadata = read_safetensors(data)
        self.assertEqual(tensors["tokens"].dtype, np.float16)
        self.assertEqual(tensors["tokens"].tolist(), [[97, 2, 1], [98, 2, 1], [99, 1, 1]])
        self.assertEqual(metadata, {"model": "fake", "fingerprint": "0123456789abcdef"})
        from safetensors.numpy import load

        np.testing.assert_array_equal(load(data)["lengths"], [2, 1])

    def test_while_the_model_loads_all_but_metrics_is_503(self):
        server = LocalServer(None)
        self.addCleanup(server.server.stop, 10)
        for method, path in (("GET", "/health"), ("GET", "/info"), ("POST", "/embed_all")):
            status, _, data = call(server.port, method, path, {"inputs": "a"} if method == "POST" else None)
            self.assertEqual((status, json.loads(data)["error"]["code"]), (503, "loading"))
        self.assertEqual(metric(server.port, "maxsim_encoder_loaded"), 0)

    def test_connections_beyond_the_limit_are_closed(self):
        server = LocalServer(self.encoder, max_connections=2)
        self.addCleanup(server.stop)
        kept = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=30) for _ in range(2)]
        for connection in kept:
            self.addCleanup(connection.close)
            self.assertEqual(call(server.port, "GET", "/health", connection=connection)[0], 200)
        with self.assertRaises((ConnectionError, http.client.BadStatusLine)):
            call(server.port, "GET", "/health")
        kept[0].close()
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            try:
                self.assertEqual(call(server.port, "GET", "/health")[0], 200)
                return
            except (ConnectionError, http.client.BadStatusLine):
                time.sleep(0.01)
        self.fail("a connection that ended still counts")


class LoaderTest(unittest.TestCase):
    """The loaders of PyTorch models, with the libraries' answers made up."""

    class Library:
        """Records how it is called, and answers as both libraries do."""

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
    unittest.main()
