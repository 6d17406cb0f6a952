"""Tests that the conformance suite finds wrong answers.

python outcomes_test.py
"""

import copy
import sys
import unittest
from unittest import mock

import case_files
import conformance_test
import numpy as np
import outcomes
from drivers import drivers
from oracle import Oracle

RANKING = {
    "documents": [
        {"id": "b", "score": 2.5, "position": 1, "matches": [0], "similarities": [2.5]},
        {"id": "a", "score": -1, "position": 0, "matches": [1], "similarities": [-1]},
    ],
    "missing": ["c"],
}


class OutcomesTest(unittest.TestCase):
    def difference(self, change, method="rerank"):
        """Returns the difference of the ranking after `change` from the ranking before."""
        found = copy.deepcopy(RANKING)
        change(found)
        return outcomes.difference(method, {"result": RANKING}, {"result": found})

    def test_an_equal_answer_has_no_difference(self):
        self.assertIsNone(self.difference(lambda ranking: None))
        self.assertIsNone(self.difference(lambda ranking: ranking.update(sequence=0, query_tokens=[])))
        self.assertIsNone(self.difference(lambda ranking: ranking["documents"][1].update(score=-1.0, truncated=False)))

    def test_every_wrong_value_is_found(self):
        next_score = float(np.nextafter(np.float32(2.5), np.float32(3)))
        changes = {
            "the next FP32": lambda r: r["documents"][0].update(score=next_score),
            "an id": lambda r: r["documents"][0].update(id="B"),
            "a position": lambda r: r["documents"][1].update(position=2),
            "a match": lambda r: r["documents"][1].update(matches=[0]),
            "a similarity": lambda r: r["documents"][1].update(similarities=[1]),
            "the order": lambda r: r["documents"].reverse(),
            "one document more": lambda r: r["documents"].append(r["documents"][0]),
            "one document fewer": lambda r: r["documents"].pop(),
            "no missing id": lambda r: r.update(missing=[]),
            "a payload": lambda r: r["documents"][0].update(payload={}),
            "a group": lambda r: r["documents"][0].update(group="g"),
            "a cut document": lambda r: r["documents"][0].update(truncated=True),
            "a cut query": lambda r: r.update(query_truncated=True),
            "a sequence": lambda r: r.update(sequence=7),
        }
        for name, change in changes.items():
            with self.subTest(name):
                self.assertIsNotNone(self.difference(change))

    def test_a_score_is_compared_with_as_many_digits_as_fp32_has(self):
        self.assertIsNone(self.difference(lambda ranking: ranking["documents"][0].update(score=2.50000001)))
        self.assertIsNotNone(self.difference(lambda ranking: ranking["documents"][0].update(score=2.500001)))

    def test_large_integers_may_be_written_in_either_form(self):
        expected = {"documents": [], "missing": [{"int64": str(2**53 + 1)}]}
        for id, equal in ((2**53 + 1, True), ({"int64": str(2**53 + 1)}, True), (2**53, False), (2.0**53, False)):
            answer = {"result": {"documents": [], "missing": [id]}}
            self.assertEqual(outcomes.difference("rerank", {"result": expected}, answer) is None, equal, id)

    def test_errors_are_compared_by_code_field_and_reason(self):
        expected = {"error": {"code": "NOT_FOUND", "field": "ids", "reason": "UNKNOWN_IDS", "http": {"field": "id"}}}
        right = {"code": "NOT_FOUND", "field": "ids", "reason": "UNKNOWN_IDS", "message": "m"}
        self.assertIsNone(outcomes.difference("get", expected, {"error": right}))
        self.assertIsNone(outcomes.difference("get", expected, {"error": {**right, "field": "id"}}, "http"))
        self.assertIsNotNone(outcomes.difference("get", expected, {"error": right}, "http"))
        expected["error"]["http"]["field"] = ["id", "id[0]"]
        self.assertIsNone(outcomes.difference("get", expected, {"error": {**right, "field": "id[0]"}}, "http"))
        self.assertIsNotNone(outcomes.difference("get", expected, {"error": right}, "http"))
        for wrong in ({"code": "INTERNAL"}, {"field": "id"}, {"reason": None}, {"message": ""}, {"local": True}):
            with self.subTest(wrong):
                self.assertIsNotNone(outcomes.difference("get", expected, {"error": {**right, **wrong}}))
        self.assertIsNotNone(outcomes.difference("get", expected, {"result": {}}))
        self.assertIsNotNone(outcomes.difference("get", {"result": {}}, {"error": right}))

    def test_a_client_may_refuse_an_argument_only_where_the_case_says_so(self):
        local = {"code": "INVALID_ARGUMENT", "local": True, "message": "top_k is -1"}
        for argument, equal in (("top_k", True), ("offset", False), (None, False)):
            error = {"code": "INVALID_ARGUMENT", "field": "top_k", **({"argument": argument} if argument else {})}
            self.assertEqual(outcomes.difference("rerank", {"error": error}, {"error": local}) is None, equal, argument)

    def test_attempts_and_waits_are_checked(self):
        refusal = {"attempts": 3, "retry_after_ms": 300}
        self.assertIsNone(conformance_test.attempts_problem(refusal, [5.0, 5.3, 5.7]))
        self.assertIsNotNone(conformance_test.attempts_problem(refusal, [5.0, 5.3]))
        self.assertIsNotNone(conformance_test.attempts_problem(refusal, [5.0, 5.3, 5.5]))


class DriverTest(unittest.TestCase):
    def test_a_driver_may_leave_out_only_the_methods_of_its_list(self):
        case = {"name": "a case", "arguments": {}, "result": {}}
        chosen = drivers.Driver("some", [], left_out=frozenset({"facets"}))
        driver, world = mock.Mock(), mock.Mock()
        driver.ask.return_value = {"unsupported": "not here"}
        with mock.patch.object(conformance_test, "client_options"):
            self.assertEqual(conformance_test.run_case(driver, world, case, "facets", chosen), "not offered")
            self.assertRegex(conformance_test.run_case(driver, world, case, "count", chosen), "failed .*count .*some")

    def test_a_driver_that_has_ended_is_reported_and_stopped(self):
        driver = conformance_test.Driver([sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(3)"], {})
        for _ in range(2):  # The second call finds that the pipe is closed.
            with self.assertRaisesRegex(RuntimeError, "the driver ended"):
                driver.ask({"method": "count"})
            driver._process.wait()
        self.assertEqual(driver.stop(), 3)


class RecordedTest(unittest.TestCase):
    def test_the_files_have_the_results_of_the_oracle(self):
        self.assertEqual(conformance_test.check_recorded(case_files.read_data()), [])

    def test_a_score_that_is_not_exact_is_refused(self):
        oracle = Oracle(case_files.read_data())
        with self.assertRaises(AssertionError):
            oracle.rerank({"collection": "passages", "query": [[0.1] * 8], "ids": ["alpha"]})


if __name__ == "__main__":
    unittest.main(verbosity=2)
