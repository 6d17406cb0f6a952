"""Milvus finds candidates by BM25, and maxsimd ranks them: called by Milvus itself, or by this program.

    pip install pymilvus milvus-lite ./client/python
    python examples/first_stage/ask_milvus.py           # a server of `make serve TEXT=1` is running

The program runs Milvus Lite, which is Milvus in this process, with its files in a temporary folder. --milvus names a
Milvus server instead, whose milvus.yaml must name maxsimd as the provider "cohere" (recorded/README.md); the program
removes its collection from that server at its end. With --program-only, only this program calls maxsimd, and the server
of maxsimd needs no encoder.
"""

import contextlib
import pathlib
import tempfile

from maxsim import Client
from pymilvus import DataType, Function, FunctionType, MilvusClient

from first_stage import RESULTS, add_engine_options, argument_parser, read_data, report

COLLECTION = "maxsim_documents"


def build_index(milvus, data, cleanup):
    """Loads the documents into a new collection. `cleanup`, an ExitStack, removes it at its end."""
    if milvus.has_collection(COLLECTION):
        raise RuntimeError(f"Milvus already has a collection {COLLECTION}")
    schema = milvus.create_schema()
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=256)
    # Milvus sends this field to maxsimd. It is the id again, because Milvus Lite sends null instead of a primary key.
    schema.add_field("document", DataType.VARCHAR, max_length=256)
    schema.add_field("text", DataType.VARCHAR, max_length=65535, enable_analyzer=True)
    schema.add_field("words", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_function(Function("bm25", FunctionType.BM25, ["text"], ["words"]))
    index = milvus.prepare_index_params()
    index.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    milvus.create_collection(COLLECTION, schema=schema, index_params=index, consistency_level="Strong")
    cleanup.callback(milvus.drop_collection, COLLECTION)
    milvus.insert(COLLECTION, [{"id": id, "document": id, "text": text} for id, text in zip(data.ids, data.texts)])
    milvus.load_collection(COLLECTION)


def model_ranker(question, options):
    """Returns the ranker that makes Milvus send the question's text and the candidates' ids to maxsimd."""
    params = {"reranker": "model", "provider": "cohere", "model_name": options.collection, "queries": [question.text]}
    if options.milvus:
        params["max_client_batch_size"] = options.candidates  # all candidates in one call
    else:
        # Milvus requires a key. maxsimd ignores it unless auth.tokens_file is set.
        params.update(base_url=f"{options.url}/v2", api_key="unused")
    return Function("maxsimd", FunctionType.RERANK, ["document"], params=params)


def main():
    parser = argument_parser(__doc__)
    add_engine_options(parser, "Milvus")
    parser.add_argument("--milvus", help="URL of a Milvus server (default: Milvus Lite)")
    parser.set_defaults(candidates=10 * RESULTS)
    options = parser.parse_args()
    data = read_data(options.data)

    with (
        tempfile.TemporaryDirectory() as folder,
        Client(options.server) as client,
        contextlib.ExitStack() as cleanup,
    ):
        milvus = MilvusClient(options.milvus or str(pathlib.Path(folder) / "milvus.db"))
        cleanup.callback(milvus.close)
        build_index(milvus, data, cleanup)

        def ask(question, limit, **ranker):
            found = milvus.search(
                COLLECTION, [question.text], anns_field="words", limit=limit, output_fields=["id"], **ranker
            )
            return [hit["id"] for hit in found[0]]

        def by_milvus(question, _):
            # Milvus sends as many candidates as `limit` to a ranker, Milvus Lite ten times as many.
            limit = options.candidates if options.milvus else RESULTS
            return ask(question, limit, ranker=model_ranker(question, options))[:RESULTS]

        def rerank(question, ids):
            return [document.id for document in client.rerank(options.collection, question.tokens, ids, top_k=RESULTS)]

        rerankers = {"then maxsimd": rerank}
        if not options.program_only:
            rerankers["Milvus calls maxsimd"] = by_milvus
        report(data, options.candidates, ("milvus, BM25", ask), rerankers)


if __name__ == "__main__":
    main()
