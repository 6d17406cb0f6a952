"""The tests of a cluster find what they are for: each way in which an answer can be wrong, and a network that is cut.

harness_test.py FOLDER_OF_THE_PROGRAMS        of which it takes none
"""

import socket
import sys
import threading
import unittest

import background
import compare
import corpus
import numpy as np
import traffic
import wires
from equality_test import make_corpora
from maxsim.v1 import rerank_pb2


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

    def test_errors_are_compared_by_code_and_field(self):
        wanted = compare.Failure(3, "queries[1].tokens: has a value that is not finite")
        self.assertEqual(compare.difference(wanted, compare.Failure(3, "queries[1].tokens: is wrong")), "")
        for other in ((3, "queries[0].tokens: has a value that is not finite"), (5, wanted.message), (3, "is wrong")):
            self.assertNotEqual(compare.difference(wanted, compare.Failure(*other)), "")
        self.assertNotEqual(compare.difference(wanted, an_answer()), "")
        self.assertNotEqual(compare.difference(an_answer(), wanted), "")

    def test_bodies_are_compared(self):
        body = b'{"results":[{"index":1,"relevance_score":0.1}],"timings":{"total_us":1}}'
        self.assertEqual(compare.http_difference((200, body), (200, body.replace(b":1}}", b":2}}"))), "")
        self.assertNotEqual(compare.http_difference((200, body), (200, body.replace(b"0.1", b"0.10000001"))), "")
        self.assertNotEqual(compare.http_difference((200, body), (404, body)), "")
        error = b'{"error":{"code":"NOT_FOUND"},"message":"model: is not there"}'
        self.assertEqual(compare.http_difference((404, error), (404, error.replace(b"not", b"nowhere"))), "")
        self.assertNotEqual(compare.http_difference((404, error), (404, error.replace(b"model", b"query"))), "")

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
