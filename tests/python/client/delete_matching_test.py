"""Tests delete_matching of both clients. The servers run in this process and keep the requests they get.

python delete_matching_test.py
"""

import unittest

import grpc

from client_fixture import BothTest
from documents_fixture import QUICK, FakeDocuments
from wire_details import error_info, refuse, retry_info, status

from maxsim import DeleteSummary, F, errors  # noqa: E402
from maxsim.v1 import documents_pb2  # noqa: E402


def answer(num_deleted=0, num_missing=0, num_stale=0, sequence=0, has_more=False):
    return documents_pb2.DeleteResponse(
        num_deleted=num_deleted, num_missing=num_missing, num_stale=num_stale, sequence=sequence, has_more=has_more
    )


class DeleteMatchingTest(BothTest):
    def serve_answers(self, *answers):
        """Returns a server that gives these answers in turn, repeatedly, and a list of the requests that it gets. An
        answer that is a function is called with the call's context."""
        seen = []

        def delete(request, context):
            seen.append(documents_pb2.DeleteRequest.FromString(request.SerializeToString()))
            now = answers[(len(seen) - 1) % len(answers)]
            return now(context) if callable(now) else now

        return FakeDocuments(self, Delete=delete), seen

    def test_the_request_has_the_filter_and_the_version(self):
        server, seen = self.serve_answers(answer(5, sequence=9))
        for client in self.clients(server):
            deleted = client.delete_matching("docs", F.year < 2000, version=7, min_sequence=3)
            self.assertEqual(deleted, DeleteSummary(5, 0, 0, 9))
            [request] = seen[-1:]
            self.assertEqual((request.collection, request.version, request.min_sequence), ("docs", 7, 3))
            self.assertEqual((request.filter.range.field, request.WhichOneof("ids")), ("year", None))
            client.delete_matching("docs", "year < 2000")
            self.assertEqual((seen[-1].filter_text, seen[-1].version, seen[-1].min_sequence), ("year < 2000", 0, 0))

    def test_each_request_asks_for_the_state_after_the_last_one(self):
        server, seen = self.serve_answers(
            answer(100, sequence=120, has_more=True),
            answer(90, 10, sequence=210, has_more=True),
            answer(7, sequence=217),
        )
        for client in self.clients(server):
            seen.clear()
            self.assertEqual(client.delete_matching("docs", "year < 2000"), DeleteSummary(197, 10, 0, 217))
            self.assertEqual([request.min_sequence for request in seen], [0, 120, 210])

    def test_documents_that_others_deleted_or_replaced_end_nothing(self):
        server, seen = self.serve_answers(
            answer(0, 100, sequence=5, has_more=True),
            answer(0, 0, 100, sequence=5, has_more=True),
            answer(3, sequence=8),
        )
        for client in self.clients(server):
            seen.clear()
            self.assertEqual(client.delete_matching("docs", "year < 2000", version=4), DeleteSummary(3, 100, 100, 8))
            self.assertEqual(len(seen), 3)

    def test_a_router_without_one_log_answers_no_sequence(self):
        server, seen = self.serve_answers(answer(100, has_more=True), answer(1))
        for client in self.clients(server):
            seen.clear()
            self.assertEqual(client.delete_matching("docs", "year < 2000"), DeleteSummary(101, 0, 0, 0))
            self.assertEqual([request.min_sequence for request in seen], [0, 0])

    def test_an_answer_that_would_repeat_for_ever_is_an_error(self):
        server, seen = self.serve_answers(answer(has_more=True))
        for client in self.clients(server):
            seen.clear()
            with self.assertRaisesRegex(errors.Internal, "has_more is set, but no document was found"):
                client.delete_matching("docs", "year < 2000")
            self.assertEqual(len(seen), 1)

    def test_a_busy_server_and_a_replica_that_lags_are_asked_again(self):
        def busy(context):
            context.set_trailing_metadata([("grpc-status-details-bin", status(retry_info(0, 1_000_000)))])
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "2 deletes with a filter are in progress")

        def lagging(context):
            context.abort(grpc.StatusCode.UNAVAILABLE, "min_sequence: is 9, but collection docs has only reached 7")

        server, seen = self.serve_answers(busy, answer(100, sequence=9, has_more=True), lagging, answer(1, sequence=10))
        for client in self.clients(server, retry=QUICK):
            seen.clear()
            self.assertEqual(client.delete_matching("docs", "year < 2000"), DeleteSummary(101, 0, 0, 10))
            self.assertEqual([request.min_sequence for request in seen], [0, 0, 9, 9])

    def test_an_error_counts_what_was_deleted_before_it(self):
        def failed(context):
            info = error_info("PARTLY_DELETED", num_deleted="20")
            context.set_trailing_metadata([("grpc-status-details-bin", status(info))])
            context.abort(grpc.StatusCode.INTERNAL, "a replica gave a wrong answer (group b)")

        for answers, num_deleted in (
            ([answer(100, sequence=9, has_more=True), failed], 120),
            ([failed], 20),
        ):
            server, _ = self.serve_answers(*answers)
            for client in self.clients(server):
                with self.assertRaises(errors.Internal) as caught:
                    client.delete_matching("docs", "year < 2000")
                self.assertEqual(caught.exception.num_deleted, num_deleted)
                self.assertEqual(caught.exception.reason, "PARTLY_DELETED")
                self.assertIn("group b", caught.exception.message)
                self.check_cause(caught.exception)

        server, _ = self.serve_answers(lambda context: context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not live"))
        for client in self.clients(server):
            with self.assertRaises(errors.FailedPrecondition) as caught:
                client.delete_matching("docs", "year < 2000")
            self.assertEqual((caught.exception.num_deleted, caught.exception.reason), (None, None))
            self.check_cause(caught.exception)

    def test_what_failed_attempts_deleted_is_counted(self):
        def partly(num_deleted):
            def failed(context):
                info = error_info("PARTLY_DELETED", num_deleted=str(num_deleted))
                context.set_trailing_metadata([("grpc-status-details-bin", status(info))])
                context.abort(grpc.StatusCode.UNAVAILABLE, "the server is draining (group b)")

            return failed

        server, seen = self.serve_answers(
            partly(20), partly(3), answer(100, sequence=9, has_more=True), partly(4), answer(1, sequence=10)
        )
        for client in self.clients(server, retry=QUICK):
            seen.clear()
            self.assertEqual(client.delete_matching("docs", "year < 2000"), DeleteSummary(128, 0, 0, 10))
            self.assertEqual(len(seen), 5)

        server, seen = self.serve_answers(answer(100, sequence=9, has_more=True), partly(20), partly(3), partly(4))
        for client in self.clients(server, retry=QUICK):
            seen.clear()
            with self.assertRaises(errors.Unavailable) as caught:
                client.delete_matching("docs", "year < 2000")
            self.assertEqual(caught.exception.num_deleted, 127)
            self.assertEqual(len(seen), 4)
            self.check_cause(caught.exception)

    def test_an_error_that_gets_a_number_of_deleted_documents_has_no_limit(self):
        def refused(context):
            refuse(context, "filter_text", "has 70 conditions", limit="64", limit_key="limits.max_conditions")

        server, _ = self.serve_answers(answer(100, sequence=9, has_more=True), refused)
        for client in self.clients(server):
            with self.assertRaises(errors.InvalidArgument) as caught:
                client.delete_matching("docs", "year < 2000")
            error = caught.exception
            self.assertEqual((error.reason, error.num_deleted), ("PARTLY_DELETED", 100))
            self.assertEqual((error.field, error.limit, error.limit_key), ("filter_text", None, None))
            self.check_cause(error)

    def test_a_filter_must_be_given(self):
        server, seen = self.serve_answers(answer())
        for client in self.clients(server):
            for wrong in (None, 3):
                with self.assertRaisesRegex(ValueError, "filter is .*; must be a text, a dict, or made with F"):
                    client.delete_matching("docs", wrong)
            with self.assertRaisesRegex(ValueError, "filter"):
                client.delete_matching("docs", {})
            with self.assertRaises(TypeError):
                client.delete_matching("docs")
            with self.assertRaisesRegex(ValueError, "version is 0; must be an integer from 1"):
                client.delete_matching("docs", "year < 2000", version=0)
            with self.assertRaisesRegex(ValueError, "collection is ''"):
                client.delete_matching("", "year < 2000")
        self.assertEqual(seen, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
