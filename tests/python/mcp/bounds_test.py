"""Tests the limits on what the tools of maxsim-mcp return, at and around each limit. Needs neither mcp nor a server.

python bounds_test.py
"""

import asyncio
import json
import pathlib
import sys
import types
import unittest

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "support"))
from python_package import use_package  # noqa: E402

use_package()
import maxsim  # noqa: E402
from maxsim.errors import InvalidArgument  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402
from maxsim_mcp import limits, pieces  # noqa: E402
from maxsim_mcp.failures import ToolError  # noqa: E402
from maxsim_mcp.payloads import cut, excerpt  # noqa: E402
from maxsim_mcp.tools import Settings, Tools  # noqa: E402


def around(limit):
    return (limit - 1, limit, limit + 1)


class PayloadsTest(unittest.TestCase):
    def excerpt(self, payload, max_text_chars=10):
        return excerpt(payload, "title", "text", max_text_chars)

    def test_texts_are_cut_after_their_limit(self):
        for size in around(10):
            found = self.excerpt({"text": "a" * size})
            self.assertEqual(found["text"], "a" * size if size <= 10 else "a" * 9 + "…")
            self.assertEqual(found.get("text_cut", False), size > 10)
        self.assertEqual(self.excerpt({"text": "a"}, 0), {})
        for size in around(limits.MAX_VALUE_CHARS):
            found = self.excerpt({"title": "a" * size, "lang": "b" * size})
            least = min(size, limits.MAX_VALUE_CHARS)
            self.assertEqual((len(found["title"]), len(found["fields"]["lang"])), (least, least))

    def test_members_above_the_limits_are_counted(self):
        for size in around(limits.MAX_FIELDS):
            found = self.excerpt({f"m{i}": i for i in range(size)})
            self.assertEqual(len(found["fields"]), min(size, limits.MAX_FIELDS))
            self.assertEqual(found.get("fields_left_out", 0), max(0, size - limits.MAX_FIELDS))
        for size in around(limits.MAX_FIELD_ITEMS):
            found = self.excerpt({"tags": ["a"] * size})
            self.assertEqual("fields" in found, size <= limits.MAX_FIELD_ITEMS)
        members = {f"{i:03}": "a" * 197 for i in range(6)}  # 200 characters each, and 1,000 are shown
        self.assertEqual((len(self.excerpt(members)["fields"]), self.excerpt(members)["fields_left_out"]), (5, 1))
        self.assertEqual(self.excerpt({"a" * 2000: 1}), {"fields_left_out": 1})

    def test_nested_and_huge_values_are_left_out(self):
        for value in ({"a": 1}, [[1]], [{"a": 1}], 10**400, None, [None]):
            self.assertEqual(self.excerpt({"m": value}), {"fields_left_out": 1}, value)
        for value in (True, 1.5, -7, "a", [], ["a", 2]):
            self.assertEqual(self.excerpt({"m": value}), {"fields": {"m": value}})

    def test_titles_and_texts_that_are_no_strings_are_plain_members(self):
        self.assertEqual(self.excerpt({"title": 7, "text": ["a"]}), {"fields": {"title": 7, "text": ["a"]}})

    def test_names_of_tokens_are_not_shown(self):
        self.assertEqual(self.excerpt({"tokens": ["a"] * 5}), {})
        self.assertEqual(self.excerpt({"tokens": 5}), {"fields": {"tokens": 5}})
        self.assertEqual(self.excerpt(None), {})

    def test_cut_keeps_what_fits(self):
        self.assertEqual([cut("abc", most) for most in (1, 2, 3, 4)], ["…", "a…", "abc", "abc"])


class PiecesTest(unittest.TestCase):
    def test_pieces_of_each_kind_of_tokenizer_are_joined(self):
        self.assertEqual(pieces.joined(["run", "##ny", "basalt"]), "runny basalt")
        self.assertEqual(pieces.joined(["▁run", "ny", "▁basalt"]), "runny basalt")
        self.assertEqual(pieces.joined(["Run", "ny", "Ġbasalt"]), "Runny basalt")
        self.assertEqual(pieces.joined([]), "")

    def test_a_context_has_neighbours_up_to_the_ends(self):
        words = [str(i) for i in range(10)]
        self.assertEqual(pieces.context(words, 0), "0 1 2 3")
        self.assertEqual(pieces.context(words, 5), "2 3 4 5 6 7 8")
        self.assertEqual(pieces.context(words, 9), "6 7 8 9")
        self.assertEqual(len(pieces.context(["a" * 1000] * 3, 1)), limits.MAX_CONTEXT_CHARS)


class FakeRanking(list):
    query_truncated, unavailable = False, 0


class FakeClient:
    """Answers with what it was made of."""

    def __init__(self, info=None, explanation=None, ids=()):
        self._info, self._explanation = info, explanation
        self._ranking = FakeRanking(types.SimpleNamespace(id=id, score=1.0, payload={}) for id in ids)

    async def info(self):
        return self._info

    async def explain(self, collection, query, id):
        return self._explanation

    async def rerank(self, collection, query, **options):
        return self._ranking


class IntegerIds(FakeClient):
    """Has only integer ids, and keeps the last one."""

    async def explain(self, collection, query, id):
        if not isinstance(id, int):
            raise InvalidArgument("candidates.ids: the ids are integers", field="candidates.ids")
        self.id = id
        return self._explanation


class ToolsTest(unittest.TestCase):
    def call(self, client, tool, **given):
        return asyncio.run(Tools(client, Settings(collection="docs")).call(tool, given))

    def test_list_keeps_to_its_limits(self):
        for more in (-1, 0, 1):
            info = pb.GetInfoResponse(version="1")
            for i in range(limits.MAX_COLLECTIONS + more):
                info.collections.add(name=f"c{i}", state=pb.COLLECTION_STATE_FAILED, error="e" * 1000)
            for i in range(limits.MAX_DECLARED_FIELDS + more):
                info.collections[0].fields.add(name=f"f{i}", kind=pb.FIELD_KIND_TIME)
            text, structured = self.call(FakeClient(info), "list")
            self.assertEqual(len(structured["collections"]), min(len(info.collections), limits.MAX_COLLECTIONS))
            self.assertEqual(structured.get("collections_left_out", 0), max(0, more))
            first = structured["collections"][0]
            self.assertEqual(first.get("fields_left_out", 0), max(0, more))
            self.assertEqual(first["fields"][0], {"name": "f0", "kind": "time"})
            self.assertEqual((first["state"], len(first["error"])), ("failed", limits.MAX_VALUE_CHARS))
            self.assertFalse(structured["takes_text"])
            self.assertEqual("more collections are not shown" in text, more > 0)

    def test_values_of_a_newer_server_are_shown_as_numbers(self):
        info = pb.GetInfoResponse()
        info.collections.add(name="c", state=77)
        self.assertEqual(self.call(FakeClient(info), "list").structured["collections"][0]["state"], "77")

    def test_integers_that_programs_round_are_strings_in_results(self):
        ids = [0, 2**53 - 1, 2**53, -(2**53) + 1, -(2**53), 2**63 - 1, "7"]
        shown = [0, 2**53 - 1, str(2**53), -(2**53) + 1, str(-(2**53)), str(2**63 - 1), "7"]
        _, structured = self.call(FakeClient(ids=ids), "search", query="a")
        self.assertEqual([one["id"] for one in structured["results"]], shown)

    def test_explain_takes_an_integer_id_as_a_string_of_its_digits(self):
        client = IntegerIds(explanation=maxsim.Explanation(1.0, np.eye(1, 3)))
        for id in (7, 2**53 + 1, -(2**63), 2**63 - 1):
            _, structured = self.call(client, "explain", query="a", id=str(id))
            self.assertEqual((client.id, structured["id"]), (id, str(id)))
        for id in ("x", "7x", "1.5", "+7", " 7", str(2**63), "1" * 30):
            with self.assertRaises(ToolError, msg=id) as raised:
                self.call(client, "explain", query="a", id=id)
            self.assertEqual(raised.exception.details["field"], "id")

    def test_explain_keeps_to_its_limit(self):
        for size in around(limits.MAX_MATCHES):
            explanation = maxsim.Explanation(1.0, np.eye(size, 3), ["q" * 1000] * size, ["d" * 1000] * 3)
            text, structured = self.call(FakeClient(explanation=explanation), "explain", query="a", id=7)
            matches = structured["matches"]
            self.assertEqual(len(matches), min(size, limits.MAX_MATCHES))
            self.assertEqual(structured.get("matches_left_out", 0), max(0, size - limits.MAX_MATCHES))
            self.assertEqual([one["document_position"] for one in matches[:4]], [0, 1, 2, 0])
            self.assertLess(len(json.dumps(structured)), limits.MAX_MATCHES * 1000)
            self.assertLess(len(text), limits.MAX_MATCHES * 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
