"""Tests filters in Python: the messages for filters made with F, dictionaries and texts, and the errors for invalid
filters.

python filters_test.py
"""

import datetime
import unittest

from client_fixture import use_package

use_package()

import numpy as np  # noqa: E402

import maxsim  # noqa: E402
from maxsim import F  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402


def message(given):
    """Returns the message of a filter."""
    request = maxsim.Request("c", "a question", filter=given).to_message()
    assert request.WhichOneof("matching") == "filter"
    return request.filter


def equals(field, **value):
    return pb.Filter(equals=pb.FilterEquals(field=field, value=pb.FilterValue(**value)))


class FiltersTest(unittest.TestCase):
    maxDiff = None

    def test_comparisons_become_messages(self):
        def bounded(side, exclusive, **value):
            bound = pb.FilterBound(value=pb.FilterValue(**value), exclusive=exclusive)
            return pb.Filter(range=pb.FilterRange(field="year", **{side: bound}))

        values = [pb.FilterValue(string_value="a"), pb.FilterValue(string_value="b")]
        for built, wanted in (
            (F.lang == "en", equals("lang", string_value="en")),
            (F["lang"] == "en", equals("lang", string_value="en")),
            (F.lang != "en", pb.Filter(negation=equals("lang", string_value="en"))),
            (F.year == 2020, equals("year", integer_value=2020)),
            (F.year == np.int32(2020), equals("year", integer_value=2020)),
            (F.price == 2.5, equals("price", number_value=2.5)),
            (F.sold == True, equals("sold", boolean_value=True)),  # noqa: E712
            (F.sold == np.bool_(False), equals("sold", boolean_value=False)),
            (F.year >= 2020, bounded("low", False, integer_value=2020)),
            (F.year > 2020, bounded("low", True, integer_value=2020)),
            (F.year <= 2020.5, bounded("high", False, number_value=2020.5)),
            (2020 > F.year, bounded("high", True, integer_value=2020)),
            (F.tags.is_in(["a", "b"]), pb.Filter(is_in=pb.FilterIn(field="tags", values=values))),
            (F.tags.is_in(x for x in "ab"), pb.Filter(is_in=pb.FilterIn(field="tags", values=values))),
            (F.tags.exists(), pb.Filter(exists="tags")),
        ):
            with self.subTest(repr(built)):
                self.assertEqual(message(built), wanted)
                self.assertEqual(message(built.to_dict()), wanted)

    def test_a_time_has_a_time_zone(self):
        noon = datetime.datetime(2026, 1, 2, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
        self.assertEqual(message(F.at == noon), equals("at", string_value="2026-01-02T12:00:00+00:00"))
        with self.assertRaisesRegex(ValueError, "filter.equals is datetime.*; must be .*datetime with a time zone"):
            F.at == datetime.datetime(2026, 1, 2)  # noqa: B015

    def test_filters_are_joined_and_negated(self):
        a, b, c = F.a.exists(), F.b.exists(), F.c.exists()
        self.assertEqual((a & b & c).to_dict(), {"and": [a.to_dict(), b.to_dict(), c.to_dict()]})
        self.assertEqual((a | (b | c)).to_dict(), {"or": [a.to_dict(), b.to_dict(), c.to_dict()]})
        self.assertEqual((a & ~(b | c)).to_dict(), {"and": [a.to_dict(), {"not": {"or": [b.to_dict(), c.to_dict()]}}]})
        wanted = pb.Filter(
            all_of=pb.FilterList(filters=[pb.Filter(exists="a"), pb.Filter(negation=pb.Filter(exists="b"))])
        )
        self.assertEqual(message(a & ~b), wanted)
        self.assertEqual(message({"and": [a, {"not": {"field": "b", "exists": True}}]}), wanted)

    def test_two_bounds_are_one_range(self):
        wanted = pb.FilterRange(field="year")
        wanted.low.value.integer_value = 2020
        wanted.low.exclusive = True
        wanted.high.value.integer_value = 2024
        self.assertEqual(message({"field": "year", "gt": 2020, "lte": 2024}), pb.Filter(range=wanted))

    def test_a_text_is_sent_as_it_is(self):
        request = maxsim.Request("c", "a question", filter='lang = "en"').to_message()
        self.assertEqual(request.filter_text, 'lang = "en"')
        self.assertEqual(request.WhichOneof("matching"), "filter_text")
        self.assertIsNone(maxsim.Request("c", "a question").to_message().WhichOneof("matching"))

    def test_a_filter_is_no_truth_value(self):
        with self.assertRaisesRegex(TypeError, "join filters with & and |"):
            (F.a == 1) and (F.b == 2)
        with self.assertRaisesRegex(TypeError, "neither true nor false"):
            bool(F.a)
        with self.assertRaises(TypeError):
            1 < F.a < 3  # noqa: B015
        with self.assertRaises(TypeError):
            (F.a == 1) & "b"

    def test_what_is_wrong_is_named(self):
        deep = {"field": "a", "exists": True}
        for _ in range(32):
            deep = {"not": deep}
        for given, expected in (
            (7, "filter is 7; must be a text, a dict, or made with F, or None"),
            ("\ud800", "filter is .* half of a surrogate pair"),
            ({}, "filter is {}; must be a dict with and, or, not, or field"),
            ({"and": []}, "filter.and is empty"),
            ({"and": {}}, "filter.and is {}; must be a list of filters"),
            ({"or": [{"not": 5}]}, r"filter.or\[0\].not is 5; must be a dict"),
            ({"and": [], "or": []}, "filter is .*; must be a dict with"),
            ({"field": "a"}, "filter is .*; must be a dict with"),
            ({"field": 3, "equals": 1}, "filter.field is 3; must be a string"),
            ({"field": "a", "equals": None}, "filter.equals is None; must be a string, an integer of 64 bits"),
            ({"field": "a", "equals": 2**63}, "filter.equals is 9223372036854775808; must be"),
            ({"field": "a", "equals": float("nan")}, "filter.equals is nan"),
            ({"field": "a", "in": []}, "filter.in is empty"),
            ({"field": "a", "in": "ab"}, "filter.in is one string; must be a list of values"),
            ({"field": "a", "in": [1, [2]]}, r"filter.in\[1\] is \[2\]"),
            ({"field": "a", "exists": False}, "filter.exists is False; must be True"),
            ({"field": "a", "gt": 1, "gte": 2}, "filter is .*; must be a dict with"),
            (deep, "filter is nested deeper than 32 levels"),
        ):
            with self.subTest(expected), self.assertRaisesRegex(ValueError, expected):
                message(given)


if __name__ == "__main__":
    unittest.main(verbosity=2)
