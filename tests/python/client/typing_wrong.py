"""Code that uses the package incorrectly. A type checker must report each line that ends with "wrong", and no other
line. types_test.py runs the checkers."""

import numpy as np

import maxsim
from maxsim.v1 import rerank_pb2

client = maxsim.Client("localhost")
query = np.ones((3, 4), np.float16)

client.rerank("docs", 3)  # wrong
client.rerank("docs", query, 7)  # wrong
client.rerank("docs", query, [1.5])  # wrong
client.rerank("docs", query, top="3")  # wrong
client.rerank("docs", query, top_k="3")  # wrong
client.rerank("docs", query, priority="urgent")  # wrong
client.rerank("docs", query, missing_policy="ignore")  # wrong
client.rerank("docs", query, ["a"], [query])  # wrong
client.rerank(query)  # wrong
client.rerank_many("docs", query, weights="heavy")  # wrong
client.collection("docs").rerank("docs", query, ids=["a"], documents=3)  # wrong
client.load("a", 3)  # wrong
client.load("a", "/a", live="yes")  # wrong
client.upsert("docs", [3])  # wrong
client.upsert("docs", query, batch_bytes=3)  # wrong
client.upsert_stream("docs", [("a", query)], batch_bytes="4MB")  # wrong
client.delete("docs", 7)  # wrong
client.get("docs", ["a"], return_tokens=[])  # wrong
client.create_collection("a", 128, storage="f8")  # wrong
maxsim.NewDocument("a", query, version="3")  # wrong
maxsim.NewDocument("a", query, {"title": "A"})  # wrong
maxsim.Request("docs", query, top_k="3")  # wrong
maxsim.Retry(max_attempts="3")  # wrong
maxsim.Client("localhost", retries=3)  # wrong
maxsim.Ranking([], []).best  # wrong
rerank_pb2.RerankRequest(colection="a")  # wrong
rerank_pb2.RerankRequest(top_k="a")  # wrong
