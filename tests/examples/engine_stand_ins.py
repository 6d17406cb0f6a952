"""Fake servers that replace OpenSearch, Elasticsearch and Vespa, which no package registry of the tests has.

Each fake server answers the calls of its program in examples/first_stage in the engine's published format. It finds
documents by BM25 (bm25s with Lucene's formula, but without Lucene's stemming) and calls maxsimd as the engine does. A
test with a fake server shows that the program, the settings that it sends, and maxsimd fit together. It does not show
what the real engine does.
"""

import http.server
import itertools
import json
import math
import re
import threading
import urllib.error
import urllib.parse
import urllib.request

import bm25s

import engine_answers


class EngineError(Exception):
    """The engine's answer to a call that it refuses."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class StandIn:
    """An HTTP server on a free port. A subclass lists the calls that it answers in `routes`: (method, regular
    expression for the whole path, function). The function gets the StandIn, the match of the path, the parameters of
    the URL and the body, and returns the answer."""

    routes = ()

    def __init__(self):
        self.texts = {}  # by id, in the order of loading
        self.calls = []  # method and path of each call
        self._index = None
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_call(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                try:
                    status, answer = 200, stand_in.answer(self.command, self.path, body)
                except EngineError as error:
                    status, answer = error.status, {"error": {"reason": str(error)}, "status": error.status}
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = handle_call

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method, target, text):
        url = urllib.parse.urlsplit(target)
        self.calls.append((method, url.path))
        for wanted, path, function in self.routes:
            match = re.fullmatch(path, url.path)
            if match and method == wanted:
                lines = [json.loads(line) for line in text.splitlines()]
                body = lines if url.path == "/_bulk" else lines[0] if lines else None
                return function(self, match, dict(urllib.parse.parse_qsl(url.query)), body)
        raise EngineError(404, f"no handler for {method} {url.path}")

    def add(self, id, text):
        self.texts[id] = text
        self._index = None

    def search(self, text, limit):
        """Returns (id, score) of at most `limit` documents that share a word with the text, best first."""
        if self._index is None:
            self._index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
            words = bm25s.tokenize(list(self.texts.values()), stopwords="en", show_progress=False)
            self._index.index(words, show_progress=False)
        words = bm25s.tokenize(text, stopwords="en", show_progress=False)
        ids = list(self.texts)
        positions, scores = self._index.retrieve(words, k=min(limit, len(ids)), show_progress=False)
        return [(ids[position], float(score)) for position, score in zip(positions[0], scores[0]) if score > 0]


def call_reranker(url, text):
    """Sends a body to maxsimd and returns the answer. Passes maxsimd's errors on to the caller, as the engines do."""
    request = urllib.request.Request(url, text.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise EngineError(400, f"{url} answered {error.code}: {error.read().decode()}") from None


def fill(template, values):
    """Replaces each ${NAME} in the template by its value. Fails if a value is missing, as the engines do."""

    def value(match):
        if match[1] not in values:
            raise EngineError(400, f"no value for {match[0]} in {template}")
        return values[match[1]]

    return re.sub(r"\$\{([\w.]+)\}", value, template)


def hits_of(pairs):
    """Returns the answer of a search of OpenSearch and Elasticsearch for (id, score)."""
    hits = [{"_id": id, "_score": score, "_source": {"id": id}} for id, score in pairs]
    return {"timed_out": False, "hits": {"total": {"value": len(hits), "relation": "eq"}, "hits": hits}}


def sorted_hits(pairs, scores):
    return hits_of(sorted(((id, score) for (id, _), score in zip(pairs, scores)), key=lambda pair: -pair[1]))


def bulk(engine, _match, _parameters, lines):
    for action, document in itertools.zip_longest(lines[::2], lines[1::2]):
        if action["index"]["_id"] != document["id"]:
            raise EngineError(400, f"{action} and {document}")
        engine.add(document["id"], document["text"])
    return {"errors": False, "items": []}


def matched(engine, query, limit):
    """Returns (id, score) for a `match` query of the field `text`."""
    (field, text), *others = query["match"].items()
    if field != "text" or others:
        raise EngineError(400, f"unknown query {query}")
    return engine.search(text, limit)


class OpenSearch(StandIn):
    def __init__(self):
        super().__init__()
        self.settings = {"plugins.ml_commons.trusted_connector_endpoints_regex": ["^https://another[.]host/.*$"]}
        self.connectors, self.models, self.pipelines = {}, {}, {}

    def get_settings(self, _match, parameters, _body):
        if parameters != {"flat_settings": "true"}:
            raise EngineError(400, f"unknown parameters {parameters}")
        return {"persistent": self.settings, "transient": {}}

    def change_settings(self, _match, _parameters, body):
        changed = {**self.settings, **body["persistent"]}
        self.settings = {name: value for name, value in changed.items() if value is not None}
        return {"acknowledged": True}

    def create_connector(self, _match, _parameters, body):
        url = body["actions"][0]["url"]
        trusted = self.settings.get("plugins.ml_commons.trusted_connector_endpoints_regex", [])
        if not any(re.fullmatch(expression, url) for expression in trusted):
            raise EngineError(400, f"Connector URL is not matching the trusted connector endpoint regex: {url}")
        if not self.settings.get("plugins.ml_commons.connector.private_ip_enabled"):
            raise EngineError(400, f"Remote inference host name has private ip address: {url}")
        self.connectors["connector-1"] = body
        return {"connector_id": "connector-1"}

    def register_model(self, _match, parameters, body):
        if body["function_name"] != "remote" or parameters != {"deploy": "true"}:
            raise EngineError(400, f"unknown model {body}")
        self.models["model-1"] = self.connectors[body["connector_id"]]
        return {"task_id": "task-1", "status": "CREATED", "model_id": "model-1"}

    def model(self, match, _parameters, _body):
        if match[1] not in self.models:
            raise EngineError(404, f"no model {match[1]}")
        return {"model_state": "DEPLOYED"}

    def create_pipeline(self, match, _parameters, body):
        self.pipelines[match[1]] = body["response_processors"]
        return {"acknowledged": True}

    def acknowledge(self, _match, _parameters, _body):
        return {"acknowledged": True}

    def remove(self, match, _parameters, _body):
        for kind, name in (("models", self.models), ("connectors", self.connectors), ("pipeline", self.pipelines)):
            if match[1] == kind:
                del name[match[2]]
        return {"result": "deleted"}

    def remove_index(self, _match, _parameters, _body):
        self.texts.clear()
        return {"acknowledged": True}

    def ask(self, _match, parameters, body):
        pairs = matched(self, body["query"], body["size"])
        if "search_pipeline" not in parameters:
            return hits_of(pairs)
        (processor,) = self.pipelines[parameters["search_pipeline"]]
        rerank = processor["rerank"]
        if rerank["context"] != {"document_fields": ["id"]}:
            raise EngineError(400, f"unknown context {rerank['context']}")
        connector = self.models[rerank["ml_opensearch"]["model_id"]]
        (action,) = connector["actions"]
        for step in ("pre", "post"):
            if action[f"{step}_process_function"] != f"connector.{step}_process.cohere.rerank":
                raise EngineError(400, f"unknown function {action[f'{step}_process_function']}")
        values = {
            **connector["parameters"],
            "documents": json.dumps([id for id, _ in pairs]),
            "query": json.dumps(body["ext"]["rerank"]["query_context"]["query_text"])[1:-1],
            "top_n": str(len(pairs)),
        }
        request = fill(action["request_body"], {f"parameters.{name}": value for name, value in values.items()})
        return sorted_hits(pairs, engine_answers.opensearch(call_reranker(action["url"], request), len(pairs)))

    routes = (
        ("GET", "/_cluster/settings", get_settings),
        ("PUT", "/_cluster/settings", change_settings),
        ("PUT", "/[a-z][a-z-]*", acknowledge),
        ("DELETE", "/[a-z][a-z-]*", remove_index),
        ("POST", "/_bulk", bulk),
        ("POST", "/_plugins/_ml/connectors/_create", create_connector),
        ("POST", "/_plugins/_ml/models/_register", register_model),
        ("GET", "/_plugins/_ml/models/([^/]+)", model),
        ("POST", "/_plugins/_ml/models/([^/]+)/_undeploy", model),
        ("DELETE", "/_plugins/_ml/(models|connectors)/([^/]+)", remove),
        ("PUT", "/_search/pipeline/([^/]+)", create_pipeline),
        ("DELETE", "/_search/(pipeline)/([^/]+)", remove),
        ("POST", "/[a-z][a-z-]*/_search", ask),
    )


class Elasticsearch(StandIn):
    def __init__(self):
        super().__init__()
        self.settings, self.endpoints = {}, {}

    def change_settings(self, _match, _parameters, body):
        self.settings.update(body["persistent"])
        return {"acknowledged": True}

    def create_endpoint(self, match, _parameters, body):
        if body["service"] != "custom":
            raise EngineError(400, f"Unknown service [{body['service']}]")
        settings = body["service_settings"]
        if not self.settings.get("xpack.inference.skip_validate_and_start"):
            self.score(settings, "test query", ["how big"])
        self.endpoints[match[1]] = settings
        return {"inference_id": match[1], "task_type": "rerank"}

    def score(self, settings, query, documents):
        """Returns a score for each document, from maxsimd."""
        names = {"relevance_score": "$.results[*].relevance_score", "reranked_index": "$.results[*].index"}
        if settings["response"]["json_parser"] != names:
            raise EngineError(400, f"unknown parser {settings['response']}")
        request = fill(settings["request"], {"query": json.dumps(query), "input": json.dumps(documents)})
        return engine_answers.elasticsearch(call_reranker(settings["url"], request), len(documents))

    def remove_endpoint(self, match, _parameters, _body):
        del self.endpoints[match[1]]
        return {"acknowledged": True}

    def remove_index(self, _match, _parameters, _body):
        self.texts.clear()
        return {"acknowledged": True}

    def acknowledge(self, _match, _parameters, _body):
        return {"acknowledged": True}

    def ask(self, _match, _parameters, body):
        ((kind, retriever),) = body["retriever"].items()
        if kind == "standard":
            return hits_of(matched(self, retriever["query"], body["size"]))
        if kind != "text_similarity_reranker" or retriever["field"] != "id":
            raise EngineError(400, f"unknown retriever {body}")
        pairs = matched(self, retriever["retriever"]["standard"]["query"], retriever["rank_window_size"])
        endpoint = self.endpoints[retriever["inference_id"]]
        scores = self.score(endpoint, retriever["inference_text"], [id for id, _ in pairs])
        answer = sorted_hits(pairs, [max(score, 0) + min(math.exp(min(score, 0)), 1) for score in scores])
        del answer["hits"]["hits"][body["size"] :]
        return answer

    routes = (
        ("PUT", "/_cluster/settings", change_settings),
        ("PUT", "/_inference/rerank/([^/]+)", create_endpoint),
        ("DELETE", "/_inference/rerank/([^/]+)", remove_endpoint),
        ("PUT", "/[a-z][a-z-]*", acknowledge),
        ("DELETE", "/[a-z][a-z-]*", remove_index),
        ("POST", "/_bulk", bulk),
        ("POST", "/[a-z][a-z-]*/_search", ask),
    )


class Vespa(StandIn):
    def put(self, match, _parameters, body):
        if urllib.parse.unquote(match[1]) != body["fields"]["id"]:
            raise EngineError(400, f"{match[0]} has {body}")
        self.add(body["fields"]["id"], body["fields"]["text"])
        return {"pathId": match[0]}

    def ask(self, _match, _parameters, body):
        if (body["yql"], body["ranking"]) != ("select id from passage where userQuery()", "words"):
            raise EngineError(400, f"unknown query {body}")
        pairs = self.search(body["query"], body["hits"])
        children = [{"relevance": score, "fields": {"id": id}} for id, score in pairs]
        return {"root": {"id": "toplevel", **({"children": children} if children else {})}}

    routes = (
        ("POST", "/document/v1/maxsim/passage/docid/([^/]+)", put),
        ("POST", "/search/", ask),
    )
