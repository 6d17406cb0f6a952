"""What somebody whose server was not reached can do about it, judged by gRPC's words."""

from __future__ import annotations

import re

# How a message begins that gRPC makes itself, without an answer of any server.
_NOT_REACHED = re.compile(
    "connections to all backends failing|failed to connect to all addresses|empty address list|"
    "DNS resolution failed|errors resolving|address lookup failed",
    re.IGNORECASE,
)


def add_advice(message: str, target: str, is_encrypted: bool) -> str:
    """Returns the message of an UNAVAILABLE with the server's name and advice before it, or as it is where it comes
    from a server that was reached."""
    if not _NOT_REACHED.match(message):
        return message
    return f"cannot reach maxsimd at {target} ({_advice(message, is_encrypted)}): {message}"


def _advice(message: str, is_encrypted: bool) -> str:
    if "http1.x" in message:
        return "is this its HTTP port? The gRPC port is wanted, which is 7070 where nothing else is configured"
    if re.search("DNS resolution|errors resolving|address lookup", message):
        return "is the name right?"
    is_closed = "Socket closed" in message or "onnection reset" in message
    if not is_encrypted:
        if is_closed:
            return "does it want TLS? That is tls=True, or ca_file with the authority of its certificate"
    elif "empty address list" in message:  # gRPC tries no address where it can make no TLS context.
        return "no root certificates could be read: name a file of them with ca_file"
    elif is_closed:
        return "does the port speak TLS, and does it want a client's certificate (cert_file and key_file)?"
    elif re.search("handshake|certificate|peer name|hostname verification", message, re.IGNORECASE):
        return "does its certificate fit ca_file and server_name, and does the port speak TLS?"
    return "start one with 'maxsimd --collection NAME=PATH', or name another as `target` or in MAXSIM_SERVER"
