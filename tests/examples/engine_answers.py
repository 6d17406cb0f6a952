"""Parses answers of /v1/rerank by the rules of the search systems that call it: OpenSearch, Elasticsearch and
Milvus."""

import json


def every_document_once(pairs, count):
    """Returns the scores in the order of positions. Fails if a document is missing or occurs twice, as all these
    systems do."""
    scores = dict(pairs)
    if len(pairs) != count or sorted(scores) != list(range(count)):
        raise AssertionError(f"{count} documents are answered by the positions {[index for index, _ in pairs]}")
    return [scores[position] for position in range(count)]


def opensearch(text, count):
    """Parses an answer as OpenSearch does. `index` must be an integer and `relevance_score` a number, so an index "3"
    is refused."""
    pairs = [(result["index"], result["relevance_score"]) for result in json.loads(text)["results"]]
    for index, score in pairs:
        if type(index) is not int or type(score) is not float:
            raise AssertionError(f"index {index!r}, relevance_score {score!r}")
    return every_document_once(pairs, count)


def elasticsearch(text, count):
    """Parses an answer as Elasticsearch does. The JSON paths $.results[*].relevance_score and $.results[*].index must
    yield the same number of values."""
    results = json.loads(text)["results"]
    return every_document_once([(result["index"], float(result["relevance_score"])) for result in results], count)


def milvus(text, count):
    """Parses an answer as Milvus does, into Go structs. The members that the structs declare must have the declared
    types. Other members are ignored."""
    answer = json.loads(text)
    for owner, name, kind in (
        (answer, "id", str),
        (answer, "model", str),
        (answer, "usage", dict),
        (answer.get("usage") or {}, "total_tokens", int),
        (answer, "meta", dict),
        (answer.get("meta") or {}, "api_version", dict),
        (answer.get("meta") or {}, "billed_units", dict),
    ):
        if owner.get(name) is not None and not isinstance(owner[name], kind):
            raise AssertionError(f"{name} is {owner[name]!r}")
    return every_document_once([(result["index"], result["relevance_score"]) for result in answer["results"]], count)


def milvus_tei(text, count):
    """A list of objects with `index` and `score`."""
    return every_document_once([(result["index"], result["score"]) for result in json.loads(text)], count)
