"""bm25s finds candidates by BM25, and maxsimd ranks them.

    pip install bm25s ./client/python
    python examples/first_stage/ask_bm25s.py            # a server of `make serve` is running

bm25s keeps its index in this process; only ids and the question's token vectors go to maxsimd.
"""

import bm25s
from maxsim import Client

from first_stage import RESULTS, arguments, read_data, report


def main():
    options = arguments(__doc__)
    data = read_data(options.data)

    index = bm25s.BM25()
    index.index(bm25s.tokenize(data.texts, stopwords="en", show_progress=False), show_progress=False)

    def search(question, limit):
        words = bm25s.tokenize(question.text, stopwords="en", show_progress=False)
        positions, scores = index.retrieve(words, k=min(limit, len(data.ids)), show_progress=False)
        # A document that shares no word with the question scores 0, and is not a candidate.
        return [data.ids[position] for position, score in zip(positions[0], scores[0]) if score > 0]

    with Client(options.server) as client:

        def rerank(question, ids):
            return [document.id for document in client.rerank(options.collection, question.tokens, ids, top_k=RESULTS)]

        report(data, options.candidates, ("bm25s", search), {"then maxsimd": rerank})


if __name__ == "__main__":
    main()
