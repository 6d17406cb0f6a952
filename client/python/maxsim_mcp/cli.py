"""The command line of maxsim-mcp."""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections.abc import Sequence

from . import __version__

_DESCRIPTION = """\
Serves the tools search, explain and list of a maxsimd to an assistant: an MCP server over standard input and output. The
server needs an encoder for the texts of questions. See docs/use/mcp.md.
"""


def _seconds(text: str) -> float:
    """A type of argparse: a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, is {text!r}")
    return value


def _names(text: str) -> list[str]:
    """A type of argparse: names that commas separate."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"must be names separated by commas, is {text!r}")
    return names


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("maxsim-mcp", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"maxsim-mcp {__version__}")
    what = parser.add_argument_group("collections")
    what.add_argument("--collection", metavar="NAME", help="collection of calls that name none")
    what.add_argument(
        "--title-key", metavar="NAME", default="title", help="member of payloads that is the title (default: title)"
    )
    what.add_argument(
        "--text-key", metavar="NAME", default="text", help="member of payloads that is the text (default: text)"
    )
    what.add_argument(
        "--payload-fields",
        metavar="NAME,...",
        type=_names,
        default=[],
        help="read only these members of payloads, the title and the text among them",
    )
    server = parser.add_argument_group("server")
    server.add_argument("--server", metavar="HOST:PORT", help="address of maxsimd (default: $MAXSIM_SERVER, or localhost)")
    server.add_argument("--token-file", metavar="FILE", help="file whose first token is sent (default: $MAXSIM_TOKEN_FILE)")
    server.add_argument("--tls", action="store_true", default=None, help="connect with TLS")
    server.add_argument(
        "--tls-ca", metavar="FILE", help="certificates that may sign the server's (default: $MAXSIM_CA_FILE, or the system's)"
    )
    server.add_argument("--tls-cert", metavar="FILE", help="this client's certificate (default: $MAXSIM_CLIENT_CERT_FILE)")
    server.add_argument("--tls-key", metavar="FILE", help="this client's private key (default: $MAXSIM_CLIENT_KEY_FILE)")
    server.add_argument("--tls-server-name", metavar="NAME", help="name expected in the server's certificate")
    server.add_argument(
        "--client-id", metavar="NAME", help="name whose share of a busy server the calls take (default: $MAXSIM_CLIENT_ID)"
    )
    server.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds, default=30.0, help="bound on one call, retries included (default: 30)"
    )
    return parser


def main(given: Sequence[str] | None = None) -> int:
    """Runs the program with `given` (default: the arguments of the process). Returns its exit code: 0, or 2 after one
    line on standard error says what is wrong."""
    parsed = make_parser().parse_args(given)
    # By default, Python would wait for the thread that reads standard input.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import maxsim

    try:
        from .server import serve
        from .tools import Settings
    except ImportError as error:
        print(
            f"maxsim-mcp: the package mcp, version 2 or later, is missing ({error}): pip install 'maxsim[mcp]'",
            file=sys.stderr,
        )
        return 2
    try:
        client = maxsim.AsyncClient(
            parsed.server,
            timeout=parsed.timeout,
            token_file=parsed.token_file,
            client_id=parsed.client_id,
            tls=parsed.tls,
            ca_file=parsed.tls_ca,
            cert_file=parsed.tls_cert,
            key_file=parsed.tls_key,
            server_name=parsed.tls_server_name,
        )
    except (ValueError, OSError) as error:
        print(f"maxsim-mcp: {error}", file=sys.stderr)
        return 2
    serve(client, Settings(parsed.collection, parsed.title_key, parsed.text_key, parsed.payload_fields))
    return 0
