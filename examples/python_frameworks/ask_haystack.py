"""Haystack: a pipeline of BM25 and maxsimd. Sends the texts of the documents, which the server's encoder encodes.

    pip install './client/python[haystack]'
    python examples/python_frameworks/ask_haystack.py [SERVER [DEMO_FOLDER]]      # of `make serve TEXT=1`
"""

from first_stage_of_words import QUESTION, arguments, find_candidates, show
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from maxsim.adapters.haystack import MaxsimRanker


def main():
    server, demo = arguments()
    store = InMemoryDocumentStore()
    passages = find_candidates(demo, limit=1000)
    store.write_documents(
        [Document(id=one["id"], content=one["text"], meta={"title": one["title"]}) for one in passages]
    )
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=12))
    # With collection="demo" and own_ids=True, only the question's text would be sent.
    pipeline.add_component("ranker", MaxsimRanker(server, top_k=3))
    pipeline.connect("retriever.documents", "ranker.documents")
    answer = pipeline.run({"retriever": {"query": QUESTION}, "ranker": {"query": QUESTION}})
    for rank, document in enumerate(answer["ranker"]["documents"], start=1):
        show(rank, document.id, document.score, document.meta["title"])


if __name__ == "__main__":
    main()
