"""The common base of Client and AsyncClient: their arguments, and the calls that their methods make one after
another."""

from __future__ import annotations

import abc
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import grpc

from . import arguments, connection
from .retries import Retry, check_retry
from .v1 import rerank_pb2 as pb

ResultT = TypeVar("ResultT")


class Step(NamedTuple):
    """One call to the server. `method` names a stub and its method, such as "admin.LoadCollection".

    If `once` is True, the call has the client's timeout for administration, and is not retried."""

    method: str
    request: Any
    timeout: float | None
    once: bool = False


# A generator that yields calls. It receives each call's answer by send(), or its error by throw(), and returns the
# method's result.
Steps: TypeAlias = Generator[Step, Any, ResultT]


class BaseClient(abc.ABC):
    """Holds what a call needs: how the server is reached, timeouts, retries, and the server's limits."""

    _limits: pb.Limits | None = None  # the server's, after the first call that needs them

    def __init__(
        self,
        target: str | None = None,
        *,
        timeout: float = 30.0,
        admin_timeout: float = 600.0,
        retry: Retry = Retry(),
        token: str | None = None,
        token_file: connection.Path | None = None,
        client_id: str | None = None,
        client_key: str = "x-client-id",
        tls: bool | None = None,
        ca_file: connection.Path | None = None,
        cert_file: connection.Path | None = None,
        key_file: connection.Path | None = None,
        server_name: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """target: host:port, or any gRPC name. The default port is 7070. If the name has several addresses
            ("dns:///maxsimd:7070", "ipv4:10.0.0.1:7070,10.0.0.2:7070"), calls go to them in turn. None:
            $MAXSIM_SERVER, or localhost if that is not set.
        timeout: seconds above 0 that a call may take, retries included. admin_timeout: the same for load and the
            other calls that add, change or remove collections.
        retry: how often a call is tried, if it may be repeated.
        token: a token in the server's auth.tokens_file. token_file: a file whose first token is used. If neither is
            given: $MAXSIM_TOKEN, $MAXSIM_TOKEN_FILE.
        client_id: the name by which a busy server shares its time among clients. It replaces this machine's address,
            and is sent as the metadata `client_key`, the server's batching.client_key. None: $MAXSIM_CLIENT_ID.
        tls: True uses TLS, False does not. None uses TLS if there is a ca_file or a cert_file. Without TLS, the token
            is sent unencrypted.
        ca_file (PEM): the authorities that may have signed the server's certificate, or None for those of the system.
            cert_file and key_file: this client's certificate and key. Unless tls is False, files that are not given
            come from $MAXSIM_CA_FILE, $MAXSIM_CLIENT_CERT_FILE and $MAXSIM_CLIENT_KEY_FILE.
        server_name: the name in the server's certificate, if it is not the target's host.
        credentials: gRPC credentials, which replace tls and its files.
        options: further channel options, which take precedence over those of this class.

        ValueError: an argument is wrong; the message names it. OSError: a file cannot be read."""
        self._timeout = arguments.seconds(timeout, "timeout")
        self._admin_timeout = arguments.seconds(admin_timeout, "admin_timeout")
        self._retry = check_retry(retry)
        self._made_of = connection.resolve(
            target,
            token=token,
            token_file=token_file,
            tls=tls,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
            server_name=server_name,
            credentials=credentials,
            client_id=client_id,
            client_key=client_key,
            options=options,
        )
        self._connect()

    def _connect(self) -> None:
        """Creates the connection, unless the first call creates it."""

    def _limits_steps(self, timeout: float | None) -> Steps[pb.Limits]:
        """Returns the server's limits. The first call requests them."""
        limits = self._limits
        if limits is None:
            self._limits = limits = (yield Step("reranker.GetInfo", pb.GetInfoRequest(), timeout)).limits
        return limits
