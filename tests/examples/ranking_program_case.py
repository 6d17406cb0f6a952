"""A base for tests of the programs in examples/first_stage."""

import base64
import json
import os
import re
import sys
import unittest

import numpy as np

from programs import ROOT, run

EXAMPLES = ROOT / "examples" / "first_stage"
sys.path[:0] = [str(EXAMPLES), str(ROOT / "tests" / "support")]

from python_package import PYTHON_CLIENT, use_package  # noqa: E402

TIE = 0.0001  # of nDCG, which is printed with four digits
# The worst document for the first question, a better one and the best.
IDS = ["bread-1", "volcano-2", "volcano-1"]
# If a shell, SQL or COPY interpreted these ids, they would end or replace the command, or change its answer.
HOSTILE = ["'", "'; exit 7; '", "$(exit 7)", "`exit 7`", '"', "\\", "\\n", "\t", "\n", "%s", "\\x01", "\u00e9"]


def matrices(tokens, lengths):
    """Returns a [tokens, dim] array for each text of demo/."""
    return np.split(np.load(ROOT / "demo" / tokens), np.cumsum(np.load(ROOT / "demo" / lengths))[:-1])


def expected_scores(query, ids):
    """Returns the FP64 MaxSim of a query with each document of demo/ in `ids`."""
    names = [json.loads(line)["id"] for line in (ROOT / "demo" / "passages.jsonl").read_text().splitlines()]
    documents = dict(zip(names, matrices("tokens.npy", "lengths.npy")))
    return [(query.astype(float) @ documents[id].T.astype(float)).max(axis=1).sum() for id in ids]


class ProgramTest(unittest.TestCase):
    def table(self, program, *options):
        """Runs a program. Returns (nDCG@10, median milliseconds) by name, for each line of the table that it prints."""
        use_package()
        environment = dict(os.environ, PYTHONPATH=str(PYTHON_CLIENT))
        self.printed = run(sys.executable, EXAMPLES / program, "--data", ROOT / "demo", *options, env=environment)
        print(f"{program}\n{self.printed}", flush=True)
        lines = re.findall(r"^(\S.*?) +(\d\.\d{4}) +(\d+\.\d\d)$", self.printed, re.MULTILINE)
        for _, _, milliseconds in lines:
            self.assertGreater(float(milliseconds), 0)
        return {name: (float(quality), float(milliseconds)) for name, quality, milliseconds in lines}

    def check_postgresql(self, file, first, options):
        """Runs ask_postgresql.py. Checks which function it used, and that both ways to call maxsimd improve the ranking
        equally."""
        table = self.table("ask_postgresql.py", *options)
        self.assertEqual(self.printed.splitlines()[0], f"postgresql/{file}")
        self.assertEqual(set(table), {first, "then maxsimd", "both in one statement"})
        self.assertGreater(table["then maxsimd"][0], table[first][0])
        self.assertEqual(table["both in one statement"][0], table["then maxsimd"][0])

    def check_function(self, postgresql, file, url):
        """Creates maxsim_rerank from a file, and checks its answers and errors. Creating it fails if ask_postgresql.py
        left this function in the database."""
        import psycopg

        tokens = matrices("query_tokens.npy", "query_lengths.npy")[0]
        query = {"dtype": "f16", "shape": tokens.shape, "data": base64.b64encode(tokens.tobytes()).decode()}
        with psycopg.connect(postgresql.database, autocommit=True) as connection:

            def rerank(query, ids, *further):
                places = ", ".join(["%s"] * (2 + len(further)))
                arguments = [json.dumps(query), ids, *further]
                return connection.execute(f"SELECT * FROM maxsim_rerank({places})", arguments).fetchall()

            found = connection.execute("SELECT 1 FROM pg_proc WHERE proname = 'maxsim_rerank'").fetchall()
            self.assertEqual(found, [])
            connection.execute("SELECT set_config('maxsim.url', %s, false)", [url])
            if file == "maxsim_rerank.sql":
                connection.execute("CREATE EXTENSION plpython3u")
            connection.execute((EXAMPLES / "postgresql" / file).read_text())

            ranking = rerank(query, IDS)
            self.assertEqual([id for id, _ in ranking], IDS[::-1])
            np.testing.assert_allclose([score for _, score in ranking], expected_scores(tokens, IDS[::-1]), atol=0.001)
            self.assertEqual(rerank(tokens.tolist(), IDS)[0][0], IDS[-1])
            self.assertEqual(len(rerank(query, IDS, 2)), 2)
            self.assertEqual(rerank(query, [*HOSTILE, *IDS], 10, "demo"), ranking)
            self.assertEqual(rerank(query, []), [])
            self.assertEqual(rerank(query, None), [])
            with self.assertRaisesRegex(psycopg.Error, "maxsimd: .*dim"):
                rerank([[1.0, 2.0]], IDS)
            with self.assertRaisesRegex(psycopg.Error, "maxsimd: .*no-such"):
                rerank(query, IDS, 10, "no-such")
            # A caller cannot change the URL, and needs the right to call the function.
            connection.execute("SET maxsim.url = 'http://127.0.0.1:1'")
            self.assertEqual(rerank(query, IDS), ranking)
            connection.execute("CREATE ROLE reader")
            connection.execute("SET ROLE reader")
            with self.assertRaises(psycopg.errors.InsufficientPrivilege):
                rerank(query, IDS)
            connection.execute("RESET ROLE")
            connection.execute("GRANT EXECUTE ON FUNCTION maxsim_rerank TO reader")
            connection.execute("SET ROLE reader")
            self.assertEqual(rerank(query, IDS), ranking)
        # The function must work with any settings of its caller. The answer contains a euro sign, which the client's
        # encoding affects.
        with psycopg.connect(postgresql.database, options="-c standard_conforming_strings=off") as connection:
            connection.execute("SET ROLE reader")
            connection.execute("SET client_encoding = 'EUC_KR'")
            statement = "SELECT * FROM maxsim_rerank(%s, %s::text[] || chr(8364))"
            self.assertEqual(connection.execute(statement, [json.dumps(query), [*HOSTILE[:-1], *IDS]]).fetchall(), ranking)

    def check_statement_of_page(self, postgresql):
        """Runs the statement of docs/use/first-stage.md, which ranks by a text. maxsimd must have an encoder, and
        PostgreSQL the extension pgvector."""
        import psycopg

        page = (ROOT / "docs" / "use" / "first-stage.md").read_text()
        (statement,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
        with psycopg.connect(postgresql.database) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("CREATE TABLE documents (id text, title text, embedding vector(2))")
            # volcano-2 is the farthest of these 101 documents from [1, 0]. maxsimd does not know the ids none-0 to
            # none-97.
            rows = [("bread-1", "[1, 0]"), ("volcano-1", "[1, 1]"), *((f"none-{i}", "[1, 2]") for i in range(98))]
            rows.append(("volcano-2", "[0, 1]"))
            connection.cursor().executemany("INSERT INTO documents VALUES (%s, 'a title', %s)", rows)
            answer = connection.execute(statement.replace("%", "%%").replace("$1", "%s::vector"), ["[1, 0]"]).fetchall()
        self.assertEqual([row[:2] for row in answer], [("volcano-1", "a title"), ("bread-1", "a title")])
