"""LangChain: a chain of a first stage and maxsimd, which knows the documents by their ids.

    pip install './client/python[langchain]'
    python examples/python_frameworks/ask_langchain.py [SERVER [DEMO_FOLDER]]      # of `make serve TEXT=1`
"""

from first_stage_of_words import QUESTION, arguments, find_candidates, show
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from maxsim.adapters.langchain import MaxsimRerank


def main():
    server, demo = arguments()

    def find(question):
        found = find_candidates(demo, question)
        return [Document(page_content=one["text"], metadata={"id": one["id"], "title": one["title"]}) for one in found]

    # Without collection and id_key, the texts would be sent. The server's encoder, or encoder=MODEL, would encode
    # them.
    reranker = MaxsimRerank(target=server, collection="demo", id_key="id", top_n=3)
    chain = RunnableLambda(lambda question: reranker.compress_documents(find(question), question))
    for rank, document in enumerate(chain.invoke(QUESTION), start=1):
        show(rank, document.metadata["id"], document.metadata["relevance_score"], document.metadata["title"])


if __name__ == "__main__":
    main()
