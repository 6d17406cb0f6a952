#!/usr/bin/env python3
"""Trains a head with examples/train on Debian packages that no question is about. encode.py makes the `trained`
vectors with it.

    bench/search/train_head.py --data data --library build/release/lib/libmaxsim.so

Runs examples/train/train.py on training/ (written by corpus.py) and copies the head to DATA/head.npy: float32 [--dim,
384]. Needs PyTorch, and the libraries of demo/requirements.txt. On one core it takes some five minutes.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libmaxsim.so")
    parser.add_argument("--dim", type=int, default=128, help="(default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(default: %(default)s)")
    options = parser.parse_args()
    paths = [str(REPOSITORY / "client" / part) for part in ("python", "torch")]
    environment = {
        **os.environ,
        "MAXSIM_LIBRARY": str(options.library.resolve()),
        "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    output = options.data / "training" / "output"
    command = [
        sys.executable, REPOSITORY / "examples" / "train" / "train.py", "--data", options.data / "training",
        "--output", output, "--dim", options.dim, "--epochs", options.epochs, "--threads", options.threads,
    ]  # fmt: skip
    subprocess.run([str(part) for part in command], check=True, env=environment)
    shutil.copy(output / "head.npy", options.data / "head.npy")


if __name__ == "__main__":
    main()
