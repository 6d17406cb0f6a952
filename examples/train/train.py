#!/usr/bin/env python3
"""Trains a late-interaction head on MiniLM's states of the bundled texts.

It does so twice from one seed, with maxsim_torch and in plain PyTorch, and compares the two. Then it writes the vectors
of the passages into a collection that maxsimd serves.

    python examples/train/train.py [--output build/train]

In the folder --output are then:
    head.npy       float32 [dim, 384], the trained weight
    curve.svg      losses and nDCG@10 of both trainings
    curve.json     the same numbers
    collection     the passages' vectors and titles; maxsimd --collection trained=build/train/collection serves it
"""

import argparse
import dataclasses
import json
import pathlib

import numpy as np
import torch
from maxsim.collection import CollectionWriter

import plot
import states
import training


def options_of(arguments: argparse.Namespace) -> training.Options:
    names = [field.name for field in dataclasses.fields(training.Options)]
    return training.Options(**{name: getattr(arguments, name) for name in names})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=pathlib.Path, default=states.ROOT / "demo", help="texts, in the layout of demo/")
    parser.add_argument("--output", type=pathlib.Path, default=states.ROOT / "build" / "train")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; a step is too small for many (default: 1)")
    for field in dataclasses.fields(training.Options):
        flag = f"--{field.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(field.default), default=field.default, help="(default: %(default)s)")
    return parser.parse_args()


def report(kernels: training.Run, plain: training.Run, epochs: int, full: float, dim: int) -> None:
    """Prints the table of epochs, and the differences between the two trainings."""
    steps = len(kernels.losses) // epochs
    print(f"nDCG@10 of the questions with all 384 columns: {full:.4f}; with {dim}:\n")
    print(f"{'epoch':>5}{'loss':>10}{'nDCG@10':>10}{'plain: loss':>14}{'nDCG@10':>10}")
    for epoch in range(epochs + 1):
        line = f"{epoch:5d}"
        for run, width in ((kernels, 10), (plain, 14)):
            part = run.losses[(epoch - 1) * steps : epoch * steps] if epoch else []
            line += f"{sum(part) / len(part):{width}.4f}" if part else " " * width
            line += f"{run.ndcg[epoch]:10.4f}"
        print(line)
    apart = max(abs(one - other) for one, other in zip(kernels.losses, plain.losses))
    print(f"\nlosses differ by {apart:.1e} at most; {kernels.seconds:.1f} s of steps, plain {plain.seconds:.1f} s")


def draw(kernels: training.Run, plain: training.Run, full: float) -> str:
    blue, orange, grey = "#1f6feb", "#bf5700", "#57606a"
    quality = [
        plot.Line("maxsim_torch", kernels.ndcg, blue),
        plot.Line("plain PyTorch", plain.ndcg, orange, dashed=True),
        plot.Line("384 columns", [full] * len(plain.ndcg), grey, dashed=True),
    ]
    losses = [
        plot.Line("maxsim_torch", kernels.losses, blue),
        plot.Line("plain PyTorch", plain.losses, orange, dashed=True),
    ]
    panels = [("Loss", "steps", losses), ("nDCG@10 of held-out questions", "epochs", quality)]
    return plot.svg("Loss and nDCG@10 of two trainings", panels)


def write_collection(head: torch.nn.Linear, data: states.Data, folder: pathlib.Path) -> None:
    """Writes the passages' vectors, in the order of the passages, into the folder as its next generation."""
    with torch.no_grad():
        vectors = training.project(head, data.passages)
    with CollectionWriter(folder, dim=head.out_features, storage="f16", name="trained") as writer:
        for number, (name, title) in enumerate(zip(data.passage_ids, data.titles)):
            writer.add(name, vectors[number, : data.passages.lengths[number]], {"title": title})
    print(f"{writer.summary.num_documents} documents, {writer.summary.num_tokens} vectors in {folder}")


def main() -> None:
    arguments = parse()
    options = options_of(arguments)
    torch.set_num_threads(arguments.threads)
    data = states.load(arguments.data)
    full = training.mean_ndcg(data.questions.rows, data.passages.rows, data)
    teacher = training.teach(data, options)
    kernels = training.train(data, teacher, options)
    plain = training.train(data, teacher, options, plain=True)
    report(kernels, plain, options.epochs, full, options.dim)

    arguments.output.mkdir(parents=True, exist_ok=True)
    np.save(arguments.output / "head.npy", kernels.head.weight.detach().numpy())
    (arguments.output / "curve.svg").write_text(draw(kernels, plain, full))
    curves = {name: {"loss": run.losses, "ndcg": run.ndcg} for name, run in (("kernels", kernels), ("plain", plain))}
    curves["full"] = {"ndcg": [full]}
    (arguments.output / "curve.json").write_text(json.dumps(curves, indent=1) + "\n")
    write_collection(kernels.head, data, arguments.output / "collection")


if __name__ == "__main__":
    main()
