"""PostgreSQL finds candidates by full-text search or with pgvector, and maxsimd ranks them, called by an SQL function.

    pip install 'psycopg[binary]' ./client/python
    python examples/first_stage/ask_postgresql.py --database 'dbname=postgres user=postgres'

A server of `make serve` is running. The database's role must be a superuser, because it creates an untrusted function.
The program does all its work in one transaction and rolls it back, so the database stays as it was.
"""

import base64
import pathlib

import psycopg
from psycopg.types.json import Jsonb

from first_stage import RESULTS, argument_parser, read_data, report

FUNCTIONS = pathlib.Path(__file__).parent / "postgresql"

TABLE = """
CREATE TEMPORARY TABLE documents (
  id text PRIMARY KEY,
  text text,
  words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED
);
CREATE INDEX ON documents USING gin (words);
"""

# A document is a candidate if it contains any word of the question.
BY_TEXT = """
SELECT id
FROM documents, to_tsquery('english', replace(plainto_tsquery('simple', %(text)s)::text, '&', '|')) AS question
WHERE words @@ question ORDER BY ts_rank(words, question, 1) DESC, id LIMIT %(candidates)s
"""

# One vector per document. For a large table, add `CREATE INDEX ON documents USING hnsw (pooled vector_cosine_ops)`.
BY_VECTOR = "SELECT id FROM documents ORDER BY pooled <=> %(pooled)s::vector, id LIMIT %(candidates)s"

RERANK = "SELECT id FROM maxsim_rerank(%(tokens)s, %(ids)s, %(results)s, %(collection)s)"

# Both stages in one statement.
BOTH = "SELECT id FROM maxsim_rerank(%(tokens)s, ARRAY({first_stage}), %(results)s, %(collection)s)"


def create_function(cursor, url):
    """Creates maxsim_rerank: in PL/Python if PostgreSQL has it, otherwise with curl."""
    cursor.execute("SELECT set_config('maxsim.url', %s, false)", [url])
    cursor.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'plpython3u'")
    if cursor.fetchone() == (1,):
        cursor.execute("CREATE EXTENSION IF NOT EXISTS plpython3u")
        file = "maxsim_rerank.sql"
    else:
        file = "maxsim_rerank_curl.sql"
    cursor.execute((FUNCTIONS / file).read_text())
    return file


def create_table(cursor, data, vectors):
    cursor.execute(TABLE)
    cursor.executemany("INSERT INTO documents (id, text) VALUES (%s, %s)", list(zip(data.ids, data.texts)))
    if vectors:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        cursor.execute(f"ALTER TABLE documents ADD pooled vector({data.pooled.shape[1]})")
        rows = [(str(vector.tolist()), id) for id, vector in zip(data.ids, data.pooled)]
        cursor.executemany("UPDATE documents SET pooled = %s WHERE id = %s", rows)
    cursor.execute("ANALYZE documents")


def as_json(tokens):
    """Returns a float16 matrix in the form that takes the fewest bytes."""
    data = base64.b64encode(tokens.astype("<f2").tobytes()).decode()
    return Jsonb({"dtype": "f16", "shape": list(tokens.shape), "data": data})


def main():
    parser = argument_parser(__doc__, http=True)
    parser.add_argument("--database", default="", help="libpq's connection string (default: libpq's defaults)")
    choices = ["text", "vectors"]
    parser.add_argument("--by", choices=choices, default="text", help="vectors: with pgvector (default: %(default)s)")
    options = parser.parse_args()
    data = read_data(options.data)
    first_stage = BY_VECTOR if options.by == "vectors" else BY_TEXT

    with psycopg.connect(options.database) as connection, connection.cursor() as cursor:
        print(f"postgresql/{create_function(cursor, options.url)}")
        create_table(cursor, data, options.by == "vectors")

        def ask(statement, question, **parameters):
            pooled = str(question.pooled.tolist())
            tokens = as_json(question.tokens)
            common = {"text": question.text, "pooled": pooled, "tokens": tokens, "results": RESULTS}
            cursor.execute(statement, {**common, "collection": options.collection, **parameters})
            return [id for (id,) in cursor]

        def search(question, limit):
            return ask(first_stage, question, candidates=limit)

        def rerank(question, ids):
            return ask(RERANK, question, ids=ids)

        def both(question, _):
            return ask(BOTH.format(first_stage=first_stage), question, candidates=options.candidates)

        name = "pgvector" if options.by == "vectors" else "postgresql, full text"
        report(data, options.candidates, (name, search), {"then maxsimd": rerank, "both in one statement": both})
        connection.rollback()


if __name__ == "__main__":
    main()
