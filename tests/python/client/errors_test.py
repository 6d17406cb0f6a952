"""Tests the exceptions for failed calls of both clients, and their retries. Servers in this process return the errors.

python errors_test.py
"""

import pickle
import re
import threading
import time
import unittest

import grpc
import numpy as np

from client_fixture import run_async, serve, use_package
from wire_details import bad_request, error_info, field, retry_info, status

use_package()
from maxsim import AsyncClient, Client, MaxsimError, Request, Retry, errors  # noqa: E402
from maxsim.advice import add_advice  # noqa: E402
from maxsim.retries import Attempts  # noqa: E402
from maxsim.status_details import StatusDetails, read_metadata  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402

QUERY = np.ones((1, 8), np.float32)
BUSY, GONE = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE


BAD_REQUEST = bad_request("queries[0].text", "is too long")


class DetailsTest(unittest.TestCase):
    def read(self, *details):
        return read_metadata([("other", "x"), ("grpc-status-details-bin", status(*details))])

    def test_what_is_known_is_found_among_others(self):
        limit = error_info(
            "LIMIT_EXCEEDED", limit="64", limit_key="limits.max_top_k", num_deleted="7", value="65", more="x"
        )
        found = self.read(("DebugInfo", field(1, b"x")), retry_info(2, 500_000_000), BAD_REQUEST, limit)
        self.assertEqual(
            found,
            StatusDetails(
                retry_after=2.5,
                field="queries[0].text",
                problem="is too long",
                reason="LIMIT_EXCEEDED",
                limit=64,
                limit_key="limits.max_top_k",
                num_deleted=7,
            ),
        )
        self.assertEqual(read_metadata([("grpc-retry-pushback-ms", "70")]), StatusDetails(pushback_ms="70"))
        self.assertEqual(read_metadata(None), StatusDetails())

    def test_what_is_malformed_counts_as_none(self):
        for info in (
            retry_info(2**64 - 1),
            retry_info(1, 10**9),
            retry_info(10**9),
            ("RetryInfo", b""),
            ("RetryInfo", field(1, 5)),
            ("RetryInfo", b"\xff"),
            ("BadRequest", field(1, field(2, b"no field"))),
            ("BadRequest", field(1, 5)),
            ("ErrorInfo", b"\xff"),
            error_info("LIMIT_EXCEEDED", domain="googleapis.com", limit="3"),
        ):
            self.assertEqual(self.read(info), StatusDetails(), info)
        for limit in ("", "-1", "1e3", "many", "9" * 5000):
            self.assertEqual(self.read(error_info("R", limit=limit)), StatusDetails(reason="R"), limit)
        whole = status(retry_info(2), BAD_REQUEST, error_info("R", limit="3"))
        for end in range(len(whole)):
            read_metadata([("grpc-status-details-bin", whole[:end])])  # raises nothing


class AttemptsTest(unittest.TestCase):
    def delays(self, retry, *failures, deadline=1000.0):
        attempts = Attempts(retry, deadline)
        return [attempts.next_delay(failure, 0.0) for failure in failures]

    def test_unavailable_waits_longer_each_time_and_ends(self):
        gone = errors.Unavailable("x")
        retry = Retry(max_attempts=5, initial_backoff=1, max_backoff=3, jitter=0)
        self.assertEqual(self.delays(retry, *[gone] * 5), [1, 2, 3, 3, None])
        spread = self.delays(Retry(max_attempts=99, jitter=0.2), *[gone] * 98)
        self.assertTrue(all(0.8 * 2 <= delay <= 1.2 * 2 for delay in spread[10:]))
        self.assertGreater(len({*spread}), 90)

    def test_the_default_goes_on_for_three_seconds(self):
        for _ in range(20):
            *delays, last = self.delays(Retry(), *[errors.Unavailable("x")] * 7)
            self.assertIsNone(last)
            self.assertTrue(2.5 < sum(delays) < 3.8, delays)

    def test_a_busy_server_is_asked_again_on_request_and_when_it_says_so(self):
        busy = errors.ResourceExhausted("x", retry_after=7)
        self.assertEqual(self.delays(Retry(), busy), [None])
        self.assertEqual(self.delays(Retry(resource_exhausted=True, jitter=0), busy), [7])
        too_large = errors.ResourceExhausted("x")
        self.assertEqual(self.delays(Retry(resource_exhausted=True), too_large), [None])

    def test_the_servers_delay_is_a_minimum_and_pushback_replaces_it(self):
        retry = Retry(initial_backoff=3, max_backoff=9, jitter=0)
        self.assertEqual(self.delays(retry, errors.Unavailable("x", retry_after=2)), [3])
        for text, delay in (("70", 0.07), ("0", 0), ("-1", None), ("soon", None), ("", None)):
            pushed = errors.Unavailable("x", retry_after=2, pushback_ms=text)
            self.assertEqual(self.delays(retry, pushed), [delay], text)

    def test_nothing_is_tried_that_could_not_begin_in_time(self):
        gone = errors.Unavailable("x", retry_after=5)
        self.assertEqual(self.delays(Retry(), gone, deadline=5.0), [None])
        self.assertEqual(self.delays(Retry(), gone, deadline=5.1), [5])

    def test_other_errors_stand(self):
        for kind in (
            errors.InvalidArgument,
            errors.Internal,
            errors.DeadlineExceeded,
            errors.DataLoss,
            errors.NotFound,
        ):
            self.assertEqual(self.delays(Retry(resource_exhausted=True), kind("x", retry_after=1)), [None])

    def test_options_that_cannot_be_are_named(self):
        for arguments in (
            {"max_attempts": 0},
            {"initial_backoff": 0},
            {"initial_backoff": 3},
            {"multiplier": 0.5},
            {"multiplier": float("nan")},
            {"jitter": 1.5},
            {"max_attempts": "3"},
            {"max_attempts": 2.0},
            {"initial_backoff": "x"},
            {"max_backoff": None},
            {"multiplier": "2"},
            {"jitter": None},
            {"resource_exhausted": "yes"},
        ):
            with self.subTest(arguments), self.assertRaisesRegex(ValueError, next(iter(arguments))):
                Retry(**arguments)


class CallTest(unittest.TestCase):
    """Each test runs for both clients."""

    def failing(self, code, times, trailers=()):
        """Starts a server whose first `times` calls fail. Returns its port, and a list of the times at which calls
        arrive."""
        calls = []

        def answer(request, context):
            calls.append(time.monotonic())
            if len(calls) <= times:
                context.set_trailing_metadata(trailers)
                context.abort(code, "no")
            return pb.RerankResponse(results=[pb.QueryResult(scores=[1], positions=[0])])

        return serve(self, Rerank=answer), calls

    def ask(self, port, kind, **options):
        """Asks once; returns the ranking or the error."""

        async def ask_async():
            async with AsyncClient(f"127.0.0.1:{port}", **options) as client:
                return await client.rerank("c", QUERY)

        try:
            if kind is AsyncClient:
                return run_async(ask_async())
            with Client(f"127.0.0.1:{port}", **options) as client:
                return client.rerank("c", QUERY)
        except MaxsimError as error:
            return error

    def test_unavailable_is_retried_and_others_are_not(self):
        for kind in (Client, AsyncClient):
            port, calls = self.failing(GONE, times=2)
            self.assertEqual(len(self.ask(port, kind)), 1)
            self.assertEqual(len(calls), 3)
            port, calls = self.failing(grpc.StatusCode.INTERNAL, times=1)
            error = self.ask(port, kind)
            self.assertIsInstance(error, errors.Internal)
            self.assertEqual((error.code(), error.details(), len(calls)), (grpc.StatusCode.INTERNAL, "no", 1))

    def test_a_busy_server_is_asked_again_after_its_delay(self):
        trailers = [("grpc-status-details-bin", status(retry_info(0, 200_000_000)))]
        for kind in (Client, AsyncClient):
            port, calls = self.failing(BUSY, times=1, trailers=trailers)
            self.assertEqual(len(self.ask(port, kind, retry=Retry(resource_exhausted=True))), 1)
            self.assertGreaterEqual(calls[1] - calls[0], 0.2)
            port, calls = self.failing(BUSY, times=1, trailers=trailers)
            error = self.ask(port, kind)
            self.assertIsInstance(error, errors.ResourceExhausted)
            self.assertEqual((error.retry_after, len(calls)), (0.2, 1))

    def test_retries_keep_to_the_timeout(self):
        for kind in (Client, AsyncClient):
            port, calls = self.failing(GONE, times=1000)
            begin = time.monotonic()
            retry = Retry(max_attempts=1000, initial_backoff=0.02, max_backoff=0.02)
            error = self.ask(port, kind, timeout=0.5, retry=retry)
            self.assertIsInstance(error, (errors.Unavailable, errors.DeadlineExceeded))
            self.assertLess(len(calls), 1000)
            self.assertGreater(time.monotonic() - begin, 0.3)

    def test_a_call_that_takes_too_long_ends(self):
        def answer(request, context):
            time.sleep(1)
            return pb.RerankResponse()

        port = serve(self, Rerank=answer)
        for kind in (Client, AsyncClient):
            self.assertIsInstance(self.ask(port, kind, timeout=0.2), errors.DeadlineExceeded)

    def test_a_timeout_is_above_zero(self):
        port, calls = self.failing(GONE, times=0)

        async def ask_async(method, arguments, timeout):
            async with AsyncClient(f"127.0.0.1:{port}") as client:
                await getattr(client, method)(*arguments, timeout=timeout)

        with Client(f"127.0.0.1:{port}") as client:
            for timeout in (0, -1, 0.0, "x", float("nan"), True, [1]):
                accepted = "a finite number of seconds above 0, or None for the default"
                wanted = re.escape(f"timeout is {timeout!r}; must be {accepted}")
                for method, arguments in (
                    ("rerank", ("c", QUERY)),
                    ("rerank_many", ("c", [QUERY])),
                    ("info", ()),
                    ("load", ("c", "/c")),
                ):
                    with self.subTest(timeout), self.assertRaisesRegex(ValueError, wanted):
                        getattr(client, method)(*arguments, timeout=timeout)
                    with self.subTest(timeout), self.assertRaisesRegex(ValueError, wanted):
                        run_async(ask_async(method, arguments, timeout))
        self.assertEqual(calls, [])
        for kind in (Client, AsyncClient):
            self.assertEqual(len(self.ask(port, kind, timeout=1e300)), 1)

    def test_advice_stands_only_before_what_grpc_says_of_a_server_not_reached(self):
        for message in ("the server is stopping", "Socket closed", "the encoder: DNS resolution failed"):
            self.assertEqual(add_advice(message, "far:7070", False), message)
        failed = "connections to all backends failing"
        for message, is_encrypted, advice in (
            ("failed to connect to all addresses; last error: UNKNOWN: x: Connection refused", False, "start one with"),
            ("failed to connect to all addresses; last error: UNKNOWN: x: Connection refused", True, "start one with"),
            ("connections to all backends failing; last error: Connection reset by peer", False, "does it need TLS?"),
            ("empty address list: ", True, "no root certificates could be read"),
            (f"{failed}; last error: UNKNOWN: x: Failed to create security handshaker.", True, "no root certificates"),
            ("empty address list: ", False, "start one with"),
        ):
            said = add_advice(message, "far:7070", is_encrypted)
            self.assertTrue(said.startswith(f"cannot reach maxsimd at far:7070 ({advice}"), said)
            self.assertNotIn("last error", said)

    def test_the_reason_stands_in_place_of_grpcs_words(self):
        # Messages of grpcio 1.51 (OpenSSL) and 1.85 (BoringSSL).
        handshake = "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines"
        for words, reason in (
            ("UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused", "the connection was"),
            ("UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed", "it closed the connection"),
            ("Ssl handshake failed: error:0A000086:SSL routines::certificate verify failed", "its certificate was"),
            (f"{handshake}:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: self signed: OK", "its certificate was signed"),
            (f"{handshake}:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired", "its certificate has"),
            (f"{handshake}:OPENSSL_internal:WRONG_VERSION_NUMBER: Invalid", "it does not speak TLS"),
            ("Peer name 127.0.0.1 is not in peer certificate", "its certificate is for another name"),
            ("Custom verification check failed: Hostname Verification Check failed.", "its certificate is for another"),
            ("INTERNAL: Trying to connect an http1.x server", "it answers in HTTP/1"),
            ("what nobody has seen before", ""),
        ):
            said = add_advice(f"connections to all backends failing; last error: {words}", "far:7070", True)
            with self.subTest(words):
                self.assertRegex(said, rf"^cannot reach maxsimd at far:7070 \([^:]*\)(: {reason}[^:]*)?$")
                self.assertEqual(reason in said, True)
                self.assertNotIn("SSL_ERROR", said)

    def test_a_timeout_names_the_server_and_the_seconds(self):
        started = threading.Event()

        def answer(request, context):
            started.wait(30)
            return pb.RerankResponse()

        def answer_stream(requests, context):
            started.wait(30)
            yield from ()

        self.addCleanup(started.set)
        port = serve(self, Rerank=answer, RerankStream=answer_stream, GetInfo=answer)
        said = f"no answer from maxsimd at 127.0.0.1:{port} within 0.25 s, the timeout of the call"
        for kind in (Client, AsyncClient):
            error = self.ask(port, kind, timeout=0.25)
            self.assertIsInstance(error, errors.DeadlineExceeded)
            self.assertEqual(error.message, said)
        with Client(f"127.0.0.1:{port}") as client:
            with self.assertRaises(errors.DeadlineExceeded) as caught:
                list(client.rerank_stream([Request("c", QUERY)], timeout=0.25))
            self.assertEqual(caught.exception.message, said)

    def test_a_servers_own_word_on_time_is_kept(self):
        def answer(request, context):
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline passed in the queue")

        port = serve(self, Rerank=answer)
        for kind in (Client, AsyncClient):
            self.assertEqual(self.ask(port, kind).message, "the deadline passed in the queue")

    def test_a_server_that_is_not_there_is_unavailable(self):
        for kind in (Client, AsyncClient):
            error = self.ask(1, kind)
            self.assertIsInstance(error, errors.Unavailable)
            self.assertIsInstance(error, grpc.RpcError)

    def test_field_reason_and_limit_are_those_of_the_details_and_of_no_message(self):
        info = error_info("LIMIT_EXCEEDED", limit="64", limit_key="limits.max_top_k")
        metadata = [("grpc-status-details-bin", status(BAD_REQUEST, info))]
        code = grpc.StatusCode.INVALID_ARGUMENT
        error = errors.make_error(code, "top_k: is 0", metadata=metadata)
        self.assertEqual((error.field, error.reason), ("queries[0].text", "LIMIT_EXCEEDED"))
        self.assertEqual((error.limit, error.limit_key), (64, "limits.max_top_k"))
        error = errors.make_error(code, "top_k: is 0")
        self.assertEqual((error.field, error.reason, error.limit, error.limit_key), (None,) * 4)
        error = errors.from_code_number(3, "m", details=status(BAD_REQUEST, info))
        self.assertEqual((error.field, error.limit), ("queries[0].text", 64))

    def test_indices_are_shifted_in_the_field_and_the_message_follows(self):
        metadata = [("grpc-status-details-bin", status(bad_request("queries[3].tokens", "is not queries[3]")))]
        error = errors.make_error(grpc.StatusCode.INVALID_ARGUMENT, "any text", metadata=metadata)
        shifted = errors.shift_indices(error, "queries", 64)
        self.assertEqual(shifted.field, "queries[67].tokens")
        self.assertEqual(shifted.message, "queries[67].tokens: is not queries[3]")
        self.assertEqual(errors.shift_indices(error, "documents", 64).field, "queries[3].tokens")
        plain = errors.make_error(grpc.StatusCode.INTERNAL, "queries[3]: no field")
        self.assertEqual(errors.shift_indices(plain, "queries", 64).message, "queries[3]: no field")

    def test_every_code_has_an_error_and_errors_can_be_pickled(self):
        details = {"field": "top_k", "problem": "is 0", "reason": "R", "limit": 3, "limit_key": "k", "num_deleted": 7}
        for code in grpc.StatusCode:
            error = errors.MaxsimError("m", status_code=code, retry_after=1.5, **details)
            self.assertIs(errors.make_error(code, "m").code(), code)
            again = pickle.loads(pickle.dumps(error))
            self.assertIs(type(again), type(error))
            self.assertEqual((str(again), again.retry_after, again.code()), (f"{code.name}: m", 1.5, code))
            self.assertEqual((again.field, again.reason, again.limit, again.limit_key), ("top_k", "R", 3, "k"))
            self.assertEqual(again.num_deleted, 7)
            self.assertEqual(again.with_field("x").message, "x: is 0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
