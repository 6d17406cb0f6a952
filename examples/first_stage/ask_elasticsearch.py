"""Elasticsearch finds candidates by BM25, and maxsimd ranks them: called by an inference endpoint, or by this program.

    pip install ./client/python
    python examples/first_stage/ask_elasticsearch.py --elasticsearch http://localhost:9200 --skip-validation

A server of `make serve TEXT=1` is running. Elasticsearch calls maxsimd at --url, for which it needs an Enterprise or
trial licence. With --program-only, only this program calls maxsimd. Every licence allows that, and the server needs no
encoder. The program creates an index and an inference endpoint, and removes them at its end.

Without --skip-validation, Elasticsearch refuses an endpoint for the bundled collection. With it, no endpoint of the
whole cluster is validated for a moment, so do not use it in production: recorded/README.md says what to do there.
"""

import contextlib

from maxsim import Client

from first_stage import RESULTS, add_engine_options, argument_parser, read_data, report
from rest import RestClient, ids_of, load_documents

INDEX = "maxsim-documents"
ENDPOINT = "/_inference/rerank/maxsimd"
SKIP_VALIDATION = "xpack.inference.skip_validate_and_start"


def endpoint(options):
    """Returns the inference endpoint that sends the question and one field of all hits to maxsimd."""
    return {
        "service": "custom",
        "service_settings": {
            "url": f"{options.url}/v1/rerank",
            "headers": {"Content-Type": "application/json"},
            "request": f'{{"model": "{options.collection}", "query": ${{query}}, "documents": ${{input}}}}',
            "response": {
                "json_parser": {
                    "relevance_score": "$.results[*].relevance_score",
                    "reranked_index": "$.results[*].index",
                }
            },
        },
    }


def create_endpoint(elasticsearch, options):
    """Creates the inference endpoint. Elasticsearch first asks it for the score of the document "how big", and refuses
    to create it if maxsimd has no document with this id, unless options.skip_validation switches that off."""
    if not options.skip_validation:
        elasticsearch.call("PUT", ENDPOINT, endpoint(options))
        return
    elasticsearch.call("PUT", "/_cluster/settings", {"persistent": {SKIP_VALIDATION: True}})
    try:
        elasticsearch.call("PUT", ENDPOINT, endpoint(options))
    finally:
        elasticsearch.call("PUT", "/_cluster/settings", {"persistent": {SKIP_VALIDATION: None}})


def main():
    parser = argument_parser(__doc__)
    add_engine_options(parser, "Elasticsearch")
    parser.add_argument("--elasticsearch", default="http://localhost:9200", help="its URL (default: %(default)s)")
    parser.add_argument("--authorization", help="header Authorization for Elasticsearch, such as 'ApiKey ...'")
    parser.add_argument("--skip-validation", action="store_true", help="create the endpoint without testing it")
    options = parser.parse_args()
    data = read_data(options.data)

    with (
        RestClient(options.elasticsearch, options.authorization) as elasticsearch,
        Client(options.server) as client,
        contextlib.ExitStack() as cleanup,
    ):
        load_documents(elasticsearch, INDEX, data, cleanup)

        def ask(retriever, size):
            body = {"size": size, "_source": ["id"], "retriever": retriever}
            return ids_of(elasticsearch.call("POST", f"/{INDEX}/_search", body))

        def bm25(question):
            return {"standard": {"query": {"match": {"text": question.text}}}}

        def search(question, limit):
            return ask(bm25(question), limit)

        def by_endpoint(question, _):
            reranker = {
                "retriever": bm25(question),
                "inference_id": ENDPOINT.rpartition("/")[2],
                "inference_text": question.text,
                "field": "id",
                "rank_window_size": options.candidates,
            }
            return ask({"text_similarity_reranker": reranker}, RESULTS)

        def rerank(question, ids):
            return [document.id for document in client.rerank(options.collection, question.tokens, ids, top_k=RESULTS)]

        rerankers = {"then maxsimd": rerank}
        if not options.program_only:
            create_endpoint(elasticsearch, options)
            cleanup.callback(elasticsearch.call, "DELETE", ENDPOINT)
            rerankers["Elasticsearch calls maxsimd"] = by_endpoint
        report(data, options.candidates, ("elasticsearch, BM25", search), rerankers)


if __name__ == "__main__":
    main()
