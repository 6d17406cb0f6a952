"""rerankers: maxsimd replaces another model. Sends the texts, which the server's encoder encodes.

    pip install './client/python[rerankers]'
    python examples/python_frameworks/ask_rerankers.py [SERVER [DEMO_FOLDER]]      # of `make serve TEXT=1`
"""

import maxsim.adapters.rerankers  # noqa: F401  (makes Reranker know "MaxsimRanker")
from first_stage_of_words import QUESTION, arguments, find_candidates, show
from rerankers import Reranker


def main():
    server, demo = arguments()
    found = find_candidates(demo)
    ranker = Reranker(server, model_type="MaxsimRanker", verbose=0)
    results = ranker.rank(
        QUESTION,
        [one["text"] for one in found],
        doc_ids=[one["id"] for one in found],
        metadata=[{"title": one["title"]} for one in found],
    )
    for result in results.top_k(3):
        show(result.rank, result.doc_id, result.score, result.document.metadata["title"])


if __name__ == "__main__":
    main()
