"""The entry points of the programs. Each replaces the Python process by the program (exec). So the process id and the
standard streams stay the same, and signals reach the program itself."""

from __future__ import annotations

import os
import signal
import sys
from typing import MutableMapping, NoReturn

from . import program

# Paths where distributions keep the certificates of authorities. The libcrypto in this package looks only at the first,
# Debian's.
AUTHORITIES = (
    "/usr/lib/ssl/certs",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def use_authorities_of_the_system(environment: MutableMapping[str, str]) -> None:
    """Points libcrypto to the system's authorities, unless the environment does so already or they are at Debian's
    path."""
    if "SSL_CERT_FILE" in environment or "SSL_CERT_DIR" in environment:
        return
    present = next((path for path in AUTHORITIES if os.path.exists(path)), AUTHORITIES[0])
    if present != AUTHORITIES[0]:
        environment["SSL_CERT_FILE"] = present


def launch(name: str) -> NoReturn:
    use_authorities_of_the_system(os.environ)
    # Python ignores these two signals from its start, and the program would inherit that.
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
