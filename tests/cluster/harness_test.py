"""Tests the checks of the cluster tests: they must find every kind of wrong answer, and notice a cut network
connection.

harness_test.py FOLDER_OF_THE_PROGRAMS        (the programs are not used)
"""

import contextlib
import dataclasses
import socket
import struct
import sys
import threading
import unittest

import background
import compare
import corpus
import history
import numpy as np
import oracle as exact
import stream_watch
import tally
import traffic
import wires
from equality_test import make_corpora
from maxsim.status_details import StatusDetails
from maxsim.v1 import rerank_pb2
from numbered import vectors


def an_answer():
    answer = rerank_pb2.RerankResponse(request_id="7", generation=1)
    for query in range(2):
        result = answer.results.add(scores=[2.5, 2.5, -1], positions=[4, 9, 2], payloads=["{}", "", '{"n":1}'])
        result.string_ids.ids.extend(["a", "b", "c"])
        result.missing_string_ids.ids.extend(["x", "y"])
        for _ in range(3):
            result.alignments.add(document_tokens=[query], similarities=[0.5])
    return answer


def swap(result):
    result.positions[0], result.positions[1] = result.positions[1], result.positions[0]
    result.string_ids.ids[0], result.string_ids.ids[1] = "b", "a"


def drop_last(result):
    for field in (result.scores, result.positions, result.payloads, result.alignments, result.string_ids.ids):
        del field[-1]


FAULTS = {
    "score": lambda r: r.scores.__setitem__(2, float(np.nextafter(np.float32(-1), np.float32(0)))),
    "zero": lambda r: r.scores.__setitem__(2, -0.0),
    "order of ties": swap,
    "one too few": drop_last,
    "position": lambda r: r.positions.__setitem__(2, 3),
    "payload": lambda r: r.payloads.__setitem__(1, "{}"),
    "alignment": lambda r: r.alignments[1].document_tokens.__setitem__(0, 5),
    "similarity": lambda r: r.alignments[1].similarities.__setitem__(0, 0.25),
    "missing": lambda r: r.missing_string_ids.ids.pop(),
    "order of missing": lambda r: r.missing_string_ids.ids.reverse(),
    "kind of ids": lambda r: r.ClearField("ids") or r.int_ids.SetInParent(),
    "unavailable": lambda r: setattr(r, "unavailable_documents", 1),
}


class CompareTest(unittest.TestCase):
    def test_answers_that_differ_in_their_times_are_equal(self):
        other = an_answer()
        other.timings.total_us = 3
        self.assertEqual(compare.difference(an_answer(), other), "")

    def test_each_fault_of_an_answer_is_found_and_named(self):
        for name, fault in FAULTS.items():
            for query in range(2):
                with self.subTest(fault=name, query=query):
                    wrong = an_answer()
                    fault(wrong.results[query])
                    self.assertIn(f"results[{query}]", compare.difference(an_answer(), wrong))

    def test_a_fault_of_the_whole_answer_is_found(self):
        for field, value in {"generation": 2, "sequence": 1, "request_id": "8"}.items():
            wrong = an_answer()
            setattr(wrong, field, value)
            self.assertIn(field, compare.difference(an_answer(), wrong))
        wrong = an_answer()
        wrong.unavailable_groups.append("g0")
        self.assertIn("unavailable_groups", compare.difference(an_answer(), wrong))

    def test_errors_are_compared_by_code_and_details(self):
        said = StatusDetails(field="queries[1].tokens", reason="LIMIT_EXCEEDED", limit=3)
        wanted = compare.Failure(3, "queries[1].tokens: has a value that is not finite", said)
        self.assertEqual(compare.difference(wanted, compare.Failure(3, "is wrong", said)), "")
        for other in (
            (3, wanted.message),
            (5, wanted.message, said),
            *((3, wanted.message, dataclasses.replace(said, **one)) for one in ({"field": "x"}, {"limit": 4})),
        ):
            self.assertNotEqual(compare.difference(wanted, compare.Failure(*other)), "")
        self.assertNotEqual(compare.difference(wanted, an_answer()), "")
        self.assertNotEqual(compare.difference(an_answer(), wanted), "")

    def test_bodies_are_compared(self):
        body = b'{"results":[{"index":1,"relevance_score":0.1}],"timings":{"total_us":1}}'
        self.assertEqual(compare.http_difference((200, body), (200, body.replace(b":1}}", b":2}}"))), "")
        self.assertNotEqual(compare.http_difference((200, body), (200, body.replace(b"0.1", b"0.10000001"))), "")
        self.assertNotEqual(compare.http_difference((200, body), (404, body)), "")
        error = b'{"error":{"code":"NOT_FOUND","field":"model"},"message":"model: is not there"}'
        self.assertEqual(compare.http_difference((404, error), (404, error.replace(b"not", b"nowhere"))), "")
        self.assertNotEqual(compare.http_difference((404, error), (404, error.replace(b'"model"', b'"query"'))), "")

    def test_clients_in_the_background_want_the_answer_of_the_generation_that_is_named(self):
        pool = background.Pool(None, make_corpora(1), 1, 3)
        pool.right[0, 1] = compare.bits(an_answer())
        self.assertEqual(pool.check(0, an_answer()), "")
        for fault in FAULTS.values():
            wrong = an_answer()
            fault(wrong.results[0])
            self.assertNotEqual(pool.check(0, wrong), "")
        wrong = an_answer()
        wrong.generation = 2
        self.assertIn("generation 2", pool.check(0, wrong))
        self.assertIn("error 14", pool.check(0, compare.Failure(14, "gone")))


class TrafficTest(unittest.TestCase):
    def test_a_seed_says_all_requests(self):
        both = [traffic.Traffic(5, make_corpora(5)) for _ in range(2)]
        for _ in range(50):
            self.assertEqual(*(one.next() for one in both))

    def test_every_kind_of_candidates_comes_up(self):
        source = traffic.Traffic(5, make_corpora(5))
        kinds = {source.right().candidates.WhichOneof("kind") for _ in range(300)}
        self.assertEqual(kinds, {"string_ids", "int_ids", "whole_collection", "inline_documents", None})

    def test_many_documents_tie_and_every_partition_has_some(self):
        for one in make_corpora(5):
            documents = one.documents()
            different = {document.elements.tobytes() for document in documents.values()}
            self.assertLess(len(different), len(documents) / 2)
            self.assertEqual({corpus.part_of(id, 3) for id in documents}, {0, 1, 2})


class SlotsTest(unittest.TestCase):
    def test_slots_are_those_of_the_server(self):
        for id, slot in {"a": 3615, "x" * 512: 2662, 17: 3931, -1: 1043, (1 << 63) - 1: 3910}.items():
            self.assertEqual(corpus.slot_of(id), slot)


def message(payload, id="a", version=0, rows=None):
    """Returns a message of the stream in the servers' format: an upsert with this payload or, if the payload is empty,
    a delete."""
    kind = history.UPSERT if payload else history.DELETE
    data = struct.pack("<BQQBBQH", 1, 0, 0, 1, kind, version, len(id)) + id.encode()
    if payload:
        rows = (vectors(1, 8) if rows is None else rows).astype(np.float16)
        data += struct.pack("<IfI", len(rows), 0, len(payload)) + rows.tobytes() + payload.encode()
    return data


class HistoryTest(unittest.TestCase):
    """Passes streams, acknowledgements and answers to History, which must accept correct ones and report each fault."""

    def setUp(self):
        base = exact.Oracle(exact.Storage("f16", 8), "string")
        base.begin_with("a", vectors(1, 8), '{"b":0}')
        self.ledger = history.Ledger()
        self.known = history.History(self.ledger, base, {"a": 1}, 3)
        self.writes = [history.Write("a", 1, f'{{"n":{n}}}', version) for n, version in enumerate((0, 5, 4))]
        self.delete = history.Write("a", 0, "", 0)
        self.ledger.add([*self.writes, self.delete])
        self.sent = [message(one.payload, version=one.version) for one in [*self.writes, self.delete]]

    def extend(self, *sent):
        self.known.extend(enumerate(sent, self.known.last + 1))

    def acknowledged(self, write, outcome, sequence):
        write.result = outcome, sequence
        self.known.check_acknowledged([write])

    def test_a_right_stream_is_right(self):
        self.extend(*self.sent)
        for write, result in zip(self.writes, ((exact.APPLIED, 1), (exact.APPLIED, 2), (exact.STALE, 0))):
            self.acknowledged(write, *result)
        self.acknowledged(self.delete, exact.APPLIED, 4)
        for sequence, payload in enumerate(('{"b":0}', '{"n":0}', '{"n":1}', '{"n":1}')):
            self.assertEqual(self.known.state("a", sequence)[0], payload)
        self.assertIsNone(self.known.state("a", 4))

    def test_a_write_that_is_there_twice_is_found(self):
        with self.assertRaisesRegex(AssertionError, "there already, as message 1"):
            self.extend(self.sent[0], self.sent[0])
        with self.assertRaisesRegex(AssertionError, "delete 2 of .* of 1"):
            self.extend(self.sent[3], self.sent[3])

    def test_a_write_of_nobody_or_with_other_contents_is_found(self):
        for wrong, what in (
            (message("{}"), "nobody wrote it"),
            (message(self.writes[0].payload, "b"), "of 'b'"),
            (message(self.writes[1].payload, version=6), "of 'a'"),
            (message(self.writes[2].payload, version=4, rows=vectors(2, 8)), "other vectors"),
        ):
            with self.assertRaisesRegex(AssertionError, what):
                self.extend(wrong)

    def test_a_gap_is_found(self):
        with self.assertRaisesRegex(AssertionError, "message 2 behind 0"):
            self.known.extend([(2, self.sent[0])])

    def test_an_acknowledged_write_that_is_not_there_is_found(self):
        self.extend(self.sent[1])
        for write in (self.writes[0], self.delete):
            with self.assertRaises(AssertionError):
                self.acknowledged(write, exact.APPLIED, 1)

    def test_a_wrong_acknowledgement_is_found(self):
        self.extend(*self.sent)
        for write, outcome, sequence in (
            (self.writes[0], exact.APPLIED, 2),
            (self.writes[0], exact.STALE, 0),
            (self.writes[2], exact.APPLIED, 3),
            (self.delete, exact.APPLIED, 3),
        ):
            with self.assertRaises(AssertionError):
                self.acknowledged(write, outcome, sequence)
        self.acknowledged(self.delete, exact.APPLIED, 4)
        with self.assertRaisesRegex(AssertionError, "another one"):
            self.acknowledged(self.delete, exact.APPLIED, 4)

    def test_a_failed_write_that_undoes_a_later_one_is_found(self):
        first, second = self.writes[0], history.Write("a", 2, '{"n":9}', 0)
        self.ledger.add([second])
        self.extend(message(second.payload, rows=vectors(2, 8)))
        second.begun = 5.0
        self.acknowledged(second, exact.APPLIED, 1)
        self.known.check_not_undone()
        self.extend(self.sent[0])
        for failed, is_undone in ((6.0, False), (4.0, True)):
            self.ledger.failed = []
            self.ledger.fail([first], failed)
            if is_undone:
                self.assertRaisesRegex(AssertionError, "came as message 2, after message 1", self.known.check_not_undone)
            else:
                self.known.check_not_undone()

    def test_a_failed_delete_that_undoes_a_later_write_is_found(self):
        self.extend(self.sent[0], self.sent[3])
        self.writes[0].begun = 5.0
        self.acknowledged(self.writes[0], exact.APPLIED, 1)
        self.known.check_not_undone()
        self.ledger.fail([self.delete], 6.0)
        self.known.check_not_undone()
        self.ledger.fail([self.delete], 4.0)
        self.assertRaisesRegex(AssertionError, "delete of 'a' came as message 2", self.known.check_not_undone)

    def test_a_late_message_changes_nothing(self):
        self.extend(self.sent[0], None, self.sent[1])
        self.assertEqual(self.known.state("a", 2)[0], '{"n":0}')
        self.assertEqual(self.known.state("a", 3)[0], '{"n":1}')

    def test_an_answer_is_of_the_first_sequence_that_had_it(self):
        self.extend(*self.sent)
        part = corpus.part_of("a", 3)
        for payload, sequence, wanted in (('{"n":0}', 0, 1), ('{"n":1}', 1, 2), ('{"n":1}', 3, 3), ("", 0, 4)):
            self.assertEqual(self.known.moments({"a": payload}, sequence), {part: wanted})

    def test_an_answer_that_never_was_is_found(self):
        self.extend(*self.sent)
        for payload, sequence in (('{"n":2}', 0), ('{"n":0}', 2), ('{"b":0}', 1)):
            with self.assertRaisesRegex(AssertionError, "never held this"):
                self.known.moments({"a": payload}, sequence)


class TallyTest(unittest.TestCase):
    def test_the_longest_pause_may_be_at_either_end(self):
        for moments, wanted in (([], 10), ([4, 5], 5), ([1, 8, 9], 7), ([7, 2], 5), ([-3, 20], 10)):
            self.assertEqual(tally.longest_pause(moments, 0, 10), wanted)

    def test_calls_are_counted_by_code_and_only_good_ones_are_timed(self):
        calls = [(0, 1, 0, 3), (0, 9, 14, 2), (2, 4, 0, 1), (3, 4, 14, 1), (3, 4, 4, 1)]
        found = tally.summary(calls, 0, 10)
        self.assertEqual((found["items"], found["calls"], found["failed"]), (4, 5, {"14": 2, "4": 1}))
        self.assertEqual((found["p50_ms"], found["longest_ms"], found["longest_pause_s"]), (1000, 2000, 6))
        self.assertEqual(tally.during(calls, [(1, 2), (8, 9)]), [calls[1]])

    def test_the_99th_percentile_of_a_hundred_values_leaves_one_out(self):
        self.assertEqual([tally.percentile(range(100), share) for share in (0, 0.5, 0.99, 1)], [0, 49, 98, 99])
        self.assertEqual(tally.percentile([], 0.5), 0)


class StreamWatchTest(unittest.TestCase):
    def test_only_what_a_server_believes_is_an_alarm(self):
        alarm = "has applied the messages up to sequence 9, but stream s ends with sequence 7"
        doubt = alarm + ": it has lost messages that were acknowledged, unless NATS is still recovering; if it lasts"
        text = f"nats.url: the connection is lost\n{doubt}\n{alarm}\nbut the stream has another one there: it has"
        alarms, doubts = stream_watch.sort_lines(text)
        self.assertEqual(doubts, [doubt])
        self.assertEqual(alarms, text.splitlines()[2:])


class SwitchTest(unittest.TestCase):
    def test_frames_are_lost_and_cut_as_told(self):
        with contextlib.ExitStack() as stack:
            (a, a_end), (b, b_end) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
            for one in (a, a_end, b, b_end):
                stack.enter_context(one).setblocking(False)
            plugs = wires.Plugs(1, {"a": a.fileno(), "b": b.fileno()})

            def passes():
                a_end.send(b"to   bfrom a")
                plugs.take(a.fileno(), 0.0)
                plugs.give(0.5)
                try:
                    return bool(b_end.recv(100))
                except BlockingIOError:
                    return False

            for line, wanted in (
                ("set 0 0", True),
                ("cut a/b", False),
                ("heal a/b", True),
                ("cut b", False),
                ("heal b", True),
                ("set 0 1", False),
                ("set 1 0", False),
            ):
                plugs.obey(*line.split())
                self.assertEqual(passes(), wanted, line)


class RelaysTest(unittest.TestCase):
    def test_what_is_sent_while_a_connection_is_cut_comes_once_it_is_healed(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=self._echo, args=(server,), daemon=True).start()
            with wires.Relays({"a": f"127.0.0.1:{server.getsockname()[1]}"}) as net:
                host, port = net.said["a"].split(":")
                with socket.create_connection((host, int(port)), timeout=20) as client:
                    client.sendall(b"1")
                    self.assertEqual(client.recv(1), b"1")
                    net.cut("a")
                    client.sendall(b"2")
                    client.settimeout(0.3)
                    self.assertRaises(TimeoutError, client.recv, 1)
                    net.heal("a")
                    client.settimeout(20)
                    self.assertEqual(client.recv(1), b"2")

    @staticmethod
    def _echo(server):
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)


if __name__ == "__main__":
    sys.argv.pop(1)
    unittest.main(verbosity=2)
