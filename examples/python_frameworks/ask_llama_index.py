"""LlamaIndex: a node postprocessor after a retriever; the nodes' ids are those of the collection.

    pip install './client/python[llama-index]'
    python examples/python_frameworks/ask_llama_index.py [SERVER [DEMO_FOLDER]]      # of `make serve TEXT=1`
"""

from first_stage_of_words import QUESTION, arguments, find_candidates, show
from llama_index.core.schema import NodeWithScore, TextNode
from maxsim.adapters.llama_index import MaxsimRerank


def main():
    server, demo = arguments()
    # Stands for a retriever's result. In a RetrieverQueryEngine, pass the postprocessor in node_postprocessors.
    nodes = [
        NodeWithScore(node=TextNode(id_=one["id"], text=one["text"], metadata={"title": one["title"]}))
        for one in find_candidates(demo)
    ]
    reranker = MaxsimRerank(target=server, collection="demo", own_ids=True, top_n=3)
    for rank, one in enumerate(reranker.postprocess_nodes(nodes, query_str=QUESTION), start=1):
        show(rank, one.node.node_id, one.score, one.node.metadata["title"])


if __name__ == "__main__":
    main()
