"""Tests maxsim-encoder's requests with a model that the tests control: batches, limits, errors, connections.

python python_encoder_requests_test.py      needs the packages of demo/requirements.txt
"""

import contextlib
import http.client
import io
import json
import pathlib
import socket
import sys
import threading
import time
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from encoder_fixture import (  # noqa: E402
    BatchOptions,
    FakeEncoder,
    Limits,
    LocalServer,
    call,
    error_of,
    metric,
    read_safetensors,
    split_rows,
)


class BatchTest(unittest.TestCase):
    """Tests how the encoder batches texts of concurrent requests, with a model that the test can block."""

    def start(self, **options):
        self.encoder = FakeEncoder()
        server = LocalServer(self.encoder, BatchOptions(**options))
        self.addCleanup(server.stop)
        self.addCleanup(self.encoder.gate.set)
        return server

    def post_all(self, server, bodies):
        """Sends the bodies at the same time, one per thread. Returns the threads, and a list that will contain the
        answers."""
        answers = [None] * len(bodies)

        def post(i):
            answers[i] = call(server.port, "POST", "/encode", bodies[i])

        threads = [threading.Thread(target=post, args=(i,)) for i in range(len(bodies))]
        for thread in threads:
            thread.start()
        return threads, answers

    def hold(self, server, text="held"):
        """Starts a call of the model that blocks until encoder.gate.set()."""
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
        self.assertEqual(
            sorted((kind, len(texts)) for texts, kind, _ in self.encoder.calls[1:]), [("document", 6), ("query", 6)]
        )
        for i, (status, _, data) in enumerate(answers):
            self.assertEqual(status, 200)
            tokens = read_safetensors(data)[0]["tokens"]
            self.assertEqual("".join(map(chr, tokens[:, 0].astype(int))), f"text {i}")
            self.assertEqual(set(tokens[:, 2]), {float(i % 2)})
        self.assertEqual(metric(server.port, 'maxsim_encoder_batch_texts_count{kind="document"}'), 1)
        self.assertEqual(metric(server.port, 'maxsim_encoder_batch_texts_sum{kind="document"}'), 6)
        self.assertEqual(metric(server.port, 'maxsim_encoder_requests_total{route="/encode",code="200"}'), 13)

    def test_the_window_gathers_what_comes_within_it(self):
        # A full batch does not wait for the end of the window.
        server = self.start(window_s=3600.0, max_batch_texts=3)
        threads, _ = self.post_all(server, [{"texts": [text], "kind": "query"} for text in "abc"])
        for thread in threads:
            thread.join()
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
    """Tests which requests are valid, and the errors of those that are not."""

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
            ("/encode", b'{"texts": ["a"], "kind": "query", "kind": "document"}', 400, '"kind" appears twice'),
            ("/v1/embeddings", b'{"input": "a", "input": "b"}', 400, '"input" appears twice'),
            ("/pooling", b'{"input": "a", "x": {"y": 1, "y": 1}}', 400, '"y" appears twice'),
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
            ("/encode?kind=document", {"texts": ["a"], "kind": "query"}, 422, "the kind is given twice"),
            ("/pooling", {"input": ["a"], "task": "embed"}, 422, 'task must be token_embed, is "embed"'),
            ("/pooling", {"input": [[1, 2]]}, 400, "input[0] must be a string, is [1, 2]"),
            ("/pooling", {"input": ["a"], "model": "other"}, 404, 'model "other" is not served here, "fake" is'),
            ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, 422, "encoding_format must be float or"),
            ("/v1/embeddings", {"input": "a", "dimensions": 2}, 422, "dimensions must be 3"),
            ("/v1/embeddings", {"input": "a", "input_type": "image"}, 422, "input_type must be query or document"),
            ("/embed_all", {"inputs": {"a": 1}}, 400, "inputs must be a string or a list of strings"),
            ("/embed_all", {"inputs": "a", "truncate": "yes"}, 400, 'truncate must be true or false, is "yes"'),
            (
                "/embed_all",
                {"inputs": "a" * 65, "truncate": False},
                413,
                "text 0 has 65 tokens, more than the limit 64",
            ),
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

    def test_a_client_that_asks_first_is_told_to_go_on(self):
        body = b'{"inputs": "a"}'
        head = b"POST /embed_all HTTP/1.1\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(head % len(body))
            # The client sends the body only after the server asked for it, and within the 0.5 s for which the server
            # waits.
            self.assertEqual(connection.recv(1 << 16), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            self.assertIn(b"HTTP/1.1 200 OK", connection.recv(1 << 16))

    def test_a_stop_answers_a_request_whose_body_is_on_its_way(self):
        server = LocalServer(self.encoder)
        body = b'{"inputs": "a"}'
        head = b"POST /embed_all HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(head + body[:3])
            limit = time.monotonic() + 30
            while not any(known.busy for known in server.server._connections.values()):
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.005)
            stopped = []
            thread = threading.Thread(target=lambda: stopped.append(server.stop()))
            thread.start()
            while not server.server.stopping:
                time.sleep(0.005)
            time.sleep(0.2)
            connection.sendall(body[3:])
            answer = connection.recv(1 << 16)
            self.assertIn(b"HTTP/1.1 200 OK", answer)
            self.assertIn(b"Connection: close", answer)
            thread.join()
        self.assertEqual(stopped, [True])

    def kind_of(self, path, body):
        status, _, data = call(self.port, "POST", path, body)
        self.assertEqual(status, 200, data)
        answer = json.loads(data)
        item = answer[0] if isinstance(answer, list) else answer["data"][0]
        matrix = item if isinstance(item, list) else item.get("embedding") or item["data"]
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
