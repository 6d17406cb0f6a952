"""Runs the examples of docs/use/python.md and client/python/README.md. pages_model_test.py runs those that need a
model.

python pages_test.py FOLDER_OF_THE_PROGRAMS
"""

import pathlib
import re
import sys
import tempfile

import numpy as np

from client_fixture import TESTS, Maxsimd, RealServerTest, main

sys.path.insert(0, str(TESTS / "examples"))
from page_snippets import run_snippet, snippets  # noqa: E402
from programs import run  # noqa: E402

ROOT = TESTS.parent
PAGE = ROOT / "docs" / "use" / "python.md"
README = ROOT / "client" / "python" / "README.md"


class PagesTest(RealServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run(ROOT / "demo" / "build.sh", "--bin", cls.programs, "--output", cls.folder / "demo")
        cls.demo = Maxsimd(cls.programs, cls.folder / "demo-server", cls.folder / "demo")
        cls.addClassCleanup(cls.demo.stop)

    def test_the_page_prints_what_it_says(self):
        printed, written = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        first, *others = [code for code in snippets(PAGE) if "sentence_transformers" not in code]
        self.assertEqual(run_snippet(first, self.demo.address, ROOT), printed)
        asynchronous, live, stubs = others
        self.assertEqual(
            run_snippet(asynchronous, self.demo.address, ROOT),
            "['volcano-1', 'bread-1'] ['volcano-1', 'volcano-2', 'volcano-4']\n",
        )
        self.assertEqual(run_snippet(stubs, self.demo.address, ROOT), printed)
        self.assertEqual(run_snippet(live, self.live_server().address, ROOT), written)

    def live_server(self):
        """Starts a server that may create collections in a new folder."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "collections").mkdir()
        server = Maxsimd(self.programs, folder / "server", {}, **{"store.allowed_roots": folder / "collections"})
        self.addCleanup(server.stop)
        return server

    def test_the_readme_of_the_package_runs(self):
        """The page uses the collection "passages" with ids such as "17". The test replaces these by the collection
        "text" and its ids."""
        code = {
            name: next(one for one in snippets(README) if name in one)
            for name in (
                "passages.rerank(",
                "rerank_many",
                "create_collection",
                "AsyncClient",
                "rerank_stream",
                "token_matrix",
                "RerankerStub",
            )
        }
        np.save(self.folder / "query.npy", self.queries[1])
        replaced = {"passages": "text", "2041": "doc/041", '"17"': '"doc/017"', '"4"': '"doc/004"', '"9"': '"doc/009"'}
        begin = """
import numpy as np
from maxsim import Client
query = np.load("query.npy")
queries = [query, query[:3]]
client = Client("localhost:7070")
questions = [(query, ["17", "4"])] * 3
"""

        def printed(name, end="", wrap=lambda text: text):
            return run_snippet(begin + wrap(code[name]) + end, self.server.address, self.folder, **replaced)

        titles = re.findall(r"^(doc/\d+) \S+ Título \1$", printed("passages.rerank("), re.MULTILINE)
        self.assertEqual({*titles}, {"doc/017", "doc/004", "doc/041"})
        last = printed("rerank_many", "print([sorted(r.ids) for r in rankings])")
        self.assertEqual(last, "[['doc/004', 'doc/017'], ['doc/009', 'doc/041']]\n")

        wrote = code["create_collection"] + "print(ranking.ids, monday.payload, monday.tokens.shape == query.shape)"
        address = self.live_server().address
        self.assertEqual(
            run_snippet(begin + wrote, address, self.folder), "['monday', 'tuesday'] {'title': 'Monday'} True\n"
        )

        def in_loop(text):
            body = "".join(f"    {line}\n" for line in text.splitlines())
            return f"import asyncio\nasync def main():\n{body}    print(len(ranking))\nasyncio.run(main())\n"

        self.assertEqual(printed("AsyncClient", wrap=in_loop), "3\n")
        self.assertEqual(len(printed("rerank_stream").splitlines()), 3)
        self.assertEqual(printed("token_matrix", "print(len(response.results[0].scores))"), "3\n")
        self.assertEqual(len(printed("RerankerStub").splitlines()), 5)


if __name__ == "__main__":
    main()
