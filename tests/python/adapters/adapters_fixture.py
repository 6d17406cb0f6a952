"""Shared by the adapters' tests: the demo collection, a maxsimd that serves it and uses the demo encoder, and functions
that compute the expected ranking."""

import contextlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "service")]
sys.path.append(str(ROOT / "tests" / "service" / "client"))

from python_package import PYTHON_CLIENT, use_package  # noqa: E402

use_package()

import numpy as np  # noqa: E402
from encoder_fixture import Program  # noqa: E402
from program_fixture import Maxsimd  # noqa: E402

DEMO = ROOT / "demo"
# Documents whose scores differ by less than this may change places. A score adds about 12 similarities up to 1, and
# each may be off by 2^-11 because vectors are rounded to float16.
TIE = 5e-3
EXAMPLE_LIMIT_S = 240


FIELDS = "lang:keyword,year:integer,price:number,sold:boolean,at:time,tags:keywords,author:keyword=about.author"


class World(contextlib.ExitStack):
    """A maxsimd from the folder of the programs, which runs from start() to the end of the `with` block. `texts` and
    `ids` are of some documents of the demo collection, in its order. The collection "fields" has the same documents
    with the fields of FIELDS. `payloads` maps its ids to payloads."""

    def start(self, programs: pathlib.Path, num_documents: int = 15) -> None:
        self.folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="maxsim-adapters-")))
        subprocess.run([DEMO / "build.sh", "--bin", programs, "--output", self.folder / "demo"], check=True)
        self.payloads = build_fields(programs, self.folder)
        encoder = Program("--demo")
        self.callback(encoder.stop)
        self.encoder_url = f"http://127.0.0.1:{encoder.wait_until_ready().port}"
        self.server = Maxsimd(
            programs,
            self.folder / "server",
            {"demo": self.folder / "demo", "fields": self.folder / "fields"},
            **{"encoder.url": self.encoder_url, "store.allowed_roots": self.folder},
        )
        self.callback(self.server.stop)
        self.target = f"127.0.0.1:{self.server.grpc_port}"

        passages = [json.loads(line) for line in open(DEMO / "passages.jsonl", encoding="utf-8")]
        self.all_ids = [passage["id"] for passage in passages]
        self.all_texts = [f"{passage['title']}. {passage['text']}" for passage in passages]  # as demo/encode.py has it
        self.questions = [json.loads(line)["text"] for line in open(DEMO / "queries.jsonl", encoding="utf-8")]
        self.vectors = _split("tokens.npy", "lengths.npy")
        self.question_vectors = _split("query_tokens.npy", "query_lengths.npy")
        chosen = range(0, len(passages), len(passages) // num_documents)
        self.ids = [self.all_ids[i] for i in chosen]
        self.texts = [self.all_texts[i] for i in chosen]

    def scores(self, question: int, ids: list[str] | None = None) -> dict[str, float]:
        """Returns the MaxSim of a question with documents (default: all), by their ids."""
        wanted = set(self.all_ids if ids is None else ids)
        query = self.question_vectors[question]
        return {id: maxsim(query, self.vectors[i]) for i, id in enumerate(self.all_ids) if id in wanted}


def build_fields(programs: pathlib.Path, folder: pathlib.Path) -> dict[str, dict]:
    """Builds the collection "fields" in the folder. Returns its payloads by id. Each payload lacks values of some
    fields."""
    chance = random.Random(46)
    payloads = {}
    for line in open(DEMO / "passages.jsonl", encoding="utf-8"):
        passage = json.loads(line)
        values = {
            "lang": chance.choice(["de", "en", "en", "fr"]),
            "year": chance.randrange(2018, 2026),
            "price": chance.randrange(40) / 4,
            "sold": chance.random() < 0.5,
            "at": f"2024-0{chance.randrange(1, 9)}-01T12:00:00Z",
            "tags": chance.sample(["draft", "new", "old", "red"], chance.randrange(4)),
            "about": {"author": chance.choice(["Ada", "Bo"])},
        }
        kept = {name: value for name, value in values.items() if chance.random() < 0.8}
        payloads[passage["id"]] = {"title": passage["title"], "text": passage["text"], **kept}
    with open(folder / "ids.jsonl", "w", encoding="utf-8") as ids:
        ids.writelines(json.dumps({"id": id, **payload}) + "\n" for id, payload in payloads.items())
    command = [programs / "maxsim-shard", "build", "--quiet", "--name", "fields", "--output", folder / "fields"]
    command += ["--tokens", DEMO / "tokens.npy", "--lengths", DEMO / "lengths.npy", "--ids", folder / "ids.jsonl"]
    subprocess.run([*command, "--fields", FIELDS], check=True)
    return payloads


def maxsim(query: np.ndarray, document: np.ndarray) -> float:
    """Returns the MaxSim of [tokens, dim] vectors in FP64."""
    return float((query.astype(np.float64) @ document.T.astype(np.float64)).max(axis=1).sum())


def check_ranking(test, ranked, scores, top_k=None, tie=TIE):
    """Fails the test unless `ranked`, [(key, score)], has the best `top_k` keys (None: all) of `scores`, {key: score},
    in the order of the scores. Keys whose scores differ by at most `tie` may change places."""
    ranked = list(ranked)
    wanted = sorted(scores.values(), reverse=True)[:top_k]
    test.assertEqual(len(ranked), len(wanted))
    test.assertEqual(len({key for key, _ in ranked}), len(ranked), "a document is there twice")
    for (key, score), best in zip(ranked, wanted):
        test.assertAlmostEqual(score, scores[key], delta=tie, msg=key)
        test.assertAlmostEqual(score, best, delta=tie, msg=f"{key} has another's place")


def _split(tokens: str, lengths: str) -> list[np.ndarray]:
    return np.split(np.load(DEMO / tokens), np.cumsum(np.load(DEMO / lengths))[:-1])


def run_example(world: World, program: str, *options, demo: bool = True):
    """Runs a program of examples/python_frameworks with the world's server. Returns (id, score) of each printed line
    or, if `demo` is false, the lines."""
    command = [sys.executable, ROOT / "examples" / "python_frameworks" / program, world.target]
    command += [*([DEMO] if demo else []), *options]
    environment = dict(os.environ, PYTHONPATH=str(PYTHON_CLIENT), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=EXAMPLE_LIMIT_S, env=environment
    )
    if done.returncode != 0:
        raise AssertionError(f"{program} failed:\n{done.stdout}{done.stderr}")
    print(f"{program}\n{done.stdout}", flush=True)
    if not demo:
        return done.stdout.splitlines()
    lines = [re.fullmatch(r"\d\. (\S+) (\d+\.\d{4}) \S.*", line) for line in done.stdout.splitlines()]
    return [(line[1], float(line[2])) for line in lines]
