"""Calls of a search engine's REST API, over a connection that stays open."""

import contextlib
import http.client
import json
import urllib.parse
from typing import Any, Optional


class RestClient:
    """Closes the connection at the end of a `with` block. Not for several threads.

    `authorization` is the value of the header Authorization, such as "ApiKey ...".
    """

    def __init__(self, url: str, authorization: Optional[str] = None):
        address = urllib.parse.urlsplit(url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(address.hostname, address.port, timeout=60)
        self._headers = {"Authorization": authorization} if authorization else {}

    def __enter__(self) -> "RestClient":
        return self

    def __exit__(self, *_) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: Any = None, lines: Any = None) -> Any:
        """Sends `body` as JSON, or each of `lines` as one line of JSON. Returns the parsed answer. Raises RuntimeError
        with the engine's message if the status is not 200 or 201."""
        text, kind = None, "application/json"
        if lines is not None:
            text, kind = "".join(json.dumps(line) + "\n" for line in lines), "application/x-ndjson"
        elif body is not None:
            text = json.dumps(body)
        headers = {**self._headers, **({"Content-Type": kind} if text else {})}
        self._connection.request(method, path, text, headers)
        answer = self._connection.getresponse()
        content = answer.read().decode()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.status}: {content}")
        return json.loads(content) if content else None


def load_documents(engine: RestClient, index: str, data, cleanup: contextlib.ExitStack) -> None:
    """Makes an index of OpenSearch or Elasticsearch with the fields `id` and `text`, and waits until searches see all
    documents. `data` is a `Data` of first_stage.py. `cleanup` removes the index at its end."""
    fields = {"id": {"type": "keyword"}, "text": {"type": "text", "analyzer": "english"}}
    engine.call("PUT", f"/{index}", {"mappings": {"properties": fields}})
    cleanup.callback(engine.call, "DELETE", f"/{index}")
    lines = []
    for id, text in zip(data.ids, data.texts):
        lines += [{"index": {"_index": index, "_id": id}}, {"id": id, "text": text}]
    answer = engine.call("POST", "/_bulk?refresh=true", lines=lines)
    if answer["errors"]:
        raise RuntimeError(f"/_bulk: {answer['items'][:1]}")


def ids_of(answer: Any) -> list:
    """Returns the ids in the answer of a search."""
    return [hit["_source"]["id"] for hit in answer["hits"]["hits"]]
