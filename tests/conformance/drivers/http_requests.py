"""Runs the calls of the conformance suite with plain HTTP requests (docs/internals/conformance.md).

python http_requests.py SERVER=GRPC_ADDRESS,HTTP_URL...
"""

import base64
import json
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
from python_lines import answer_lines, without_large_integers

DTYPES = {"f16": "<f2", "f32": "<f4"}
# Arguments of rerank that have the same name in the HTTP body, and arguments that have another name.
SAME = ("offset", "min_score", "group_by", "group_size", "payload_fields", "normalize", "request_id", "min_sequence")
RENAMED = {"collection": "model", "weights": "query_weights", "alignments": "return_alignments", "filter": "filter"}


class ServerError(Exception):
    """An error in a server's answer, or a failed connection. `error` is what the driver reports."""

    def __init__(self, error):
        super().__init__(error)
        self.error = error


class Driver:
    def __init__(self, addresses):
        self._addresses = addresses

    def answer(self, line):
        """Returns the answer to a call."""
        self._options = line["client"]
        try:
            return {"result": getattr(self, line["method"])(line["arguments"])}
        except ServerError as failure:
            return {"error": failure.error}
        except ValueError as failure:
            return {"error": {"code": "INVALID_ARGUMENT", "local": True, "message": str(failure)}}

    def call(self, verb, path, body=None):
        """Makes a request, and repeats it while its error permits a retry. Returns the JSON of the answer."""
        delay = self._options.get("backoff_ms", 50) / 1000
        deadline = time.monotonic() + self._options.get("timeout_ms", 600_000) / 1000
        for attempt in range(1, self._options["max_attempts"] + 1):
            try:
                return self.attempt(verb, path, body)
            except ServerError as failure:
                asked = failure.error.get("retry_after_ms")
                wait = max(delay, (asked or 0) / 1000)
                busy = failure.error["code"] == "RESOURCE_EXHAUSTED" and asked is not None
                last = attempt == self._options["max_attempts"] or time.monotonic() + wait >= deadline
                if last or not (busy or failure.error["code"] == "UNAVAILABLE"):
                    raise
                time.sleep(wait)
                delay *= 2

    def attempt(self, verb, path, body):
        """Makes one request. Returns the answer's JSON."""
        headers = {"Content-Type": "application/json"}
        if "token" in self._options:
            headers["Authorization"] = f"Bearer {self._options['token']}"
        url = self._addresses[self._options["server"]]
        context = None
        if "ca_file" in self._options:
            context = ssl.create_default_context(cafile=self._options["ca_file"])
        elif not self._options.get("tls"):
            url = url.replace("https:", "http:")
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, sent, headers, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=600, context=context) as answer:
                text = answer.read()
                return json.loads(text) if text[:1] in (b"{", b"[") else text.decode()
        except urllib.error.HTTPError as error:
            raise ServerError(error_of(error)) from error
        except OSError as error:
            raise ServerError({"code": "UNAVAILABLE", "message": str(error)}) from error

    def rerank(self, arguments):
        body = {name: arguments[name] for name in SAME if name in arguments}
        body.update({there: arguments[here] for here, there in RENAMED.items() if arguments.get(here) is not None})
        body["query"] = arguments["query"]
        body["top_n"] = arguments.get("top_k", 10)
        if arguments.get("payloads") or arguments.get("payload_fields"):
            body["return_documents"] = True
        path = "/v1/rerank"
        if "documents" in arguments:
            texts = bool(arguments["documents"]) and isinstance(arguments["documents"][0], str)
            path = "/text/v1/rerank" if texts else path
            body["documents"] = [one if texts else {"tokens": one} for one in arguments["documents"]]
        else:
            body["documents"] = arguments["ids"] if "ids" in arguments else "*"
        return ranking_of(self.call("POST", path, body), wants_payloads="return_documents" in body)

    search = rerank

    def rerank_many(self, arguments):
        """Makes one request per query, because the HTTP API takes one."""
        if not arguments["queries"]:
            raise ValueError("queries is empty")
        rankings = []
        for i, query in enumerate(arguments["queries"]):
            own = {name: value for name, value in arguments.items() if name != "queries"}
            for name, depth in (("ids", 2), ("documents", 4), ("weights", 1)):
                if name in own and depth_of(own[name]) >= depth:
                    own[name] = own[name][i]
            rankings.append(self.rerank({"query": query, **{name: own[name] for name in own if own[name] is not None}}))
        return {"rankings": rankings}

    def documents_path(self, arguments, call=""):
        return f"/v1/collections/{urllib.parse.quote(arguments['collection'], safe='')}/documents{call}"

    def rest(self, arguments):
        return {name: value for name, value in arguments.items() if name != "collection"}

    def upsert(self, arguments):
        answer = self.call("PUT", self.documents_path(arguments), self.rest(arguments))
        return {name: answer[name] for name in ("results", "sequence")}

    def delete(self, arguments):
        answer = self.call("DELETE", self.documents_path(arguments), self.rest(arguments))
        names = ("results", "num_deleted", "num_missing", "num_stale", "sequence")
        return {name: answer[name] for name in names if name in answer}

    def get(self, arguments):
        answer = self.call("POST", self.documents_path(arguments, "/get"), self.rest(arguments))
        missing = without_large_integers(answer.get("missing", []))
        return {"documents": list(map(stored, answer["documents"])), "missing": missing}

    def scroll(self, arguments):
        body = self.rest(arguments)
        body["return_payloads"] = body.pop("payloads", True)
        if "page_size" in body:
            body["limit"] = body.pop("page_size")
        documents = []
        while True:
            page = self.call("POST", self.documents_path(arguments, "/scroll"), body)
            documents += map(stored, page["documents"])
            if not page["has_more"]:
                return {"documents": documents}
            body["after"] = page["documents"][-1]["id"]

    def count(self, arguments):
        return {"count": self.call("POST", "/v1/count", arguments)["count"]}

    def facets(self, arguments):
        answer = self.call("POST", "/v1/facets", arguments)
        values = [[one["value"], one["count"]] for one in answer["values"]]
        return {"values": values, "num_values": answer["num_values"], "num_documents": answer["num_documents"]}

    def explain(self, arguments):
        body = {"model": arguments["collection"], "query": arguments["query"], "id": arguments["id"]}
        if "weights" in arguments:
            body["query_weights"] = arguments["weights"]
        answer = self.call("POST", "/v1/explain", body)
        return {name: answer.get(name) or [] for name in ("score", "similarities", "query_tokens")}

    def info(self, arguments):
        answer = self.call("GET", "/v1/collections")
        for one in answer["collections"]:
            one.update(live="live" in one, state=one["state"].lower())
        return answer

    def health(self, arguments):
        self.call("GET", "/readyz")
        return {"status": "SERVING"}


def depth_of(value):
    """Returns the number of lists around the first value. None stands for a list."""
    if not isinstance(value, list) or not value:
        return 0 if value is not None else 1
    return 1 + depth_of(value[0])


def error_of(error):
    """Returns the members of the error in an answer's body."""
    body = json.loads(error.read())["error"]
    names = ("code", "message", "field", "reason", "limit", "limit_key")
    found = {name: body[name] for name in names if name in body}
    if "Retry-After" in error.headers:
        found["retry_after_ms"] = 1000 * int(error.headers["Retry-After"])
    return found


def ranking_of(answer, wants_payloads):
    documents = []
    for one in answer["results"]:
        document = {"position": one["index"], "score": one["relevance_score"]}
        if one.get("id") is not None:
            document["id"] = without_large_integers(one["id"])
        if wants_payloads and "document" in one:
            document["payload"] = one["document"]
        if "alignment" in one:
            document["matches"] = one["alignment"]["document_tokens"]
            document["similarities"] = one["alignment"]["similarities"]
        document.update({name: one[name] for name in ("group", "truncated") if name in one})
        documents.append(document)
    result = {"documents": documents, "missing": without_large_integers(answer.get("missing", []))}
    result.update({name: answer[name] for name in ("sequence", "query_tokens", "query_truncated") if name in answer})
    return result


def stored(one):
    document = {"id": without_large_integers(one["id"]), "num_tokens": one["num_tokens"]}
    document.update({"version": one.get("version", 0), "sequence": one.get("sequence", 0)})
    if "payload" in one:
        document["payload"] = one["payload"]
    if "tokens" in one:
        values = np.frombuffer(base64.b64decode(one["tokens"]["data"]), DTYPES[one["tokens"]["dtype"].lower()])
        document["tokens"] = values.reshape(one["tokens"]["shape"]).tolist()
    return document


def main():
    named = (one.split("=", 1) for one in sys.argv[1:])
    driver = Driver({name: both.split(",", 1)[1] for name, both in named})
    answer_lines(driver)


if __name__ == "__main__":
    main()
