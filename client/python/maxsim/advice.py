"""Error messages for calls that did not reach a server, or did not get an answer in time. Each replaces a message of
gRPC, which is recognised by its words. The error's `__cause__` keeps gRPC's message."""

from __future__ import annotations

import re

# How the messages begin that gRPC itself makes if no server was reached.
_NOT_REACHED = re.compile(
    "connections to all backends failing|failed to connect to all addresses|empty address list|"
    "DNS resolution failed|errors resolving|address lookup failed",
    re.IGNORECASE,
)
_OUT_OF_TIME = re.compile("deadline exceeded", re.IGNORECASE)
# Reasons, each with the words (of gRPC, OpenSSL or BoringSSL) that identify it in a message. The first match counts.
_REASONS = (
    ("http1.x", "it answers in HTTP/1"),
    ("DNS resolution|errors resolving|address lookup", "no address was found for the name"),
    ("certificate has expired|CERTIFICATE_EXPIRED", "its certificate has expired"),
    ("certificate.verify.failed", "its certificate was signed by none of the known authorities"),
    ("not in peer certificate|hostname verification", "its certificate is for another name"),
    ("wrong.version.number", "it does not speak TLS"),
    ("connection refused", "the connection was refused"),
    ("unreachable|no route to host", "there is no route to it"),
    ("timed out|timeout|FD shutdown", "the connection took too long"),
    ("socket closed|connection reset|broken pipe", "it closed the connection"),
    ("no such file", "there is no such socket"),
)


def add_advice(message: str, target: str, is_encrypted: bool) -> str:
    """Returns the message to show for an UNAVAILABLE error. If the call reached no server, replaces gRPC's message by
    the server's name, advice and the reason. Otherwise returns the server's message unchanged."""
    if not _NOT_REACHED.match(message):
        return message
    found = (reason for words, reason in _REASONS if re.search(words, message, re.IGNORECASE))
    reason = next(found, "")
    return f"cannot reach maxsimd at {target} ({_advice(message, is_encrypted)})" + (f": {reason}" if reason else "")


def name_timeout(message: str, target: str, seconds: float | None) -> str:
    """Returns the message to show for a DEADLINE_EXCEEDED error. Replaces gRPC's own message by the server's name and
    the timeout. Returns a message of the server unchanged."""
    if seconds is None or not _OUT_OF_TIME.match(message):
        return message
    return f"no answer from maxsimd at {target} within {seconds:g} s, the timeout of the call"


def _advice(message: str, is_encrypted: bool) -> str:
    if "http1.x" in message:
        return "is this its HTTP port? The gRPC port is wanted, which is 7070 where nothing else is configured"
    if re.search("DNS resolution|errors resolving|address lookup", message):
        return "is the name right?"
    is_closed = "Socket closed" in message or "onnection reset" in message
    if not is_encrypted:
        if is_closed:
            return "does it need TLS? That is tls=True, or ca_file with the authority of its certificate"
    elif "empty address list" in message or "create security handshaker" in message:  # gRPC has no TLS context
        return "no root certificates could be read: name a file of them with ca_file"
    elif is_closed:
        return "does the port speak TLS, and does it need a client's certificate (cert_file and key_file)?"
    elif re.search("handshake|certificate|peer name|hostname verification", message, re.IGNORECASE):
        return "does its certificate fit ca_file and server_name, and does the port speak TLS?"
    return "start one with 'maxsimd --collection NAME=PATH', or name another as `target` or in MAXSIM_SERVER"
