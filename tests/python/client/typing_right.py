"""Code that uses the package correctly. A type checker must accept it and infer the given types. types_test.py runs the
checkers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import maxsim
from maxsim import errors
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2, rerank_pb2_grpc


class Tensor:
    """An array with DLPack, like torch's."""

    def __dlpack__(self, stream: Any = None) -> Any: ...


query = np.ones((3, 4), np.float16)


def blocking(client: maxsim.Client) -> None:
    ranking = client.rerank("docs", query, ids=["a", "b"], top_k=3, payloads=True, timeout=2.5)
    assert_type(ranking, maxsim.Ranking)
    assert_type(ranking[0], maxsim.Document)
    assert_type(ranking[:2], maxsim.Ranking)
    assert_type(ranking.scores, npt.NDArray[np.float32])
    assert_type(ranking.to_dict(), dict[str, Any])
    for document in ranking:
        assert_type(document, maxsim.Document)
        assert_type(document.score, float)
    ids: list[str | int] = ranking.ids
    print(len(ranking), ids)

    client.rerank("docs", "a question")
    F = maxsim.F
    assert_type(F.lang == "en", maxsim.Filter)
    assert_type((F.year >= 2020) & ~F.tags.is_in(["a"]) | F.x.exists(), maxsim.Filter)
    client.rerank("docs", "a question", filter=(F.lang == "en") & (F.year < 2.5))
    client.rerank_many("docs", ["a question"], filter={"field": "lang", "equals": "en"})
    client.rerank("docs", "a question", filter='lang = "en"')
    client.rerank("docs", [[0.5, 1.0]], np.array([1, 2]), weights=[0.5])
    client.rerank("docs", Tensor(), [np.int64(1)], priority="low", missing_policy="fail")
    client.rerank("docs", maxsim.token_vectors(query), iter(["a"]))
    client.rerank(None, query, documents=[query, query])
    client.rerank(None, "a question", documents=["one", "two"])
    assert_type(client.rerank_many("docs", [query, Tensor()], [["a"], ["b"]]), list[maxsim.Ranking])
    client.rerank_many("docs", ["a", "b"], ["a", "b"], weights=[[1.0], None])
    client.rerank_many(None, [query], documents=[[query], [query]])

    docs = client.collection("docs")
    assert_type(docs.rerank(query, ids=[1, 2]), maxsim.Ranking)
    assert_type(docs.rerank_many([query]), list[maxsim.Ranking])
    for answer in client.rerank_stream([maxsim.Request("docs", query, ["a"], top_k=2)], ordered=False):
        assert_type(answer, maxsim.StreamAnswer)
        assert_type(answer.ranking, maxsim.Ranking)

    assert_type(client.info(), rerank_pb2.GetInfoResponse)
    assert_type(client.collections()[0].num_documents, int)
    assert_type(client.load("a", "/a", residency="host"), rerank_pb2.CollectionInfo)
    assert_type(client.reload("a"), bool)
    assert_type(client.unload("a"), None)
    assert_type(client.admin.ListCollections(admin_pb2.ListCollectionsRequest()), admin_pb2.ListCollectionsResponse)


def writing(client: maxsim.Client) -> None:
    document = maxsim.NewDocument("a", query, payload={"title": "A"}, version=3)
    written = client.upsert("docs", [document, maxsim.NewDocument(7, text="a text", payload="{}")])
    assert_type(written, maxsim.WriteResults)
    assert_type(written[0], maxsim.WriteResult)
    assert_type(written.sequence, int)
    client.upsert("docs", [{"id": "a", "tokens": query}, {"id": "b", "text": "b"}], timeout=3)
    client.upsert("docs", (("a", query) for _ in range(3)))
    client.upsert("docs", [("a", Tensor()), ("b", "a text", {"n": 1})])
    assert_type(client.upsert_stream("docs", iter([document]), batch_documents=3), maxsim.UpsertSummary)
    assert_type(client.delete("docs", ["a", "b"], version=4), maxsim.WriteResults)
    found = client.get("docs", np.array([1, 2]), return_tokens=True, min_sequence=written.sequence)
    assert_type(found, maxsim.StoredDocuments)
    assert_type(found[0].tokens, npt.NDArray[np.float32] | None)
    assert_type(client.rerank("docs", query, min_sequence=written.sequence).sequence, int)
    assert_type(client.delete_matching("docs", maxsim.F.lang == "en"), maxsim.DeleteSummary)
    assert_type(client.delete_matching("docs", "year < 2000", version=3, min_sequence=2).num_deleted, int)
    assert_type(client.scroll("docs", filter=maxsim.F.lang == "en"), Iterator[maxsim.StoredDocument])
    assert_type(client.count("docs", filter=maxsim.F.lang == "en"), int)
    facets = client.facets("docs", "lang", filter="year > 2000", limit=3)
    assert_type(facets, maxsim.Facets)
    assert_type(facets[0], maxsim.FacetValue)
    assert_type(facets.num_values, int)
    explanation = client.explain("docs", "a question", "a", min_sequence=written.sequence)
    assert_type(explanation, maxsim.Explanation)
    assert_type(explanation.matches, npt.NDArray[np.int64])
    notes = client.collection("notes")
    assert_type(notes.explain(query, 7), maxsim.Explanation)
    assert_type(notes.scroll(after=3), Iterator[maxsim.StoredDocument])
    assert_type(notes.count(), int)
    assert_type(notes.facets("lang"), maxsim.Facets)
    assert_type(notes.upsert([document]), maxsim.WriteResults)
    assert_type(notes.upsert_stream([document]), maxsim.UpsertSummary)
    assert_type(notes.delete(["a"]), maxsim.WriteResults)
    assert_type(notes.get(["a"]), maxsim.StoredDocuments)
    assert_type(client.create_collection("a", 128, storage="i8", id_type="int64"), rerank_pb2.CollectionInfo)
    assert_type(client.load("a", "/a", live=True).live.log_bytes, int)
    assert_type(client.compact_collection("a"), bool)
    assert_type(client.snapshot_collection("a", "/b"), int)
    stream = iter([documents_pb2.UpsertRequest(collection="docs")])
    assert_type(client.documents.UpsertStream(stream), documents_pb2.UpsertStreamResponse)


def failing(client: maxsim.Client) -> str | None:
    try:
        client.rerank("docs", query)
    except errors.InvalidArgument as error:
        return error.field
    except maxsim.MaxsimError as error:
        assert_type(error.retry_after, float | None)
        assert_type(error.reason, str | None)
        assert_type(error.limit, int | None)
        assert_type(error.code(), grpc.StatusCode)
    except grpc.RpcError:
        pass
    return None


async def asynchronous() -> None:
    async with maxsim.AsyncClient("localhost", retry=maxsim.Retry(resource_exhausted=True)) as client:
        assert_type(await client.rerank("docs", query, ids=["a"]), maxsim.Ranking)
        assert_type(await client.collection("docs").rerank_many([query]), list[maxsim.Ranking])
        first, second = await asyncio.gather(client.rerank("docs", query), client.rerank("docs", query))
        assert_type(first, maxsim.Ranking)
        assert_type(second, maxsim.Ranking)
        asyncio.create_task(client.rerank("docs", query))
        async for answer in client.rerank_stream([maxsim.Request("docs", query)]):
            assert_type(answer.ranking, maxsim.Ranking)
        assert_type(await client.upsert("docs", [("a", query)]), maxsim.WriteResults)
        assert_type(await client.collection("docs").upsert([("a", query)]), maxsim.WriteResults)
        assert_type(await client.upsert_stream("docs", texts()), maxsim.UpsertSummary)
        assert_type(await client.delete("docs", [1]), maxsim.WriteResults)
        assert_type(await client.get("docs", ["a"]), maxsim.StoredDocuments)
        assert_type(await client.delete_matching("docs", "year < 2000"), maxsim.DeleteSummary)
        async for stored in client.scroll("docs", page_size=10):
            assert_type(stored, maxsim.StoredDocument)
        assert_type(await client.count("docs"), int)
        assert_type(await client.facets("docs", "lang"), maxsim.Facets)
        assert_type(await client.explain("docs", query, "a"), maxsim.Explanation)
        assert_type(await client.create_collection("a", 128), rerank_pb2.CollectionInfo)
        assert_type(await client.info(), rerank_pb2.GetInfoResponse)
        assert_type(await client.reload("a"), bool)


async def texts() -> AsyncIterator[maxsim.NewDocument]:
    yield maxsim.NewDocument("a", text="b")


def messages(channel: grpc.Channel) -> None:
    request = rerank_pb2.RerankRequest(collection="a", queries=[rerank_pb2.Query(text="b")], top_k=3)
    request.candidates.string_ids.ids.extend(["a"])
    response = rerank_pb2_grpc.RerankerStub(channel).Rerank(request, timeout=1.0)
    assert_type(response, rerank_pb2.RerankResponse)
    assert_type(response.results[0].scores[0], float)
