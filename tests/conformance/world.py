"""The servers that every driver is tested with, their collections, and the encoder for their texts."""

import json
import pathlib
import socket
import subprocess
import sys

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "service"), str(TESTS / "service" / "client")]
sys.path.append(str(TESTS / "python" / "client"))
from encoder_fixture import LocalServer  # noqa: E402
from program_fixture import Maxsimd  # noqa: E402
from python_package import use_package  # noqa: E402

use_package()
from maxsim import Client  # noqa: E402
from maxsim_encoder.encoder import Encoded, EncoderInfo, length_limit  # noqa: E402

from refusing_proxy import RefusingProxy  # noqa: E402

TOKENS = {"search": "token-that-searches", "write": "token-that-writes", "admin": "token-that-administers"}
DIM = 8
# Small limits, so that small requests exceed them.
LIMITS = {
    "limits.max_queries_per_request": 5,
    "limits.max_query_tokens": 8,
    "limits.max_document_tokens": 12,
    "limits.max_candidates_per_query": 20,
    "limits.max_inline_documents": 6,
    "limits.max_top_k": 50,
}


class WordEncoder:
    """An encoder model that makes one vector per word. Queries are cut after `max_query_words` words, documents after
    `max_document_words`."""

    def __init__(self, data):
        self._words, self._unknown = data["words"], data["unknown_word"]
        lengths = data["max_query_words"], data["max_document_words"]
        self.info = EncoderInfo("words", "00000000000000c0", DIM, "", "", *lengths, False)

    def encode(self, texts, kind, max_tokens):
        results = []
        for text in texts:
            words = text.split()
            kept = words[: length_limit(self.info, kind, max_tokens)]
            vectors = np.array([self._words.get(word, self._unknown) for word in kept], np.float32)
            results.append(Encoded(vectors, kept, len(kept) < len(words)))
        return results

    def count_tokens(self, texts, kind):
        return [len(text.split()) for text in texts]


class World:
    """The test's servers, by the names that cases use:

    plain     needs neither a token nor TLS
    secure    uses TLS and needs one of the tokens in TOKENS; holds only the collection "passages"
    refusing  forwards calls to `plain`, but refuses the calls that a case names (refusing_proxy.py)
    closed    an address at which no server listens

    Creates the collections in `folder`. `addresses` maps a server's name to its gRPC and HTTP address ("" if none)."""

    def __init__(self, programs, folder, data):
        self.folder, self.data, self._num_live = folder, data, 0
        self._stops = []
        try:
            self._start(programs)
        except BaseException:
            self.stop()
            raise

    def _start(self, programs):
        encoder = LocalServer(WordEncoder(self.data))
        self._stops.append(encoder.stop)
        collections = {name: self._build(programs, name) for name in self.data["collections"]}
        (self.folder / "live").mkdir()
        common = {"encoder.url": f"http://127.0.0.1:{encoder.port}", "encoder.timeout": "10m", **LIMITS}
        live = {"store.allowed_roots": self.folder / "live"}
        plain = self._serve(programs, "plain", collections, **common, **live)
        self.ca_file, self.other_ca_file = self._certificates()
        for name, token in TOKENS.items():
            (self.folder / name).write_text(token + "\n")
        secure = self._serve(
            programs,
            "secure",
            {"passages": collections["passages"]},
            **common,
            **{"tls.cert_file": self.ca_file, "tls.key_file": self.folder / "server.key"},
            **{"auth.tokens_file": self.folder / "search", "auth.write_tokens_file": self.folder / "write"},
            **{"auth.admin_tokens_file": self.folder / "admin"},
        )
        self.refusing = RefusingProxy(plain.address, plain.url)
        self._stops.append(self.refusing.stop)
        # The socket keeps the port, so that no other program can listen at it.
        bound = socket.socket()
        self._stops.append(bound.close)
        bound.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{bound.getsockname()[1]}"
        self.addresses = {
            "plain": (plain.address, plain.url),
            "secure": (secure.address, secure.url.replace("http:", "https:")),
            "refusing": (self.refusing.address, self.refusing.url),
            "closed": (closed, f"http://{closed}"),
        }
        self._client = Client(plain.address)
        self._stops.append(self._client.close)

    def stop(self):
        while self._stops:
            self._stops.pop()()

    def start_live(self, description):
        """Replaces the live collection "notes" on the plain server by a new one with these documents."""
        if self._num_live:
            self._client.unload("notes")
        self._num_live += 1
        fields = fields_text(description["fields"])
        path = str(self.folder / "live" / f"notes-{self._num_live}")
        self._client.create_collection("notes", DIM, path=path, storage="f32", fields=fields)
        for document in description["documents"]:
            self._client.upsert("notes", [document])

    def _serve(self, programs, name, collections, **flags):
        server = Maxsimd(programs, self.folder / f"server-{name}", collections, **flags)
        self._stops.append(server.stop)
        return server

    def _build(self, programs, name):
        """Builds a collection with maxsim-shard. Returns its folder."""
        description = self.data["collections"][name]
        documents = description["documents"]
        source = self.folder / f"{name}-source"
        source.mkdir()
        np.save(source / "tokens.npy", np.concatenate([np.array(one["tokens"], np.float32) for one in documents]))
        np.save(source / "lengths.npy", np.array([len(one["tokens"]) for one in documents], np.int32))
        with open(source / "docs.jsonl", "w", encoding="utf-8") as lines:
            for one in documents:
                lines.write(json.dumps({"id": one["id"], **one.get("payload", {})}) + "\n")
        command = [programs / "maxsim-shard", "build", "--tokens", source / "tokens.npy", "--lengths"]
        command += [source / "lengths.npy", "--ids", source / "docs.jsonl", "--output", self.folder / name]
        command += ["--name", name, "--storage", description["storage"], "--id-type", description["id_type"], "--quiet"]
        if description["fields"]:
            command += ["--fields", fields_text(description["fields"])]
        subprocess.run(list(map(str, command)), check=True)
        return self.folder / name

    def _certificates(self):
        """Makes the secure server's certificate, and another certificate for the same address that does not verify the
        server. Returns the files of both."""
        made = []
        for name in ("server", "other"):
            made.append(self.folder / f"{name}.pem")
            command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
            command += ["-keyout", self.folder / f"{name}.key", "-out", made[-1]]
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
        return made


def fields_text(fields):
    """Returns declared fields in the form of `maxsim-shard build --fields`."""
    named = [f"{one['name']}:{one['kind']}" + (f"={one['path']}" if "path" in one else "") for one in fields]
    return ",".join(named)
