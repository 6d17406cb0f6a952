"""Tests rerank_stream of both clients with the real programs and with servers in this process.

python stream_test.py FOLDER_OF_THE_PROGRAMS
"""

import asyncio
import contextlib
import itertools
import threading
import time
import types
import unittest

import grpc
import numpy as np

from client_fixture import RealServerTest, main, run_async, serve

from maxsim import AsyncClient, Client, Request, errors
from maxsim.v1 import rerank_pb2 as pb

QUERY = np.ones((1, 8), np.float32)


def stream(address, requests, limit=None, **options):
    """Returns the answers of Client, at most `limit`."""
    with Client(address) as client:
        return list(itertools.islice(client.rerank_stream(requests, **options), limit))


def async_stream(address, requests, limit=None, **options):
    """Returns the answers of AsyncClient, at most `limit`."""

    async def run():
        answers = []
        async with AsyncClient(address) as client:
            answering = client.rerank_stream(requests, **options)
            async for answer in answering:
                answers.append(answer)
                if len(answers) == limit:
                    break
            await answering.aclose()
        return answers

    return run_async(run())


BOTH = (stream, async_stream)


class DeafCall:
    """A call whose write() returns normally when it is cancelled, as gRPC's write() sometimes does, instead of
    raising."""

    def __init__(self):
        self.writes = asyncio.Event()

    async def write(self, _):
        self.writes.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    async def __aiter__(self):
        await self.writes.wait()
        for answer in ():
            yield answer

    async def done_writing(self):
        pass

    def add_done_callback(self, callback):
        pass

    def cancel(self):
        pass


class DeafClient(AsyncClient):
    @property
    def reranker(self):
        return types.SimpleNamespace(RerankStream=lambda timeout: DeafCall())


class DeafStreamTest(unittest.TestCase):
    def test_a_stream_ends_though_the_cancellation_of_a_write_is_lost(self):
        async def run(limit):
            async for _ in DeafClient("127.0.0.1:1").rerank_stream([Request("c", QUERY)] * 9, max_in_flight=limit):
                pass

        for limit in (1, 2, 32):
            with self.assertRaises(errors.Unavailable):
                run_async(asyncio.wait_for(run(limit), 20))


class RealStreamTest(RealServerTest):
    def requests(self):
        for i in range(200):
            yield Request("text", self.queries[i % 3], self.text.ids[i % 50 : i % 50 + 20], top_k=3)

    def test_answers_come_in_the_order_of_the_requests(self):
        with Client(self.server.address) as client:
            wanted = [client.rerank(r.collection, r.query, r.ids, top_k=3).to_dict() for r in self.requests()]
        for ask in BOTH:
            answers = ask(self.server.address, self.requests())
            self.assertEqual([a.index for a in answers], [*range(200)])
            self.assertEqual([a.ranking.to_dict() for a in answers], wanted)

    def test_answers_may_come_as_they_are_ready(self):
        for ask in BOTH:
            answers = ask(self.server.address, self.requests(), ordered=False)
            self.assertEqual(sorted(a.index for a in answers), [*range(200)])
            for answer in answers:
                self.assertLessEqual({*answer.ranking.ids}, {*answer.request.ids})

    def test_an_error_of_one_request_leaves_the_stream_open(self):
        query = self.queries[0]
        requests = [
            Request("text", query, top_k=1),
            Request("nowhere", query),
            Request("text", query, weights=[1, 2]),
            Request("text", query, top_k=1, request_id="mine 4"),
        ]
        for ask in BOTH:
            answers = ask(self.server.address, requests)
            self.assertEqual(
                [type(a.error) for a in answers], [type(None), errors.NotFound, errors.InvalidArgument, type(None)]
            )
            self.assertEqual(answers[2].error.field, "queries[0].weights")
            self.assertEqual(answers[0].ranking.ids, answers[3].ranking.ids)
            self.assertRaises(errors.NotFound, lambda: answers[1].ranking)

    def test_requests_may_come_from_an_asynchronous_iterator(self):
        async def requests():
            for request in self.requests():
                await asyncio.sleep(0)
                yield request

        answers = async_stream(self.server.address, requests())
        self.assertEqual([a.index for a in answers], [*range(200)])

    def test_no_requests_have_no_answers(self):
        for ask in BOTH:
            self.assertEqual(ask(self.server.address, []), [])

    def test_an_error_of_the_requests_is_the_callers(self):
        def broken(error):
            yield Request("text", self.queries[0], top_k=1)
            raise error

        # The second error has a type that an error of the stream itself could have.
        for error in (KeyError("mine"), errors.NotFound("mine")):
            for ask in BOTH:
                with self.assertRaisesRegex(type(error), "mine"):
                    ask(self.server.address, broken(error))
                # The requests before the error are answered.
                self.assertEqual(len(ask(self.server.address, broken(error), limit=1)), 1)
    def test_a_wrong_request_is_named_after_the_answers_to_those_before_it(self):
        right = Request("text", self.queries[0], top_k=1)
        for ask, ordered, limit in itertools.product(BOTH, (True, False), (1, 2, 32)):
            for wrong, message in (
                (Request("text", self.queries[0][0]), r"^requests\[3\]: query has shape \[48\]"),
                (Request("text", self.queries[0], top_k=-1), r"^requests\[3\]: top_k is -1"),
                ({"query": 1}, r"^requests\[3\] is {'query': 1}; must be a maxsim.Request"),
                (None, r"^requests\[3\] is None; must be a maxsim.Request"),
            ):
                requests = [right, right, right, wrong, right]
                with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                    ask(self.server.address, requests, ordered=ordered, max_in_flight=limit)
                answers = ask(self.server.address, requests, limit=3, ordered=ordered, max_in_flight=limit)
                self.assertEqual(sorted(answer.index for answer in answers), [0, 1, 2])
                self.assertEqual([len(answer.ranking) for answer in answers], [1, 1, 1])

    def test_wrong_arguments_of_the_stream_are_named(self):
        for ask in BOTH:
            for requests, options, message in (
                (5, {}, "requests is 5; must be an iterable of maxsim.Request"),
                ("ab", {}, "requests is 'ab'; must be an iterable of maxsim.Request"),
                (Request("text", "a"), {}, "must be an iterable of maxsim.Request"),
                ([], {"max_in_flight": 0}, "max_in_flight is 0; must be an integer of 1 or more"),
                ([], {"max_in_flight": 1.5}, "max_in_flight is 1.5; must be an integer of 1 or more"),
                ([], {"ordered": "no"}, "ordered is 'no'; must be True or False"),
                ([], {"timeout": 0}, "timeout is 0; must be a finite number of seconds above 0, or None"),
            ):
                with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                    ask(self.server.address, requests, **options)

    def test_an_error_of_the_stream_is_raised(self):
        server = self.secured_server()
        for ask in BOTH:
            with self.assertRaises(errors.Unauthenticated):
                ask(server.address, self.requests())


class ScriptedStreamTest(RealServerTest):
    def answer(self, request):
        result = pb.QueryResult(scores=[1], positions=[0])
        return pb.RerankStreamResponse(request_id=request.request_id, response=pb.RerankResponse(results=[result]))

    def address(self, method):
        return f"127.0.0.1:{serve(self, RerankStream=method)}"

    def test_the_error_of_a_stream_that_is_refused_while_requests_are_sent_is_the_servers(self):
        def refuse(requests, context):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
            yield

        address = self.address(refuse)
        for ask in BOTH:
            for _ in range(100):
                with self.assertRaisesRegex(errors.Unauthenticated, "no token"):
                    ask(address, [Request("c", QUERY)] * 20)

    def test_answers_in_another_order_are_put_into_order(self):
        def backwards(requests, context):
            for response in reversed([self.answer(request) for request in requests]):
                yield response

        for ask in BOTH:
            answers = ask(self.address(backwards), [Request("c", QUERY)] * 20)
            self.assertEqual([a.index for a in answers], [*range(20)])
            answers = ask(self.address(backwards), [Request("c", QUERY)] * 20, ordered=False)
            self.assertEqual([a.index for a in answers], [*reversed(range(20))])

    def test_no_more_requests_are_in_flight_than_wanted(self):
        taken, answered, most = [], [], []

        def requests():
            for _ in range(50):
                taken.append(1)
                yield Request("c", QUERY)

        def count(asked, context):
            waiting = []
            for request in asked:
                waiting.append(request)
                most.append(len(taken) - len(answered))
                if len(waiting) == 4:
                    time.sleep(0.01)  # time in which further answers would arrive
                    for one in waiting:
                        answered.append(1)
                        yield self.answer(one)
                    waiting = []
            yield from map(self.answer, waiting)

        for ask in BOTH:
            taken.clear(), answered.clear(), most.clear()
            self.assertEqual(len(ask(self.address(count), requests(), max_in_flight=4)), 50)
            # The +1 is for a request that the client has already taken from the iterator but must not send yet.
            self.assertLessEqual(max(most), 4 + 4 + 1)

    def test_a_stream_that_is_left_lets_its_requests_go(self):
        ended = threading.Event()

        def endless():
            try:
                while True:
                    yield Request("c", QUERY)
            finally:
                ended.set()

        def echo(requests, context):
            yield from map(self.answer, requests)

        for ask in BOTH:
            ended.clear()
            self.assertEqual(len(ask(self.address(echo), endless(), limit=3)), 3)
            self.assertTrue(ended.wait(10))

    def test_a_busy_answer_says_when_to_come_back(self):
        def busy(requests, context):
            for request in requests:
                yield pb.RerankStreamResponse(request_id=request.request_id, code=8, message="full", retry_after_ms=250)

        for ask in BOTH:
            error = ask(self.address(busy), [Request("c", QUERY)])[0].error
            self.assertIsInstance(error, errors.ResourceExhausted)
            self.assertEqual(error.retry_after, 0.25)

    def test_a_stream_that_ends_early_or_answers_what_was_not_asked_is_an_error(self):
        def early(requests, context):
            yield self.answer(next(requests))

        def stranger(requests, context):
            next(requests)
            yield self.answer(pb.RerankRequest(request_id="7"))

        for ask in BOTH:
            with self.assertRaises(errors.Unavailable):
                ask(self.address(early), [Request("c", QUERY)] * 2)
            with self.assertRaises(errors.Unavailable):
                ask(self.address(early), [Request("c", QUERY)] * 9, max_in_flight=2)
            with self.assertRaisesRegex(errors.Internal, "which was not asked"):
                ask(self.address(stranger), [Request("c", QUERY)])

    def test_a_stream_ends_with_its_timeout(self):
        def slow(requests, context):
            for request in requests:
                time.sleep(1)
                yield self.answer(request)

        for ask in BOTH:
            with self.assertRaises(errors.DeadlineExceeded):
                ask(self.address(slow), [Request("c", QUERY)] * 3, timeout=0.3)


if __name__ == "__main__":
    main()
