"""Tests how Haystack's filter dictionaries are converted to filters. Needs neither Haystack nor a server.

python haystack_filters_test.py      needs grpcio, protobuf and numpy
"""

import datetime
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from python_package import use_package  # noqa: E402

use_package()

import numpy as np  # noqa: E402
from maxsim import F, Request  # noqa: E402
from maxsim.adapters.haystack_filters import to_filter  # noqa: E402

NOTHING = F.lang.exists() & ~F.lang.exists()
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.timezone.utc)


def comparison(operator, value, field="meta.lang"):
    return {"field": field, "operator": operator, "value": value}


def logic(operator, *conditions):
    return {"operator": operator, "conditions": list(conditions)}


class HaystackFiltersTest(unittest.TestCase):
    def test_comparisons_become_trees(self):
        for operator, value, wanted in (
            ("==", "en", F.lang == "en"),
            ("==", 3, F.lang == 3),
            ("==", np.int64(3), F.lang == 3),
            ("==", True, F.lang == True),  # noqa: E712
            ("==", NOON, F.lang == NOON),
            ("==", None, ~F.lang.exists()),
            ("!=", "en", F.lang != "en"),
            ("!=", None, ~~F.lang.exists()),
            (">", 3, F.lang > 3),
            (">=", 3.5, F.lang >= 3.5),
            ("<", "2026-01-02T00:00:00Z", F.lang < "2026-01-02T00:00:00Z"),
            ("<=", NOON, F.lang <= NOON),
            (">", None, NOTHING),
            ("in", ["de", "en"], F.lang.is_in(["de", "en"])),
            ("in", ("de",), F.lang.is_in(["de"])),
            ("in", ["de", None], F.lang.is_in(["de"]) | ~F.lang.exists()),
            ("in", [None], ~F.lang.exists()),
            ("in", [], NOTHING),
            ("not in", ["de", "en"], ~F.lang.is_in(["de", "en"])),
            ("not in", [], ~NOTHING),
        ):
            with self.subTest(operator=operator, value=value):
                made = to_filter(comparison(operator, value))
                self.assertEqual(made.to_dict(), wanted.to_dict())
                Request("c", "a question", filter=made).to_message()

    def test_fields_are_named_with_meta_or_without(self):
        for field in ("meta.lang", "lang"):
            self.assertEqual(to_filter(comparison("==", "en", field)).to_dict(), (F.lang == "en").to_dict())
        self.assertEqual(to_filter(comparison("==", 1, "meta.id")).to_dict(), (F.id == 1).to_dict())

    def test_conditions_are_joined(self):
        a, b, c = (comparison("==", value) for value in "abc")
        x, y, z = (F.lang == value for value in "abc")
        for given, wanted in (
            (logic("AND", a, b, c), x & y & z),
            (logic("OR", a, b), x | y),
            (logic("AND", a), x),
            (logic("NOT", a), ~x),
            (logic("NOT", a, b), ~(x & y)),
            (logic("AND", a, logic("OR", b, logic("NOT", c))), x & (y | ~z)),
        ):
            with self.subTest(given):
                self.assertEqual(to_filter(given).to_dict(), wanted.to_dict())

    def test_no_filter_is_none(self):
        self.assertIsNone(to_filter(None))
        self.assertIsNone(to_filter({}))

    def test_what_is_wrong_is_named_with_operator_and_field(self):
        deep = comparison("==", "en")
        for _ in range(40):
            deep = logic("NOT", deep)
        naive = datetime.datetime(2026, 1, 2)
        in_second = r"filters.conditions\[1\]: the operator '<' of the field 'lang' cannot take True"
        for given, expected in (
            (comparison("contains", "e"), "the operator 'contains' of the field 'lang' is unknown; must be one of =="),
            (comparison("==", ["en"]), r"the operator '==' of the field 'lang' cannot take \['en'\]; it takes"),
            (comparison("!=", {"a": 1}), "the operator '!=' of the field 'lang' cannot take"),
            (comparison("==", float("nan")), "the operator '==' of the field 'lang' cannot take nan"),
            (comparison("==", 2**63), "the operator '==' of the field 'lang' cannot take 9223372036854775808"),
            (comparison(">", [1]), r"the operator '>' of the field 'lang' cannot take \[1\]; it takes a number"),
            (comparison(">=", naive), "the operator '>=' of the field 'lang' cannot take .*datetime with a time zone"),
            (comparison("in", "en"), "the operator 'in' of the field 'lang' cannot take 'en'; it takes a list"),
            (comparison("not in", ["en", ["de"]]), r"'not in' of the field 'lang' cannot take \['de'\] at \[1\]"),
            (logic("AND", comparison("==", "en"), comparison("<", True)), in_second),
            (comparison("==", "en", "content"), "filters.field is 'content', which the operator '==' cannot see"),
            (comparison("==", "en", "meta.a.b"), "filters.field is 'meta.a.b', .* the path 'a.b'"),
            (comparison("==", "en", 3), "filters.field is 3; must be a string"),
            (logic("XOR", comparison("==", "en")), "filters.operator is 'XOR'; must be one of AND, OR, NOT"),
            (logic("AND"), "filters.conditions is empty; AND takes at least one condition"),
            ({"operator": "AND", "conditions": "en"}, "filters.conditions is one string; must be a list of conditions"),
            (logic("OR", "lang"), r"filters.conditions\[0\] is 'lang'; must be a dict"),
            ({"lang": "en"}, "filters is {'lang': 'en'}; must be a dict with field, operator and value"),
            ({"field": "lang", "value": 1}, "filters is .*, without operator"),
            ({"field": "lang", "operator": "=="}, "filters is .*, without value"),
            ([], r"filters is \[\]; must be a dict"),
            (deep, "filters is nested deeper than 32 levels"),
        ):
            with self.subTest(expected), self.assertRaisesRegex(ValueError, expected):
                to_filter(given)


if __name__ == "__main__":
    unittest.main(verbosity=2)
