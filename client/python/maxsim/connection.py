"""How a client reaches its server: address, token, name and certificates, from arguments or from the environment."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import grpc

from . import arguments

Path: TypeAlias = "str | os.PathLike[str]"

DEFAULT_PORT = 7070
MAX_MESSAGE_BYTES = 256 << 20
_SCHEMES = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "xds:")
_METADATA_KEY = re.compile("[a-z0-9_.-]+")


@dataclasses.dataclass(frozen=True)
class Connection:
    """The parameters of a channel of grpc or grpc.aio. Without `credentials`, the connection is not encrypted."""

    target: str
    credentials: grpc.ChannelCredentials | None
    options: list[tuple[str, Any]]
    metadata: list[tuple[str, str]]


def resolve(
    target: str | None,
    *,
    token: str | None,
    token_file: Path | None,
    tls: bool | None,
    ca_file: Path | None,
    cert_file: Path | None,
    key_file: Path | None,
    server_name: str | None,
    credentials: grpc.ChannelCredentials | None,
    client_id: str | None,
    client_key: str,
    options: Mapping[str, Any] | None,
) -> Connection:
    """Completes a client's arguments from the environment. Reads the files now, and only once. OSError: a file cannot
    be read. ValueError: an argument has a wrong type, or contradicts another one."""
    _check_types(locals())
    if token is not None and token_file is not None:
        raise ValueError("give token or token_file, not both")
    if token is None and token_file is None:
        token = _environment("MAXSIM_TOKEN")
        token_file = None if token else _environment("MAXSIM_TOKEN_FILE")
    if token_file is not None:
        token = read_token(token_file)
    if token and not _is_printable(token):
        raise ValueError("the token holds a space, the end of a line or a character beyond ASCII")
    client_id = _environment("MAXSIM_CLIENT_ID") if client_id is None else client_id
    if credentials is None:
        credentials = _tls_credentials(tls, ca_file, cert_file, key_file)
    elif tls is not None or ca_file or cert_file or key_file:
        raise ValueError("give credentials, or tls and its files, not both")
    elif not isinstance(credentials, grpc.ChannelCredentials):
        raise ValueError(f"credentials is {arguments.shown(credentials)}; must be a grpc.ChannelCredentials")
    defaults: dict[str, Any] = {
        "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
        "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
        "grpc.lb_policy_name": "round_robin",
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.max_reconnect_backoff_ms": 5000,
    }
    if server_name:
        defaults["grpc.ssl_target_name_override"] = server_name
    metadata = [("authorization", f"Bearer {token}")] if token else []
    if client_id:
        if not all(" " <= character < "\x7f" for character in client_id):
            raise ValueError(f"client_id is {arguments.shown(client_id)}; must be printable ASCII characters")
        metadata.append((client_key, client_id))
    if target is None:
        target = _environment("MAXSIM_SERVER") or "localhost"
    return Connection(server_target(target), credentials, [*{**defaults, **(options or {})}.items()], metadata)


def _check_types(given: Mapping[str, Any]) -> None:
    """Raises ValueError for an argument of `resolve` of a wrong type. A token is a secret, and is not printed."""
    if given["token"] is not None and not isinstance(given["token"], str):
        raise ValueError(f"token is of type {type(given['token']).__name__}; must be a string")
    for name in ("target", "client_id", "server_name"):
        if given[name] is not None:
            arguments.text(given[name], name)
    for name in ("token_file", "ca_file", "cert_file", "key_file"):
        arguments.path(given[name], name)
    key, tls, options = given["client_key"], given["tls"], given["options"]
    if not isinstance(key, str) or not _METADATA_KEY.fullmatch(key):
        raise ValueError(f"client_key is {arguments.shown(key)}; must be of a-z, 0-9, '-', '_' and '.'")
    if tls is not None:
        arguments.flag(tls, "tls")
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise ValueError(f"options is {arguments.shown(options)}; must be a mapping of gRPC's channel options")
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, (int, str, bytes)):
            accepted = "names are strings, values are integers, strings or bytes"
            raise ValueError(f"options[{name!r}] is {arguments.shown(value)}; {accepted}")


def _is_printable(token: str) -> bool:
    return all(" " < character < "\x7f" for character in token)


def server_target(target: str) -> str:
    """Returns an address in the form that gRPC takes. Adds the port if the address has none."""
    if target.startswith(_SCHEMES):
        return target
    if not target or target.startswith(":") or target.endswith(":") or "/" in target:
        raise ValueError(f"{target!r} is not HOST:PORT")
    has_port = not target.endswith("]") if target.startswith("[") else ":" in target
    return target if has_port else f"{target}:{DEFAULT_PORT}"


def read_token(path: Path) -> str:
    """Returns the first token in a file. Lines that begin with # are comments."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)!r} is not UTF-8 text") from error
    for line in lines:
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        # In a server's file, the settings of a tenant may follow.
        first, *settings = token.split(maxsplit=1)
        if settings and settings[0].startswith("{"):
            token = first
        if not _is_printable(token):
            raise ValueError(f"the token in {os.fspath(path)!r} holds a space or a character beyond ASCII")
        return token
    raise ValueError(f"{os.fspath(path)!r} holds no token")


def _tls_credentials(
    tls: bool | None, ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> grpc.ChannelCredentials | None:
    if tls is not False:
        ca_file = ca_file or _environment("MAXSIM_CA_FILE")
        if not cert_file and not key_file:
            cert_file = _environment("MAXSIM_CLIENT_CERT_FILE")
            key_file = _environment("MAXSIM_CLIENT_KEY_FILE")
    elif ca_file or cert_file or key_file:
        raise ValueError("tls is False, but ca_file, cert_file or key_file are for TLS")
    if bool(cert_file) != bool(key_file):
        raise ValueError("cert_file and key_file must be given together")
    if not (tls or ca_file or cert_file):
        return None
    return grpc.ssl_channel_credentials(_read(ca_file), _read(key_file), _read(cert_file))


def _read(path: Path | None) -> bytes | None:
    return pathlib.Path(path).read_bytes() if path else None


def _environment(name: str) -> str | None:
    """Returns an environment variable, or None if it is not set or empty."""
    return os.environ.get(name) or None
