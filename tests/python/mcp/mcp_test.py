"""Tests maxsim-mcp as an assistant uses it, with a real maxsimd and a real maxsim-encoder with the bundled model.

python mcp_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import tempfile
import unittest

from mcp import MCPError

from mcp_fixture import PROGRAMS, SessionTest

import maxsim
from maxsim_mcp import limits
from programs import ROOT, Encoder, Maxsimd, run

QUESTION = "Why do volcanoes explode?"
# "legacy" is the handshake of MCP before 2026, which most assistants use.
MODES = ("auto", "legacy")


def build_topics(folder):
    """Builds a collection of the bundled passages with a field `topic`. The payload of one passage is enormous."""
    lines = []
    for line in (ROOT / "demo" / "passages.jsonl").read_text(encoding="utf-8").splitlines():
        passage = json.loads(line)
        del passage["tokens"]
        passage["topic"] = passage["id"].split("-")[0]
        if passage["id"] == "volcano-1":
            passage.update({f"member{i}": "long " * 1000 for i in range(100)}, text="lava " * 20000)
        lines.append(json.dumps(passage))
    (folder / "docs.jsonl").write_text("\n".join(lines) + "\n")
    command = [PROGRAMS / "maxsim-shard", "build", "--quiet", "--name", "topics", "--output", folder / "topics"]
    command += ["--tokens", ROOT / "demo" / "tokens.npy", "--lengths", ROOT / "demo" / "lengths.npy"]
    run(*command, "--ids", folder / "docs.jsonl", "--fields", "topic:keyword")
    return folder / "topics"


class McpTest(SessionTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="maxsim-mcp-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.encoder = Encoder()
        cls.addClassCleanup(cls.encoder.stop)
        url = f"http://127.0.0.1:{cls.encoder.port}"
        cls.server = Maxsimd(PROGRAMS, encoder__url=url, collection=f"topics={build_topics(cls.folder)}")
        cls.addClassCleanup(cls.server.stop)

    def test_the_tools_state_their_limits(self):
        for mode in MODES:
            listed = self.session(lambda client: client.list_tools(), mode=mode)
            tools = {tool.name: tool for tool in listed.tools}
            self.assertEqual(set(tools), {"search", "explain", "list"})
            search = tools["search"].input_schema
            self.assertEqual(search["required"], ["query", "collection"])
            self.assertEqual(search["properties"]["top_k"]["maximum"], limits.MAX_TOP_K)
            self.assertEqual(search["properties"]["max_text_chars"]["maximum"], limits.MAX_TEXT_CHARS)
            self.assertEqual(search["properties"]["query"]["maxLength"], limits.MAX_QUERY_CHARS)
            for tool in tools.values():
                self.assertTrue(tool.annotations.read_only_hint)
                self.assertEqual(tool.output_schema["type"], "object")

    def test_search_returns_what_the_client_returns_as_text_and_as_data(self):
        with maxsim.Client(self.server.address) as client:
            wanted = client.rerank("demo", QUESTION, top_k=3, payloads=True)

        async def work(client):
            await client.list_tools()
            return await client.call_tool("search", {"query": QUESTION, "collection": "demo", "top_k": 3})

        for mode in MODES:
            result = self.session(work, mode=mode)
            results = result.structured_content["results"]
            self.assertEqual([one["id"] for one in results], wanted.ids)
            self.assertEqual([one["score"] for one in results], [one.score for one in wanted])
            self.assertEqual([one["rank"] for one in results], [1, 2, 3])
            text = result.content[0].text
            for document, one in zip(wanted, results):
                self.assertEqual((one["title"], one["text"]), (document.payload["title"], document.payload["text"]))
                self.assertNotIn("fields_left_out", one)
                self.assertIn(f"{one['rank']}. {one['title']} (id {one['id']}, score {one['score']:.4f})", text)
                self.assertIn(one["text"], text)
        self.assertEqual(wanted.ids[0], "volcano-1")

    def test_a_filter_and_the_default_collection(self):
        text, structured = self.found("search", "--collection", "topics", query=QUESTION, filter='topic = "bees"')
        self.assertEqual(structured["collection"], "topics")
        self.assertEqual({one["fields"]["topic"] for one in structured["results"]}, {"bees"})
        self.assertEqual(len(structured["results"]), limits.DEFAULT_TOP_K)
        self.assertIn("topic: bees", text)
        text, structured = self.found("search", query=QUESTION, collection="topics", filter='topic = "none"')
        self.assertEqual((text, structured["results"]), ("No document of topics matches.", []))

    def test_an_enormous_payload_makes_no_enormous_answer(self):
        ask = {"query": QUESTION, "collection": "topics", "filter": 'topic = "volcano"', "top_k": limits.MAX_TOP_K}
        text, structured = self.found("search", **ask, max_text_chars=limits.MAX_TEXT_CHARS)
        (large,) = (one for one in structured["results"] if one["id"] == "volcano-1")
        self.assertEqual(len(large["text"]), limits.MAX_TEXT_CHARS)
        self.assertTrue(large["text_cut"])
        self.assertGreater(large["fields_left_out"], 80)
        most = limits.MAX_TEXT_CHARS + limits.MAX_FIELDS_CHARS + limits.MAX_VALUE_CHARS + 500
        self.assertLess(len(json.dumps(large)), most)
        self.assertLess(len(text), most * len(structured["results"]))
        _, structured = self.found("search", **ask, max_text_chars=0)
        self.assertFalse([one for one in structured["results"] if "text" in one])
        _, structured = self.found("search", "--payload-fields", "title,text", "--text-key", "title", **ask)
        (large,) = (one for one in structured["results"] if one["id"] == "volcano-1")
        self.assertEqual((large["text"], [*large.get("fields", {})]), ("Why some eruptions are violent", ["text"]))

    def test_explain_names_the_best_document_token_of_each_query_token(self):
        with maxsim.Client(self.server.address) as client:
            wanted = client.explain("demo", QUESTION, "volcano-1")
        text, structured = self.found("explain", query=QUESTION, collection="demo", id="volcano-1")
        matches = structured["matches"]
        self.assertEqual([one["document_position"] for one in matches], wanted.matches.tolist())
        self.assertEqual([one["query_token"] for one in matches], wanted.query_tokens)
        self.assertAlmostEqual(sum(one["similarity"] for one in matches), structured["score"], places=9)
        (explodes,) = (one for one in matches if one["query_token"] == "explode")
        self.assertEqual(explodes["document_token"], "explodes")
        self.assertEqual(explodes["context"], "and the mountain explodes")
        self.assertIn('explodes  in "and the mountain explodes"', text)
        # Documents of this collection do not name their tokens.
        text, structured = self.found("explain", query=QUESTION, collection="topics", id="volcano-1")
        self.assertNotIn("document_token", structured["matches"][0])
        self.assertIn(f"document token {wanted.matches[-1]}", text)

    def test_explain_leaves_out_query_tokens_above_its_limit(self):
        words = " ".join(["lava"] * (limits.MAX_MATCHES + 10))
        text, structured = self.found("explain", query=words, collection="demo", id="volcano-1")
        self.assertEqual(len(structured["matches"]), limits.MAX_MATCHES)
        left_out = structured["num_query_tokens"] - limits.MAX_MATCHES
        self.assertEqual(structured["matches_left_out"], left_out)
        self.assertGreaterEqual(left_out, 10)
        self.assertIn(f"{left_out} more query tokens are not shown", text)

    def test_list_has_the_collections_with_their_sizes_and_fields(self):
        text, structured = self.found("list")
        self.assertTrue(structured["takes_text"])
        named = {one["name"]: one for one in structured["collections"]}
        self.assertEqual(set(named), {"demo", "topics"})
        demo = named["demo"]
        wanted = (150, 9038, 128, 9038 * 128 * 2, "ready", False)
        names = ("num_documents", "num_vectors", "dim", "vector_bytes", "state", "live")
        self.assertEqual(tuple(demo[name] for name in names), wanted)
        self.assertEqual(named["topics"]["fields"], [{"name": "topic", "kind": "keyword"}])
        self.assertIn("- demo: 150 documents, 9038 vectors of 128 values", text)
        self.assertIn("fields for filters: topic (keyword)", text)

    def test_arguments_beyond_the_schema_are_refused_by_name(self):
        right = {"query": QUESTION, "collection": "demo"}
        cases = (
            ({"top_k": limits.MAX_TOP_K + 1}, "top_k", "LIMIT_EXCEEDED", limits.MAX_TOP_K),
            ({"top_k": 0}, "top_k", "INVALID_FIELD", None),
            ({"top_k": "5"}, "top_k", "INVALID_FIELD", None),
            ({"top_k": True}, "top_k", "INVALID_FIELD", None),
            ({"max_text_chars": limits.MAX_TEXT_CHARS + 1}, "max_text_chars", "LIMIT_EXCEEDED", limits.MAX_TEXT_CHARS),
            ({"query": "a" * (limits.MAX_QUERY_CHARS + 1)}, "query", "LIMIT_EXCEEDED", limits.MAX_QUERY_CHARS),
            ({"query": ""}, "query", "INVALID_FIELD", None),
            ({"query": 7}, "query", "INVALID_FIELD", None),
            ({"collection": None}, "collection", "INVALID_FIELD", None),
            ({"limit": 5}, "limit", "INVALID_FIELD", None),
        )
        results = self.results([("search", {**right, **wrong}) for wrong, *_ in cases])
        for (wrong, field, reason, limit), result in zip(cases, results):
            with self.subTest(wrong=str(wrong)[:60]):
                error = self.failed(result)
                self.assertEqual((error["code"], error["field"]), ("INVALID_ARGUMENT", field))
                self.assertEqual((error["reason"], error.get("limit")), (reason, limit))
        for result in self.results([("explain", {**right, "id": wrong}) for wrong in (1.5, True, "", 2**63, ["a"])]):
            self.assertEqual(self.failed(result)["field"], "id")

    def test_the_largest_arguments_are_accepted(self):
        query = "lava " * (limits.MAX_QUERY_CHARS // 5)
        self.assertEqual(len(query), limits.MAX_QUERY_CHARS)
        largest = {"top_k": limits.MAX_TOP_K, "max_text_chars": limits.MAX_TEXT_CHARS, "filter": None}
        _, structured = self.found("search", query=query, collection="demo", **largest)
        self.assertEqual(len(structured["results"]), limits.MAX_TOP_K)
        self.assertTrue(structured["query_truncated"])

    def test_errors_of_the_server_name_the_tools_arguments(self):
        cases = (
            ("search", {"collection": "nowhere"}, "NOT_FOUND", "collection", "INVALID_FIELD"),
            ("search", {"filter": "topic = = 3"}, "INVALID_ARGUMENT", "filter", "INVALID_FIELD"),
            ("search", {"filter": "author = 3"}, "INVALID_ARGUMENT", "filter", "INVALID_FIELD"),
            ("search", {"query": "  "}, "INVALID_ARGUMENT", "query", "INVALID_FIELD"),
            ("explain", {"id": "nowhere"}, "NOT_FOUND", "id", "UNKNOWN_IDS"),
            ("explain", {"id": 7}, "INVALID_ARGUMENT", "id", "INVALID_FIELD"),
        )
        right = {"query": QUESTION, "collection": "topics"}
        *results, last = self.results([*((tool, {**right, **wrong}) for tool, wrong, *_ in cases), ("search", right)])
        for (_, wrong, *wanted), result in zip(cases, results):
            with self.subTest(wrong=wrong):
                error = self.failed(result)
                self.assertEqual([error["code"], error["field"], error["reason"]], wanted)
        self.succeeded(last)

    def test_an_unknown_tool_is_an_error_of_the_protocol(self):
        async def work(client):
            with self.assertRaisesRegex(MCPError, "there is no tool 'delete'; there are search, explain, list"):
                await client.call_tool("delete", {})

        self.session(work)


if __name__ == "__main__":
    unittest.main(verbosity=2)
