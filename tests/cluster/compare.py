"""Compares the answers of two servers: everything but the times must be equal."""

import json

import grpc
import nodes  # noqa: F401  which finds the package maxsim
from maxsim.status_details import DETAILS_KEY, StatusDetails, read_metadata


class Failure:
    """An error instead of an answer. `said` has its details."""

    def __init__(self, code, message, said=None):
        self.code, self.message, self.said = code, message, said or StatusDetails()

    def essence(self):
        return self.code, self.said.field, self.said.reason, self.said.limit, self.said.limit_key

    def __repr__(self):
        return f"error {self.code}: {self.message}"


def call(method, request, timeout_s=60):
    """Returns the answer of a call, or a Failure."""
    try:
        return method(request, timeout=timeout_s)
    except grpc.RpcError as error:
        return Failure(error.code().value[0], error.details(), read_metadata(error.trailing_metadata()))


def stream(stub, requests, timeout_s=120):
    """Returns a stream's answer to each request, by request_id."""
    answers = {}
    for one in stub.RerankStream(iter(requests), timeout=timeout_s):
        said = read_metadata([(DETAILS_KEY, one.status_details)])
        answers[one.request_id] = Failure(one.code, one.message, said) if one.code else one.response
    return answers


def bits(answer):
    """Returns the bytes of an answer without its times."""
    if not hasattr(answer, "timings"):
        return answer.SerializeToString(deterministic=True)
    copy = type(answer)()
    copy.CopyFrom(answer)
    copy.ClearField("timings")
    return copy.SerializeToString(deterministic=True)


def difference(wanted, got):
    """Returns a text that says how an answer or failure differs from that of the single server, "" if it does not
    differ."""
    if isinstance(wanted, Failure) or isinstance(got, Failure):
        if not (isinstance(wanted, Failure) and isinstance(got, Failure)):
            return f"{str(got)[:600]!s} instead of {str(wanted)[:600]!s}"
        return "" if wanted.essence() == got.essence() else f"{got} instead of {wanted}"
    if bits(wanted) == bits(got):
        return ""
    return "\n".join(_fields(wanted, got, "")) or "other bits of the same fields"


def _fields(wanted, got, path, limit=8):
    """Returns the fields that differ, each in a line."""
    found = []
    for field in wanted.DESCRIPTOR.fields:
        a, b = getattr(wanted, field.name), getattr(got, field.name)
        if field.name == "timings" or a == b:
            continue
        name = f"{path}{field.name}"
        if field.message_type is None or not hasattr(a, "DESCRIPTOR") and len(a) != len(b):
            a, b = (list(x) if hasattr(x, "append") and field.message_type is None else x for x in (a, b))
            found.append(f"{name}: {str(b)[:300]} instead of {str(a)[:300]}")
        elif hasattr(a, "DESCRIPTOR"):
            found += _fields(a, b, name + ".") or [f"{name}: set in one alone"]
        else:
            for i, (x, y) in enumerate(zip(a, b)):
                if x != y:
                    found += _fields(x, y, f"{name}[{i}].")
    return found[:limit]


def http_difference(wanted, got):
    """Says how status and body of an HTTP answer differ."""
    if wanted[0] != got[0]:
        return f"status {got[0]} {got[1][:300]!r} instead of {wanted[0]} {wanted[1][:300]!r}"
    a, b = (json.loads(body) for _, body in (wanted, got))
    if wanted[0] != 200:
        a, b = ({**one["error"], "message": ""} for one in (a, b))
    else:
        for one in (a, b):
            if isinstance(one, dict):
                one.pop("timings", None)
                # The server generates an id for the answer to a request without one. Such ids are random, so they are
                # not compared.
                if str(one.get("id", "")).startswith("rerank-"):
                    one["id"] = "rerank-"
    return "" if a == b else f"{str(b)[:2000]} instead of {str(a)[:2000]}"


def short(request):
    """Returns a request in readable form. Long parts are cut."""
    if not hasattr(request, "DESCRIPTOR"):
        return str(request)[:1000]
    lines = [line if len(line) < 120 else line[:120] + "..." for line in str(request).splitlines()]
    return "\n".join(lines if len(lines) < 120 else [*lines[:90], "...", *lines[-30:]])
