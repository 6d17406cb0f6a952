"""The kinds of traffic of hostile_soak_test.py. Each is a function of (soak, random) that makes one call or attack.

Each function knows which outcomes its calls may have, and reports any other outcome to soak.fail.
"""

import json
import socket
import time

import grpc

# Outcomes that a valid call may have besides a correct answer: under hostile traffic the server may refuse the call.
REFUSALS = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED}
# Outcomes that a call with mutated bytes may have: the bytes may be no request at all, or another valid request.
MUTATED = REFUSALS | {
    grpc.StatusCode.OK,
    grpc.StatusCode.FAILED_PRECONDITION,  # another generation than the collection's
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OUT_OF_RANGE,
}
VALID_TIMEOUT_S = 60
# gRPC 1.51 shrinks its windows when its memory quota is nearly full. Then it ends calls of well-behaved clients with
# this error, for data that the earlier window allowed.
WINDOW_SHRUNK = "RST_STREAM with error code 1"


def outcome_of(call):
    """Returns the answer of a call, or None, and its code."""
    try:
        return call(), grpc.StatusCode.OK
    except grpc.RpcError as error:
        return None, grpc.StatusCode.UNAVAILABLE if WINDOW_SHRUNK in (error.details() or "") else error.code()


def valid(soak, random):
    i = random.randrange(len(soak.questions.requests))
    answer, code = outcome_of(
        lambda: soak.stub().Rerank(soak.questions.requests[i], metadata=soak.metadata, timeout=VALID_TIMEOUT_S)
    )
    soak.count("valid", code.name)
    if answer is not None:
        soak.expect_right(i, answer)
    elif code not in REFUSALS:
        soak.fail(f"a valid call ended with {code.name}")


def streamed(soak, random):
    """Pipelines a few requests over one stream and compares each answer."""
    chosen = [random.randrange(len(soak.questions.requests)) for _ in range(random.randint(1, 12))]
    call = soak.stub().RerankStream(
        (soak.questions.requests[i] for i in chosen), metadata=soak.metadata, timeout=VALID_TIMEOUT_S
    )
    answered = 0
    try:
        for response in call:
            answered += 1
            soak.count("streamed", str(response.code))
            if response.code == 0:
                soak.expect_right(int(response.request_id), response.response)
            elif response.code not in (c.value[0] for c in REFUSALS):
                soak.fail(f"a valid request of a stream was answered with code {response.code}: {response.message}")
        if answered != len(chosen):
            soak.fail(f"a stream ended well with {answered} of {len(chosen)} answers")
    except grpc.RpcError as error:
        soak.count("streamed", error.code().name)
        if error.code() not in REFUSALS and WINDOW_SHRUNK not in error.details():
            soak.fail(f"a stream ended with {error.code().name}: {error.details()}")


def over_http(soak, random):
    i = random.randrange(len(soak.http_bodies))
    status, body = soak.post(soak.http_bodies[i])
    soak.count("http", str(status))
    if status == 200 and essence_of_json(body) != soak.http_answers[i]:
        soak.fail(f"HTTP request {i} has another answer than before")
    if status not in (0, 200, 429, 503):
        soak.fail(f"a valid HTTP request was answered with {status}: {body[:200]!r}")


def essence_of_json(body):
    return [(one["id"], one["index"], one["relevance_score"]) for one in json.loads(body)["results"]]


def mutate(random, raw):
    """Returns a copy of the message in which a few bytes are changed, removed, repeated or inserted."""
    data = bytearray(raw)
    for _ in range(random.randint(1, 6)):
        place = random.randrange(len(data) + 1)
        kind = random.randrange(4)
        if kind == 0 and data:
            data[place % len(data)] = random.randrange(256)
        elif kind == 1:
            del data[place : place + random.randrange(40)]
        elif kind == 2:
            data[place:place] = data[place : place + random.randrange(40)]
        else:
            data[place:place] = random.randbytes(random.randrange(12))
    return bytes(data)


def mutated(soak, random):
    raw = random.choice(soak.raw_requests)
    call = soak.channel().unary_unary("/maxsim.v1.Reranker/Rerank")
    _, code = outcome_of(lambda: call(mutate(random, raw), metadata=soak.metadata, timeout=VALID_TIMEOUT_S))
    soak.count("mutated", code.name)
    if code not in MUTATED:
        soak.fail(f"a mutated call ended with {code.name}")


def mutated_over_http(soak, random):
    body = random.choice(soak.http_bodies)
    head = f"POST /v1/rerank HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {soak.server.token}\r\nConnection: close\r\n"
    raw = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    wrong_head = random.random() < 0.5
    raw = mutate(random, raw[: len(head)]) + raw[len(head) :] if wrong_head else raw[:-len(body)] + mutate(random, body)
    try:
        with socket.create_connection(("127.0.0.1", soak.server.http_port), timeout=2) as one:
            one.sendall(raw)
            one.shutdown(socket.SHUT_WR)
            answer = one.recv(65536)
    except OSError:
        answer = b""
    status = answer.split(b" ", 2)[1].decode() if answer.startswith(b"HTTP/1.") else "none"
    soak.count("mutated http", status)
    if status == "500":
        soak.fail(f"a mutated HTTP request was answered with 500: {answer[-300:]!r}")


def cancelled(soak, random):
    request = random.choice(soak.questions.requests)
    call = soak.stub().Rerank.future(request, metadata=soak.metadata, timeout=VALID_TIMEOUT_S)
    time.sleep(random.random() * 0.003)
    call.cancel()
    soak.count("cancelled", "-")


def expired(soak, random):
    i = random.randrange(len(soak.questions.requests))
    answer, code = outcome_of(
        lambda: soak.stub().Rerank(soak.questions.requests[i], metadata=soak.metadata, timeout=random.random() * 0.003)
    )
    soak.count("expired", code.name if answer is not None or code != grpc.StatusCode.OK else "OK without a message")
    if answer is not None:
        soak.expect_right(i, answer)
    # If the deadline passes just after the status OK arrives, gRPC's client may return OK without a message.
    elif code not in REFUSALS | {grpc.StatusCode.OK}:
        soak.fail(f"a call with a short deadline ended with {code.name}")


def without_token(soak, random):
    wrong = random.choice([[], [("authorization", "Bearer another")], [("authorization", "Basic " + soak.server.token)]])
    _, code = outcome_of(
        lambda: soak.stub().Rerank(soak.questions.requests[0], metadata=wrong, timeout=VALID_TIMEOUT_S)
    )
    soak.count("without token", code.name)
    if code not in REFUSALS | {grpc.StatusCode.UNAUTHENTICATED}:
        soak.fail(f"a call without a known token ended with {code.name}")


KINDS = (valid, valid, streamed, over_http, mutated, mutated_over_http, cancelled, expired, without_token)
