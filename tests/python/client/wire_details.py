"""Encodes details of errors by field numbers, for servers in this process."""

import grpc


def varint(number):
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def field(number, value):
    """Returns an encoded field: a varint, or bytes preceded by their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def status(*details, code=8):
    """Returns an encoded google.rpc.Status with this code and these details, (type, bytes)."""
    found = b"".join(
        field(3, field(1, f"type.googleapis.com/google.rpc.{kind}".encode()) + field(2, value))
        for kind, value in details
    )
    return field(1, code) + field(2, b"m") + found


def retry_info(seconds, nanos=0):
    return "RetryInfo", field(1, field(1, seconds) + field(2, nanos))


def bad_request(path, problem):
    return "BadRequest", field(1, field(1, path.encode()) + field(2, problem.encode()))


def error_info(reason, domain="maxsim", **metadata):
    entries = (field(1, key.encode()) + field(2, value.encode()) for key, value in metadata.items())
    return "ErrorInfo", field(1, reason.encode()) + field(2, domain.encode()) + b"".join(field(3, e) for e in entries)


def refuse(context, path, problem, **metadata):
    """Ends a call with the error that maxsimd sends if the field at `path` is wrong."""
    details = status(bad_request(path, problem), error_info("INVALID_FIELD", **metadata))
    context.set_trailing_metadata([("grpc-status-details-bin", details)])
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{path}: {problem}")
