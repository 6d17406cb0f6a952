"""Runs the calls of the conformance suite with the Python package `maxsim` (docs/internals/conformance.md).

python python_client.py [--asyncio] SERVER=GRPC_ADDRESS,HTTP_URL...
"""

import asyncio
import json
import pathlib
import sys

import grpc
from python_lines import answer_lines, without_large_integers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from python_package import PYTHON_CLIENT  # noqa: E402

sys.path.insert(0, str(PYTHON_CLIENT))
import maxsim  # noqa: E402
from maxsim import errors  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402


class Blocking:
    """Calls maxsim.Client."""

    client_class = maxsim.Client

    def run(self, value):
        return value

    def all(self, iterator):
        return list(iterator)


class Asyncio:
    """Calls maxsim.AsyncClient, in an event loop that runs during a call only."""

    client_class = maxsim.AsyncClient

    def __init__(self):
        self._loop = asyncio.new_event_loop()

    def run(self, coroutine):
        async def awaited():
            return await coroutine

        return self._loop.run_until_complete(awaited())

    def all(self, iterator):
        async def collected():
            return [one async for one in iterator]

        return self._loop.run_until_complete(collected())


class Driver:
    def __init__(self, addresses, how):
        self._addresses, self._how, self._clients = addresses, how, {}

    def client(self, options):
        """Returns the client with these options, the same one in every call."""
        key = json.dumps(options, sort_keys=True)
        if key not in self._clients:
            named = {name: options[name] for name in ("token", "tls", "ca_file") if name in options}
            if "timeout_ms" in options:
                named["timeout"] = options["timeout_ms"] / 1000
            retry = {"max_attempts": options["max_attempts"], "resource_exhausted": True}
            if "backoff_ms" in options:
                retry["initial_backoff"] = options["backoff_ms"] / 1000
            retry = maxsim.Retry(jitter=0, **retry)
            target = self._addresses[options["server"]]
            self._clients[key] = self._how.client_class(target, retry=retry, **named)
        return self._clients[key]

    def answer(self, line):
        """Returns the answer to a call."""
        try:
            self._options = line["client"]
            client = self.client(self._options)
            return {"result": getattr(self, line["method"])(client, line["arguments"])}
        except maxsim.MaxsimError as error:
            return {"error": error_of(error)}
        except grpc.RpcError as error:  # of the health service
            made = errors.make_error(error.code(), error.details(), metadata=error.trailing_metadata())
            return {"error": error_of(made)}
        except ValueError as error:
            return {"error": {"code": "INVALID_ARGUMENT", "local": True, "message": str(error)}}

    def rerank(self, client, arguments):
        return ranking_of(self._how.run(client.rerank(**with_refinement(arguments))))

    search = rerank

    def rerank_many(self, client, arguments):
        rankings = self._how.run(client.rerank_many(**with_refinement(arguments)))
        return {"rankings": [ranking_of(one) for one in rankings]}

    def upsert(self, client, arguments):
        return results_of(self._how.run(client.upsert(**arguments)))

    def delete(self, client, arguments):
        if "filter" not in arguments:
            return results_of(self._how.run(client.delete(**arguments)))
        summary = self._how.run(client.delete_matching(**arguments))
        return {name: getattr(summary, name) for name in ("num_deleted", "num_missing", "num_stale", "sequence")}

    def get(self, client, arguments):
        found = self._how.run(client.get(**arguments))
        return {"documents": [stored(one) for one in found], "missing": without_large_integers(list(found.missing))}

    def scroll(self, client, arguments):
        return {"documents": [stored(one) for one in self._how.all(client.scroll(**arguments))]}

    def count(self, client, arguments):
        return {"count": self._how.run(client.count(**arguments))}

    def facets(self, client, arguments):
        found = self._how.run(client.facets(**arguments))
        values = [[one.value, one.count] for one in found]
        return {"values": values, "num_values": found.num_values, "num_documents": found.num_documents}

    def explain(self, client, arguments):
        found = self._how.run(client.explain(**arguments))
        rows = found.similarities.tolist()
        return {"score": found.score, "similarities": rows, "query_tokens": found.query_tokens}

    def health(self, client, arguments):
        """Calls gRPC's own health service, with messages encoded by hand, because the package has no method for it."""
        target, ca_file = self._addresses[self._options["server"]], self._options.get("ca_file")
        if ca_file is None:
            channel = grpc.insecure_channel(target)
        else:
            credentials = grpc.ssl_channel_credentials(pathlib.Path(ca_file).read_bytes())
            channel = grpc.secure_channel(target, credentials)
        service = arguments.get("service", "").encode()
        with channel:
            request = b"\x0a" + bytes([len(service)]) + service if service else b""
            answer = channel.unary_unary("/grpc.health.v1.Health/Check")(request, timeout=600)
        return {"status": ("UNKNOWN", "SERVING", "NOT_SERVING")[answer[1] if answer else 0]}

    def info(self, client, arguments):
        info = self._how.run(client.info())
        limits = {one.name: getattr(info.limits, one.name) for one in info.limits.DESCRIPTOR.fields}
        encoder = {"model": info.encoder.model, "fingerprint": info.encoder.fingerprint, "dim": info.encoder.dim}
        collections = [collection_of(one) for one in info.collections]
        return {"limits": limits, "encoder": encoder, "collections": collections, "loading": info.loading}


def with_refinement(arguments):
    if "refinement" in arguments:
        return {**arguments, "refinement": maxsim.RefinementOptions(**arguments["refinement"])}
    return arguments


def ranking_of(ranking):
    documents = []
    for document in ranking:
        values = document.to_dict()
        if "id" in values:
            values["id"] = without_large_integers(values["id"])
        documents.append(values)
    missing = without_large_integers(list(ranking.missing))
    result = {"documents": documents, "missing": missing, "sequence": ranking.sequence}
    return {**result, "query_tokens": ranking.query_tokens, "query_truncated": ranking.query_truncated}


def results_of(results):
    listed = [{"outcome": one.outcome, "sequence": one.sequence, "truncated": one.truncated} for one in results]
    return {"results": listed, "sequence": results.sequence}


def stored(document):
    result = {"id": without_large_integers(document.id), "num_tokens": document.num_tokens, "version": document.version}
    result["sequence"] = document.sequence
    if document.payload is not None:
        result["payload"] = document.payload
    if document.tokens is not None:
        result["tokens"] = document.tokens.tolist()
    return result


def name_of(enum, number, prefix):
    return enum.Name(number).removeprefix(prefix).lower()


def collection_of(info):
    fields = [{"name": one.name, "kind": name_of(pb.FieldKind, one.kind, "FIELD_KIND_")} for one in info.fields]
    return {
        "name": info.name,
        "state": name_of(pb.CollectionState, info.state, "COLLECTION_STATE_"),
        "dim": info.dim,
        "storage": name_of(pb.DataType, info.storage, "DATA_TYPE_"),
        "id_type": name_of(pb.IdType, info.id_type, "ID_TYPE_"),
        "num_documents": info.num_documents,
        "num_tokens": info.num_tokens,
        "generation": info.generation,
        "live": info.HasField("live"),
        "fields": fields,
    }


def error_of(error):
    result = {"code": error.code().name, "field": error.field, "reason": error.reason, "message": error.message}
    result.update(limit=error.limit, limit_key=error.limit_key)
    if error.retry_after is not None:
        result["retry_after_ms"] = round(error.retry_after * 1000)
    return {name: value for name, value in result.items() if value is not None}


def main():
    arguments = sys.argv[1:]
    how = Asyncio() if "--asyncio" in arguments else Blocking()
    named = (one.split("=", 1) for one in arguments if one != "--asyncio")
    driver = Driver({name: both.split(",")[0] for name, both in named}, how)
    answer_lines(driver)


if __name__ == "__main__":
    main()
