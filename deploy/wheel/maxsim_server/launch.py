"""The entry points: each replaces the Python process by the program, which keeps its number, its standard streams and
its signals."""

from __future__ import annotations

import os
import signal
import sys
from typing import MutableMapping, NoReturn

from . import program

# Where distributions keep the authorities that certificates are checked against. The libcrypto of the package looks in
# Debian's place, the first.
AUTHORITIES = (
    "/usr/lib/ssl/certs",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def use_authorities_of_the_system(environment: MutableMapping[str, str]) -> None:
    """Names the system's authorities to libcrypto, unless the environment does or they are in Debian's place."""
    if "SSL_CERT_FILE" in environment or "SSL_CERT_DIR" in environment:
        return
    present = next((path for path in AUTHORITIES if os.path.exists(path)), AUTHORITIES[0])
    if present != AUTHORITIES[0]:
        environment["SSL_CERT_FILE"] = present


def launch(name: str) -> NoReturn:
    use_authorities_of_the_system(os.environ)
    # Python ignores these two from its start, and an ignored signal stays ignored in the program.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    path = program(name)
    try:
        os.execv(path, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot run {path}: {error.strerror}")


def maxsimd() -> NoReturn:
    launch("maxsimd")


def maxsimctl() -> NoReturn:
    launch("maxsimctl")


def maxsim_shard() -> NoReturn:
    launch("maxsim-shard")


def maxsim_loadtest() -> NoReturn:
    launch("maxsim-loadtest")
