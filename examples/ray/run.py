"""Exact MaxSim scores of millions of (query, candidate) pairs, on Ray Data: Parquet in, Parquet out.

    python run.py score --collection DIR --queries queries.parquet --output scores       every listed pair
    python run.py top-k --collection DIR --queries queries.parquet --output best --k 100 the best of the collection

README.md says what the files hold, and what to change for a cluster. Exit status: 0 all written, 1 a wrong input or an
engine that failed, 2 a wrong argument.
"""

from __future__ import annotations

import argparse
import logging
import os
import pathlib
import re
import shutil
import sys
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from engines import MAX_TOP_K, Answer, Engine, LibraryEngine, ScoringError, ServerEngine, join
from manifests import Collection, InputError, read_partitions
from tables import CANDIDATES, QUERY_ID, TOKENS, add_answers, check_schema, final_table, read_candidates, read_queries

HERE = pathlib.Path(__file__).resolve().parent


class Scorer:
    """An actor that has one partition in an engine, and adds the partition's answers to each batch of queries. A batch
    goes through an actor of each partition in turn. The actors of the last partition write the joined answers."""

    def __init__(self, collection: Collection, is_last: bool, options: argparse.Namespace) -> None:
        self._collection, self._is_last = collection, is_last
        self._k: int | None = options.k if options.mode == "top-k" else None
        threads = max(1, int(options.num_cpus))
        self._engine: Engine
        if options.engine == "library":
            self._engine = LibraryEngine(collection, "cuda" if options.num_gpus else "cpu", threads)
        else:
            self._engine = ServerEngine(collection, options.maxsimd, threads, options.server_flag)

    def __call__(self, table: pa.Table) -> pa.Table:
        queries = read_queries(table, self._collection)
        try:
            answers = self._top_k(queries) if self._k is not None else self._score(table, queries)
        except ScoringError as error:
            names = table[QUERY_ID]
            raise ScoringError(f"queries {names[0]} to {names[-1]}: {error}") from None
        table = add_answers(table, answers, self._collection, self._k)
        return final_table(table, self._collection) if self._is_last else table

    def _top_k(self, queries: list[Any]) -> list[Answer]:
        assert self._k is not None
        return self._engine.top_k(queries, self._k)

    def _score(self, table: pa.Table, queries: list[Any]) -> list[Answer]:
        ids, places = read_candidates(table, self._collection)
        rows = [row for row, listed in enumerate(ids) if listed]
        scored = self._engine.score([queries[row] for row in rows], [ids[row] for row in rows]) if rows else []
        answers = [join([])] * len(ids)
        for row, answer in zip(rows, scored):
            answers[row] = Answer(answer.ids, answer.scores, places[row][answer.positions])
        return answers


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("score", "top-k"), help="every listed pair, or the best of the collection")
    parser.add_argument("--collection", type=pathlib.Path, required=True, action="append", metavar="DIR",
                        help="folder of the collection; several times: all of its partitions")
    parser.add_argument("--queries", required=True, metavar="PATH", help="Parquet file, or folder of them")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="DIR", help="new folder of Parquet files")
    parser.add_argument("--k", type=_whole(1, MAX_TOP_K), default=100, help="of top-k, a query (%(default)s)")
    parser.add_argument("--engine", choices=("server", "library"), default="server",
                        help="a maxsimd for each actor, or maxsim_torch in it (%(default)s)")
    parser.add_argument("--maxsimd", default="maxsimd", metavar="PROGRAM", help="the server (%(default)s)")
    parser.add_argument("--server-flag", action="append", default=[], metavar="KEY=VALUE",
                        help="a key of the server, such as backend.kind=cpu")
    parser.add_argument("--actors", type=_whole(1, 100_000), default=1, help="for each partition (%(default)s)")
    parser.add_argument("--num-cpus", type=_positive, default=1.0, help="processors of an actor (%(default)s)")
    parser.add_argument("--num-gpus", type=float, default=0.0, help="GPUs of an actor (%(default)s)")
    parser.add_argument("--batch-queries", type=_whole(1, 100_000), default=256, help="of a call of an actor (256)")
    parser.add_argument("--address", help="of a Ray cluster, or auto; without it Ray starts on this machine alone")
    parser.add_argument("--local-cpus", type=_whole(1, 100_000), help="processors for Ray, without --address")
    parser.add_argument("--object-store-mib", type=_whole(80, 1 << 30), default=512,
                        help="memory for queries and answers between actors, without --address (%(default)s)")
    return parser.parse_args(arguments)


def _whole(least: int, most: int) -> Any:
    def parse(text: str) -> int:
        if not text.lstrip("-").isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} to {most}")
        return int(text)

    return parse


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def check_input(options: argparse.Namespace, collection: Collection) -> int:
    """Returns the number of queries. Raises InputError for errors that can be found without reading the queries'
    vectors."""
    with_candidates = options.mode == "score"
    try:
        dataset = pyarrow.dataset.dataset(options.queries, format="parquet")
        check_schema(dataset.schema, collection, with_candidates)
        names = dataset.to_table(columns=[QUERY_ID])[QUERY_ID]
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"--queries {options.queries}: {error}") from None
    if len(names) == 0:
        raise InputError(f"--queries {options.queries}: there is no query in it")
    if names.null_count:
        raise InputError(f"--queries {options.queries}: {names.null_count} of {len(names)} ids of queries are null")
    counts = pc.value_counts(names)
    for twice in counts.filter(pc.greater(counts.field("counts"), 1)):
        raise InputError(f"--queries {options.queries}: query {twice['values']} is there {twice['counts']} times")
    if options.output.exists() and (not options.output.is_dir() or any(options.output.iterdir())):
        raise InputError(f"--output {options.output}: is there already; name a new folder")
    if options.engine == "server" and not options.address and shutil.which(options.maxsimd) is None:
        raise InputError(f"--maxsimd {options.maxsimd}: is no program on the PATH")
    return len(names)


def check_resources(options: argparse.Namespace, num_partitions: int, resources: dict[str, float]) -> None:
    """Raises InputError if Ray has too few processors or GPUs for the actors, because these would wait for ever.
    Reading and writing need one more processor."""
    actors = options.actors * num_partitions
    for what, each, rest in (("CPU", options.num_cpus, 1), ("GPU", options.num_gpus, 0)):
        there = resources.get(what, 0)
        if each * actors + (rest if each else 0) > there:
            raise InputError(
                f"--actors {options.actors}: {actors} actors of {each:g} {what}s{' and 1 beside them' if rest else ''} "
                f"do not fit into the {there:g} that Ray has; lower --num-{what.lower()}s or --actors"
            )


def score_all(options: argparse.Namespace, partitions: list[Collection], num_queries: int) -> None:
    """Runs the pipeline on the Ray to which this process is connected."""
    import ray

    ray.data.DataContext.get_current().enable_progress_bars = sys.stderr.isatty()
    columns = [QUERY_ID, TOKENS, *([CANDIDATES] if options.mode == "score" else [])]
    dataset = ray.data.read_parquet(options.queries).select_columns(columns)
    # Ray gives blocks to actors, and a file would be one block. Blocks that are as large as one batch keep all actors
    # busy to the end.
    rows = max(1, min(options.batch_queries, num_queries // options.actors))
    dataset = dataset.repartition(target_num_rows_per_block=rows)
    for partition in partitions:
        dataset = dataset.map_batches(
            Scorer,
            fn_constructor_args=(partition, partition is partitions[-1], options),
            compute=ray.data.ActorPoolStrategy(size=options.actors),
            batch_size=rows,
            batch_format="pyarrow",
            zero_copy_batch=True,
            num_cpus=options.num_cpus,
            num_gpus=options.num_gpus,
        )
    dataset.write_parquet(str(options.output))


def reason_of(error: Exception) -> str | None:
    """Returns the text of an InputError or ScoringError, raised here or in an actor (Ray's own error then contains it).
    Returns None for other errors."""
    if isinstance(error, (InputError, ScoringError)):
        return str(error)
    found = re.search(r"\b(?:InputError|ScoringError): (.+)", str(error))
    return found[1] if found else None


def start_ray(options: argparse.Namespace) -> None:
    """Connects to the cluster at --address, or starts Ray on this machine alone. Does nothing if this process is
    connected already."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # Errors are raised too.
    if ray.is_initialized():
        return
    if options.address:
        # Other machines need these files.
        ray.init(options.address, runtime_env={"working_dir": str(HERE)}, logging_level=logging.WARNING)
        return
    ray.init(
        "local",
        num_cpus=options.local_cpus,
        object_store_memory=options.object_store_mib << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.WARNING,
    )


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    begin = time.monotonic()
    try:
        partitions = read_partitions(options.collection)
        num_queries = check_input(options, partitions[0])
        options.output = options.output.absolute()
        start_ray(options)
        import ray

        check_resources(options, len(partitions), ray.cluster_resources())  # type: ignore[no-untyped-call]
        try:
            score_all(options, partitions, num_queries)
        except Exception:
            shutil.rmtree(options.output, ignore_errors=True)  # It was not there before.
            raise
    except Exception as error:
        reason = reason_of(error)
        if reason is None:
            raise
        print(f"run.py: {reason}", file=sys.stderr)
        return 1
    rows = pyarrow.dataset.dataset(str(options.output), format="parquet").count_rows()
    seconds = time.monotonic() - begin
    print(f"{num_queries} queries, {rows} scores in {options.output}, {seconds:.1f} s with the start of Ray")
    return 0


if __name__ == "__main__":
    sys.exit(main())
