"""Makes documents for the tests of maxsim.collection, and runs maxsim-shard, with which they compare
CollectionWriter."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))
from maxsim.collection import CollectionWriter  # noqa: E402

SHARD_PROGRAM = ""


def main():
    """Runs the module's tests. If the program has an argument, it is the path of maxsim-shard."""
    global SHARD_PROGRAM
    if len(sys.argv) > 1 and os.path.exists(sys.argv[1]):
        SHARD_PROGRAM = sys.argv.pop(1)
    sys.modules["collection_fixture"].SHARD_PROGRAM = SHARD_PROGRAM
    unittest.main(verbosity=2)


def run_shard(*arguments):
    """Runs maxsim-shard; returns its outcome."""
    program = sys.modules["collection_fixture"].SHARD_PROGRAM
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


def documents(seed, count, dim, dtype=np.float32, longest=40, id_type="string", payloads="none"):
    """Returns (id, vectors, payload) of random documents. Some vectors are all zeros, tiny or large."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(count):
        size = int(rng.integers(1, longest + 1))
        vectors = rng.standard_normal((size, dim)) * rng.choice([1, 1, 1, 30, 1e-3, 1e-6, 1e-9, 0])
        id = f"dök {index}" if id_type == "string" else index * 7 - 50
        payload = None
        if payloads == "all" or (payloads == "some" and index % 3 == 1) or (payloads == "last" and index == count - 1):
            payload = {"title": f'T {index} é"\n\u0001', "n": index, "x": [1, 2.5, None, True, {"a": {}}]}
        made.append((id, vectors.astype(dtype), payload))
    return made


class TemporaryFolderTest(unittest.TestCase):
    """Gives each test a folder of its own."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def build(self, made, target, **options):
        """Builds the documents with maxsim-shard into `target`."""
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        np.save(source / "tokens.npy", np.concatenate([vectors for _, vectors, _ in made]))
        np.save(source / "lengths.npy", np.array([len(vectors) for _, vectors, _ in made]))
        with open(source / "docs.jsonl", "w", encoding="utf-8") as file:
            for id, _, payload in made:
                file.write(json.dumps({"id": id, **(payload or {})}, ensure_ascii=False) + "\n")
        command = ["build", "--tokens", source / "tokens.npy", "--lengths", source / "lengths.npy", "--quiet"]
        command += ["--ids", source / "docs.jsonl", "--output", target]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", value]
        outcome = run_shard(*command)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)

    def write(self, made, target, dim, **options):
        """Writes the documents with CollectionWriter into `target`."""
        with CollectionWriter(target, dim=dim, **options) as writer:
            writer.add_many(made)
        return writer.summary

    def assert_same_files(self, one, other):
        """Checks that two folders have the same files, byte for byte. In manifests, ignores the program and the
        time."""
        self.assertEqual(sorted(os.listdir(one)), sorted(os.listdir(other)))
        for name in os.listdir(one):
            texts = [(folder / name).read_bytes() for folder in (one, other)]
            if name in ("collection.json", "collection.previous.json"):
                texts = [[line for line in text.split(b"\n") if b'"created_' not in line] for text in texts]
            self.assertTrue(texts[0] == texts[1], f"{one / name} and {other / name} differ")

    def assert_whole(self, folder):
        """Checks that maxsim-shard verify, which reads every byte, finds no problem."""
        outcome = run_shard("verify", "--quiet", folder)
        self.assertEqual(outcome.returncode, 0, outcome.stdout + outcome.stderr)
