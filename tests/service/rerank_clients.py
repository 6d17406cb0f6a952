"""Wraps PyPI packages that rerank over HTTP in a common interface: one class per package. The packages are unmodified,
and get only a base URL.

A client imports its package when it is created, so that an environment needs only the packages that it uses. """

import asyncio
import os

# Without the first two variables, Haystack and LangChain send usage data. NO_PROXY keeps requests to this machine away
# from a proxy.
os.environ.update(HAYSTACK_TELEMETRY_ENABLED="false", LANGSMITH_TRACING="false", NO_PROXY="127.0.0.1")
# Without this variable, LiteLLM downloads a table of prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

# The model name of another rerank service, as its users have in their settings. No collection has this name.
THEIR_MODEL = "rerank-v3.5"


def given(**arguments):
    """Returns the arguments that are not None, as a dictionary."""
    return {name: value for name, value in arguments.items() if value is not None}


class Client:
    """A way to rerank with a package. `base` is the server's URL, with or without /text at its end."""

    # Whether the package shows the server's error to its user. If false, it ignores the status and fails in another
    # way.
    shows_errors = True
    # Whether the request can name a model, and so a collection.
    names_model = True
    # Whether the request can limit the number of results.
    cuts = True
    # Whether the package fails if an answer lacks a document. If true, an unknown id is an error. If false, an unknown
    # id is left out of the result.
    wants_all = False

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None):
        """Returns [(position in documents, score)] in the order of the package's result. If `top_n` is None, returns
        all documents."""
        raise NotImplementedError

    def shown(self, error):
        """Returns the text that the package shows a user for an exception of rank()."""
        return str(error)


class CohereV1(Client):
    def __init__(self):
        import cohere

        self.package = cohere

    def client(self, base, key):
        return self.package.Client(key, base_url=base)

    def rank(self, base, key, query, documents, model=None, top_n=None, **options):
        answer = self.client(base, key).rerank(
            query=query,
            documents=documents,
            # By default the package repeats a request twice after a 503.
            request_options={"max_retries": 0},
            **given(model=model, top_n=top_n, **options),
        )
        return [(result.index, result.relevance_score) for result in answer.results]


class CohereV2(CohereV1):
    def client(self, base, key):
        return self.package.ClientV2(key, base_url=base)

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None, **options):
        return super().rank(base, key, query, documents, model, top_n, **options)


class CohereV2Async(CohereV2):
    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None):
        async def ask():
            async with self.package.AsyncClientV2(key, base_url=base) as client:
                options = given(top_n=top_n, request_options={"max_retries": 0})
                return await client.rerank(model=model, query=query, documents=documents, **options)

        return [(result.index, result.relevance_score) for result in asyncio.run(ask()).results]


class LangChainCohere(Client):
    def __init__(self):
        from langchain_cohere import CohereRerank
        from langchain_core.documents import Document

        self.ranker, self.document = CohereRerank, Document

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None):
        ranker = self.ranker(model=model, cohere_api_key=key, base_url=base, top_n=top_n)
        texts = [self.document(page_content=text, metadata={"position": i}) for i, text in enumerate(documents)]
        ranked = ranker.compress_documents(texts, query)
        return [(one.metadata["position"], one.metadata["relevance_score"]) for one in ranked]


class LlamaIndex(Client):
    """The base class for LlamaIndex's postprocessors. `make` returns a postprocessor, to which documents are passed as
    nodes."""

    def make(self, base, key, model, top_n):
        raise NotImplementedError

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None):
        from llama_index.core.schema import NodeWithScore, TextNode

        nodes = [NodeWithScore(node=TextNode(id_=str(i), text=text), score=0.0) for i, text in enumerate(documents)]
        ranked = self.make(base, key, model, top_n or len(documents)).postprocess_nodes(nodes, query_str=query)
        return [(int(one.node.node_id), one.score) for one in ranked]


class LlamaIndexJina(LlamaIndex):
    def __init__(self):
        from llama_index.postprocessor.jinaai_rerank import JinaRerank

        self.ranker = JinaRerank

    def make(self, base, key, model, top_n):
        return self.ranker(base_url=f"{base}/v1", api_key=key, model=model, top_n=top_n)


class LlamaIndexTei(LlamaIndex):
    shows_errors = False
    names_model = False
    wants_all = True

    def __init__(self):
        from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

        self.ranker = TextEmbeddingInference

    def make(self, base, key, model, top_n):
        return self.ranker(base_url=base, auth_token=f"Bearer {key}", top_n=top_n)


class LlamaIndexSiliconFlow(LlamaIndex):
    def __init__(self):
        from llama_index.postprocessor.siliconflow_rerank import SiliconFlowRerank

        self.ranker = SiliconFlowRerank

    def make(self, base, key, model, top_n):
        return self.ranker(base_url=f"{base}/v1/rerank", api_key=key, model=model, top_n=top_n)


class Xinference(Client):
    """Xinference's own client, which first requests the model's description."""

    def __init__(self):
        from xinference_client import RESTfulClient

        self.client = RESTfulClient

    def answer(self, base, key, query, documents, model, **options):
        return self.client(base, key).get_model(model).rerank(documents, query, **options)

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None):
        results = self.answer(base, key, query, documents, model, top_n=top_n)["results"]
        return [(result["index"], result["relevance_score"]) for result in results]


class HaystackJina(Client):
    def __init__(self):
        from haystack import Document
        from haystack.utils import Secret
        from haystack_integrations.components.rankers.jina import JinaRanker

        self.document, self.secret, self.ranker = Document, Secret, JinaRanker

    def answer(self, base, key, query, documents, model, top_n=None):
        ranker = self.ranker(model=model, api_key=self.secret.from_token(key), base_url=f"{base}/v1/rerank")
        texts = [self.document(id=str(i), content=text) for i, text in enumerate(documents)]
        return ranker.run(query=query, documents=texts, top_k=top_n)

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None):
        ranked = self.answer(base, key, query, documents, model, top_n)["documents"]
        return [(int(one.id), one.score) for one in ranked]


class Voyage(Client):
    def __init__(self):
        import voyageai

        self.package = voyageai

    def answer(self, base, key, query, documents, model, **options):
        return self.package.Client(key, base_url=f"{base}/v1").rerank(query, documents, model, **options)

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None):
        ranked = self.answer(base, key, query, documents, model, top_k=top_n).results
        return [(one.index, one.relevance_score) for one in ranked]

    def shown(self, error):
        # For the codes 500 and 503, the package shows a text of its own, but keeps the server's answer in http_body.
        return f"{error} {error.http_body}"


class VoyageAsync(Voyage):
    def answer(self, base, key, query, documents, model, **options):
        client = self.package.AsyncClient(key, base_url=f"{base}/v1")
        return asyncio.run(client.rerank(query, documents, model, **options))


class Rerankers(Client):
    """The rankers of the package `rerankers` that call an API. The package builds another request for each service."""

    shows_errors = False
    cuts = False

    def __init__(self, service, path):
        from rerankers import Reranker

        self.make, self.service, self.path = Reranker, service, path
        self.wants_all = path == "/rerank"

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None):
        ranker = self.make(model, model_type=self.service, api_key=key, url=base + self.path, verbose=0)
        ranked = ranker.rank(query=query, docs=documents, doc_ids=list(range(len(documents))))
        return [(one.doc_id, one.score) for one in ranked.results]


class LiteLlm(Client):
    """LiteLLM with one of its providers. Each provider has its own base path."""

    def __init__(self, provider, path=""):
        import litellm

        litellm.suppress_debug_info = True
        self.package, self.provider, self.path = litellm, provider, path

    def rank(self, base, key, query, documents, model=THEIR_MODEL, top_n=None, **options):
        answer = self.answer(base, key, query, documents, model, **given(top_n=top_n), **options)
        return [(result["index"], result["relevance_score"]) for result in answer.results]

    def answer(self, base, key, query, documents, model=THEIR_MODEL, **options):
        model, url = f"{self.provider}/{model}", base + self.path
        return self.package.rerank(model=model, query=query, documents=documents, api_base=url, api_key=key, **options)


CLIENTS = {
    "cohere": {"CohereV1": CohereV1, "CohereV2": CohereV2, "CohereV2Async": CohereV2Async},
    "langchain-cohere": {"LangChainCohere": LangChainCohere},
    "llama-index": {
        "LlamaIndexJina": LlamaIndexJina,
        "LlamaIndexTei": LlamaIndexTei,
        "LlamaIndexSiliconFlow": LlamaIndexSiliconFlow,
    },
    "litellm": {
        "LiteLlmCohere": lambda: LiteLlm("cohere", "/v2/rerank"),
        "LiteLlmVllm": lambda: LiteLlm("hosted_vllm"),
        "LiteLlmInfinity": lambda: LiteLlm("infinity", "/infinity"),
    },
    "xinference": {"Xinference": Xinference},
    "haystack": {"HaystackJina": HaystackJina},
    "voyageai": {"Voyage": Voyage, "VoyageAsync": VoyageAsync},
    "rerankers": {
        "RerankersCohere": lambda: Rerankers("cohere", "/v1/rerank"),
        "RerankersJina": lambda: Rerankers("jina", "/v1/rerank"),
        "RerankersVoyage": lambda: Rerankers("voyage", "/v1/rerank"),
        "RerankersTei": lambda: Rerankers("text-embeddings-inference", "/rerank"),
    },
}
