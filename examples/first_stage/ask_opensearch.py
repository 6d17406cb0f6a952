"""OpenSearch finds candidates by BM25, and maxsimd ranks them: called by a search pipeline, or by this program.

    pip install ./client/python
    python examples/first_stage/ask_opensearch.py --opensearch http://localhost:9200 --url http://localhost:7071

A server of `make serve TEXT=1` is running. OpenSearch calls maxsimd at --url. With --program-only, only this program
calls maxsimd, and the server needs no encoder. The program creates an index, a connector, a model and a pipeline, and
removes them at its end. While it runs, connectors of this cluster can call only maxsimd, because it replaces two
cluster settings that say which addresses are allowed. At its end, it sets them as they were.
"""

import contextlib
import re
import time

from maxsim import Client

from first_stage import RESULTS, add_engine_options, argument_parser, read_data, report
from rest import RestClient, ids_of, load_documents

INDEX = "maxsim-documents"
PIPELINE = "maxsim-rerank"
DEPLOY_LIMIT_S = 60


def create_pipeline(opensearch, options, cleanup):
    """Creates a search pipeline that sends the question and the field `id` of all hits to maxsimd. `cleanup`, an
    ExitStack, removes it at its end."""
    settings = {
        "plugins.ml_commons.connector.private_ip_enabled": True,
        "plugins.ml_commons.trusted_connector_endpoints_regex": [f"^{re.escape(options.url)}/.*$"],
    }
    before = opensearch.call("GET", "/_cluster/settings?flat_settings=true")["persistent"]
    before = {name: before.get(name) for name in settings}  # null removes a setting
    cleanup.callback(opensearch.call, "PUT", "/_cluster/settings", {"persistent": before})
    opensearch.call("PUT", "/_cluster/settings", {"persistent": settings})

    body = ", ".join(
        f'"{member}": {value}'
        for member, value in (
            ("documents", "${parameters.documents}"),
            ("query", '"${parameters.query}"'),
            ("model", '"${parameters.collection}"'),
            ("top_n", "${parameters.top_n}"),
        )
    )
    connector = {
        "name": "maxsimd",
        "version": "1",
        "protocol": "http",
        "description": "MaxSim of stored vectors",
        "parameters": {"collection": options.collection},
        "actions": [
            {
                "action_type": "predict",
                "method": "POST",
                "url": f"{options.url}/v1/rerank",
                "request_body": "{ " + body + " }",
                "pre_process_function": "connector.pre_process.cohere.rerank",
                "post_process_function": "connector.post_process.cohere.rerank",
            }
        ],
    }
    connector_id = opensearch.call("POST", "/_plugins/_ml/connectors/_create", connector)["connector_id"]
    cleanup.callback(opensearch.call, "DELETE", f"/_plugins/_ml/connectors/{connector_id}")

    model = {"name": "maxsimd", "function_name": "remote", "connector_id": connector_id}
    model_id = opensearch.call("POST", "/_plugins/_ml/models/_register?deploy=true", model)["model_id"]
    model_path = f"/_plugins/_ml/models/{model_id}"
    cleanup.callback(opensearch.call, "DELETE", model_path)
    cleanup.callback(opensearch.call, "POST", f"{model_path}/_undeploy")
    limit = time.monotonic() + DEPLOY_LIMIT_S
    while (state := opensearch.call("GET", model_path)["model_state"]) != "DEPLOYED":
        if state == "DEPLOY_FAILED" or time.monotonic() > limit:
            raise RuntimeError(f"the model is not deployed: {state}")
        time.sleep(0.1)

    rerank = {"ml_opensearch": {"model_id": model_id}, "context": {"document_fields": ["id"]}}
    opensearch.call("PUT", f"/_search/pipeline/{PIPELINE}", {"response_processors": [{"rerank": rerank}]})
    cleanup.callback(opensearch.call, "DELETE", f"/_search/pipeline/{PIPELINE}")


def main():
    parser = argument_parser(__doc__)
    add_engine_options(parser, "OpenSearch")
    parser.add_argument("--opensearch", default="http://localhost:9200", help="its URL (default: %(default)s)")
    parser.add_argument("--authorization", help="header Authorization for OpenSearch, such as 'Basic ...'")
    options = parser.parse_args()
    data = read_data(options.data)

    with (
        RestClient(options.opensearch, options.authorization) as opensearch,
        Client(options.server) as client,
        contextlib.ExitStack() as cleanup,
    ):
        load_documents(opensearch, INDEX, data, cleanup)

        def search(question, limit, pipeline=None):
            body = {"size": limit, "_source": ["id"], "query": {"match": {"text": question.text}}}
            path = f"/{INDEX}/_search"
            if pipeline:
                path += f"?search_pipeline={pipeline}"
                body["ext"] = {"rerank": {"query_context": {"query_text": question.text}}}
            return ids_of(opensearch.call("POST", path, body))

        def by_pipeline(question, _):
            # The pipeline ranks all hits, and returns all of them.
            return search(question, options.candidates, PIPELINE)[:RESULTS]

        def rerank(question, ids):
            return [document.id for document in client.rerank(options.collection, question.tokens, ids, top_k=RESULTS)]

        rerankers = {"then maxsimd": rerank}
        if not options.program_only:
            create_pipeline(opensearch, options, cleanup)
            rerankers["OpenSearch calls maxsimd"] = by_pipeline
        report(data, options.candidates, ("opensearch, BM25", search), rerankers)


if __name__ == "__main__":
    main()
