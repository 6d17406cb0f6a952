"""Vespa finds candidates by BM25, and this program sends their ids to maxsimd, which ranks them.

    pip install ./client/python
    vespa deploy examples/first_stage/vespa
    python examples/first_stage/ask_vespa.py --vespa http://localhost:8080

A server of `make serve` is running. Vespa's ranking phases cannot call another service, so the program that asks Vespa
also calls maxsimd. If Vespa is to call maxsimd itself, write a Searcher in Java that does the same
(recorded/README.md). The documents stay in Vespa.
"""

import urllib.parse

from maxsim import Client

from first_stage import RESULTS, argument_parser, read_data, report
from rest import RestClient


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--vespa", default="http://localhost:8080", help="URL of its container (default: %(default)s)")
    options = parser.parse_args()
    data = read_data(options.data)

    with RestClient(options.vespa) as vespa, Client(options.server) as client:
        for id, text in zip(data.ids, data.texts):
            path = f"/document/v1/maxsim/passage/docid/{urllib.parse.quote(id, safe='')}"
            vespa.call("POST", path, {"fields": {"id": id, "text": text}})

        def search(question, limit):
            yql = "select id from passage where userQuery()"
            query = {"yql": yql, "query": question.text, "type": "any", "ranking": "words", "hits": limit}
            hits = vespa.call("POST", "/search/", query)["root"].get("children", [])
            return [hit["fields"]["id"] for hit in hits]

        def rerank(question, ids):
            return [document.id for document in client.rerank(options.collection, question.tokens, ids, top_k=RESULTS)]

        report(data, options.candidates, ("vespa, BM25", search), {"then maxsimd": rerank})


if __name__ == "__main__":
    main()
