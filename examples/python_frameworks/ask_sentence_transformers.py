"""sentence-transformers: a MultiVectorEncoder encodes here, maxsimd scores. The server needs no encoder.

    pip install './client/python[sentence-transformers]'
    python examples/python_frameworks/ask_sentence_transformers.py [SERVER [DEMO_FOLDER [MODEL]]]      # of `make serve`
"""

from first_stage_of_words import QUESTION, arguments, find_candidates, show
from maxsim.adapters.sentence_transformers import MaxsimReranker
from sentence_transformers import MultiVectorEncoder


def main():
    server, demo, model = arguments("lightonai/GTE-ModernColBERT-v1")
    found = find_candidates(demo)
    with MaxsimReranker(MultiVectorEncoder(model), server) as reranker:
        # rank() takes what CrossEncoder.rank does; rank_ids() and search() ask for documents of a collection.
        for rank, hit in enumerate(reranker.rank(QUESTION, [one["text"] for one in found], top_k=3), start=1):
            passage = found[hit["corpus_id"]]
            show(rank, passage["id"], hit["score"], passage["title"])


if __name__ == "__main__":
    main()
