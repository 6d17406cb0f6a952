"""Tests maxsim-encoder's connections with ambiguous HTTP heads, and with clients that are slow on purpose.

python python_encoder_connections_test.py      needs the packages of demo/requirements.txt
"""

import contextlib
import http.client
import pathlib
import re
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from encoder_fixture import FakeEncoder, LocalServer, call  # noqa: E402

BODY = b'{"inputs": "a"}'
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENCE_S = 60


def head(*lines, method=b"POST /embed_all"):
    return b"".join(line + b"\r\n" for line in (method + b" HTTP/1.1", b"Host: x", *lines, b""))


def length(data):
    return b"Content-Length: %d" % len(data)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def read_to_the_end(connection):
    answer = b""
    try:
        while part := connection.recv(1 << 16):
            answer += part
    except ConnectionError:
        pass
    return answer


class HeadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = LocalServer(FakeEncoder(), idle_timeout_s=0.5)
        cls.addClassCleanup(cls.server.stop)

    def statuses(self, data):
        with connect(self.server.port) as connection:
            connection.sendall(data)
            answer = read_to_the_end(connection)
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)], answer

    def test_a_header_that_others_could_read_differently_is_400_and_ends_the_connection(self):
        for line in (
            b"Content-Length : 3",
            b"Content-Length\t: 3",
            b" Content-Length: 3",
            b"A: b\r\n Content-Length: 3",
            b"A: b\rContent-Length: 3",
            b"A: b\0c",
            b"Content-Length",
            b": 3",
            b"Transfer-Encoding : chunked",
            b"A: \x7f",
        ):
            with self.subTest(line=line):
                statuses, answer = self.statuses(head(line) + b"abc" + SMUGGLED)
                self.assertEqual(statuses, [400], answer)
                self.assertIn(b"Connection: close", answer)
                self.assertIn(b"a header must be a name, a colon and a value, is ", answer)

    def test_the_message_shows_the_header_printably_and_bounded(self):
        _, answer = self.statuses(head(b"A: \x1b[31m" + b"x" * 1000))
        self.assertIn(b"A: \\\\x1b[31mxxx", answer)
        self.assertLess(len(answer), 500)

    def test_a_head_that_is_too_long_is_431(self):
        for lines in ([b"A: " + b"x" * 70000], [b"A: " + b"x" * 1000] * 70, [b"A: b"] * 200):
            statuses, answer = self.statuses(head(*lines))
            self.assertEqual(statuses, [431], answer)

    def test_contradicting_lengths_are_refused(self):
        cases = (
            ([b"Content-Length: 3", b"Content-Length: 31"], 400),
            ([b"Content-Length: +3"], 400),
            ([b"Content-Length: 3, 3"], 400),
            ([b"Content-Length: 3", b"Transfer-Encoding: chunked"], 411),
        )
        for lines, wanted in cases:
            with self.subTest(lines=lines):
                self.assertEqual(self.statuses(head(*lines) + b"abc" + SMUGGLED)[0], [wanted])

    def test_headers_that_clients_send_are_read(self):
        lines = (b"A:b", b"B:", b"C: \xc3\xa4\t!", b"X-Y_z.1: ~", b"Content-Type: application/json; a=\"b\"", length(BODY))
        # The client sends three requests in one packet and gets three answers.
        statuses, answer = self.statuses((head(*lines) + BODY) * 3)
        self.assertEqual(statuses, [200] * 3, answer)


class SlowPeersTest(unittest.TestCase):
    def serve(self, **options):
        server = LocalServer(FakeEncoder(), **options)
        self.addCleanup(server.stop)
        return server

    def await_working(self, server, count):
        limit = time.monotonic() + PATIENCE_S
        while sum(known.working for known in list(server.server._connections.values())) != count:
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.005)

    def drip(self, connections):
        """Sends one byte on each connection at short intervals until the test ends, so that no single read of the
        server waits long."""
        end = threading.Event()

        def send():
            while not end.wait(0.05):
                for connection in connections:
                    try:
                        connection.send(b"a", socket.MSG_DONTWAIT)
                    except OSError:
                        pass

        thread = threading.Thread(target=send)
        thread.start()

        def stop():
            end.set()
            thread.join()
            for connection in connections:
                connection.close()

        self.addCleanup(stop)

    def test_a_head_that_drips_ends_in_its_time(self):
        server = self.serve(header_timeout_s=0.5)
        for begin in (b"G", b"POST /embed_all HTTP/1.1\r\nHost: x\r\nA: "):
            connection = connect(server.port)
            connection.sendall(begin)
            self.drip([connection])
            self.assertEqual(read_to_the_end(connection), b"")

    def test_a_second_head_that_drips_ends_in_its_time(self):
        server = self.serve(header_timeout_s=0.5)
        connection = connect(server.port)
        # The packet with the first request also has the beginning of the second request.
        connection.sendall(head(length(BODY)) + BODY + b"POST /embed_all HTTP/1.1\r\nA: ")
        self.drip([connection])
        self.assertEqual(read_to_the_end(connection).count(b"HTTP/1.1 200"), 1)

    def test_a_body_that_drips_is_408(self):
        server = self.serve(body_timeout_s=0.5)
        connection = connect(server.port)
        connection.sendall(head(b"Content-Length: 100000"))
        self.drip([connection])
        self.assertIn(b" 408 ", read_to_the_end(connection))

    def test_an_answer_that_is_not_read_ends_in_its_time(self):
        server = self.serve(idle_timeout_s=0.5)
        server.service.metrics.render = lambda: "x" * (64 << 20)
        connection = connect(server.port)
        self.addCleanup(connection.close)
        connection.sendall(head(method=b"GET /metrics"))
        connection.recv(1)
        limit = time.monotonic() + PATIENCE_S
        while server.server._connections:
            self.assertLess(time.monotonic(), limit)
            with contextlib.suppress(ConnectionError):
                connection.recv(1000)  # reads slowly, but so often that no single write of the server takes long
            time.sleep(0.01)

    def test_connections_that_drip_or_send_nothing_keep_nobody_out(self):
        server = self.serve(max_connections=8)
        connections = [connect(server.port) for _ in range(8)]
        for connection in connections[:4]:
            connection.sendall(b"POST /embed_all HTTP/1.1\r\nHost: x\r\nA: ")
        self.drip(connections[:4])
        for connection in connections[4:]:
            self.addCleanup(connection.close)
        for _ in range(20):
            self.assertEqual(call(server.port, "POST", "/embed_all", {"inputs": "a"})[0], 200)
        self.assertLessEqual(len(server.server._connections), 8)

    def test_the_one_that_has_waited_for_longest_gives_way(self):
        server = self.serve(max_connections=2)
        first, second = (http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S) for _ in range(2))
        for connection in (first, second, first):  # the first connection was active last
            self.addCleanup(connection.close)
            self.assertEqual(call(server.port, "POST", "/embed_all", {"inputs": "a"}, connection=connection)[0], 200)
            self.await_working(server, 0)  # the client has the answer before the connection counts as idle
        kept = first.sock
        self.assertEqual(call(server.port, "GET", "/health")[0], 200)
        self.assertEqual(read_to_the_end(second.sock), b"")
        self.assertEqual(call(server.port, "POST", "/embed_all", {"inputs": "a"}, connection=first)[0], 200)
        self.assertIs(first.sock, kept)

    def test_requests_that_are_being_answered_do_not_give_way(self):
        encoder = FakeEncoder()
        encoder.gate.clear()
        server = LocalServer(encoder, max_connections=2)
        self.addCleanup(server.stop)
        answers = []
        ask = lambda: answers.append(call(server.port, "POST", "/embed_all", {"inputs": "a"})[0])  # noqa: E731
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        self.await_working(server, 2)
        with self.assertRaises((ConnectionError, http.client.BadStatusLine)):
            call(server.port, "GET", "/health")
        encoder.gate.set()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [200, 200])

    def test_a_peer_does_not_drive_out_another_one(self):
        server = self.serve(max_connections=4)
        other = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S, source_address=("127.0.0.2", 0))
        self.addCleanup(other.close)
        self.assertEqual(call(server.port, "POST", "/embed_all", {"inputs": "a"}, connection=other)[0], 200)
        kept = other.sock
        for _ in range(20):
            connection = connect(server.port)
            self.addCleanup(connection.close)
        self.assertEqual(call(server.port, "GET", "/health")[0], 200)
        self.assertEqual(call(server.port, "POST", "/embed_all", {"inputs": "a"}, connection=other)[0], 200)
        self.assertIs(other.sock, kept)


if __name__ == "__main__":
    unittest.main(verbosity=2)
