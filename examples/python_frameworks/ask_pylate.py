"""PyLate: its model encodes here, and maxsimd scores, instead of pylate.rank.rerank and an index of PyLate.

    pip install './client/python[pylate]'
    python examples/python_frameworks/ask_pylate.py [SERVER [DEMO_FOLDER [MODEL [FOLDER]]]]      # of `make serve`

With FOLDER, which the server must permit (store.allowed_roots), the vectors are written to a collection there, and
retrieve.ColBERT searches this collection.
"""

from first_stage_of_words import QUESTION, arguments, find_candidates, show
from maxsim.adapters.pylate import MaxsimIndex, rerank
from pylate import models, retrieve


def main():
    server, demo, name, folder = arguments("lightonai/GTE-ModernColBERT-v1", "")
    found = find_candidates(demo)
    ids = [one["id"] for one in found]
    titles = {one["id"]: one["title"] for one in found}
    model = models.ColBERT(name)
    query = model.encode([QUESTION], is_query=True, show_progress_bar=False)
    documents = model.encode([one["text"] for one in found], is_query=False, show_progress_bar=False)

    ranked = rerank([ids], query, [documents], target=server)
    for rank, one in enumerate(ranked[0][:3], start=1):
        show(rank, one["id"], one["score"], titles[one["id"]])

    if folder:
        with MaxsimIndex("volcanoes", server, folder=folder) as index:
            index.add_documents(ids, documents)
            for rank, one in enumerate(retrieve.ColBERT(index=index).retrieve(query, k=3)[0], start=1):
                show(rank, one["id"], one["score"], titles[one["id"]])


if __name__ == "__main__":
    main()
