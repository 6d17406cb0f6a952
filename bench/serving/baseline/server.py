"""The baseline that maxsimd must beat: a server of maxsim.v1 in Python, asyncio with flash-maxsim. See README.md in
this folder.

    python bench/serving/baseline/server.py --collection NAME=PATH --port N --max-batch-delay 2ms --storage f16|i8
"""

import argparse
import asyncio
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402


def import_stubs():
    """Imports the messages of proto/. If they are not installed, generates them into a folder of their own."""
    try:
        from maxsim.v1 import rerank_pb2, rerank_pb2_grpc
    except ImportError:
        sys.path.insert(0, str(HERE.parents[2] / "client" / "python"))
        from generate import generate

        folder = tempfile.mkdtemp(prefix="maxsim-baseline-")
        generate(pathlib.Path(folder))
        sys.path.insert(0, folder)
        from maxsim.v1 import rerank_pb2, rerank_pb2_grpc
    return rerank_pb2, rerank_pb2_grpc


class BadRequest(Exception):
    pass


def seconds(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)|0", text)
    if not match:
        raise argparse.ArgumentTypeError(f'"{text}" is not a duration such as 500us, 2ms or 1s')
    return 0.0 if text == "0" else float(match[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[match[2]]


def collection_argument(text):
    name, separator, path = text.partition("=")
    if not separator or not name or not path:
        raise argparse.ArgumentTypeError(f'"{text}" is not NAME=PATH')
    return name, path


def parse(arguments):
    parser = argparse.ArgumentParser(description="maxsim.v1 over flash-maxsim.")
    parser.add_argument("--collection", type=collection_argument, action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--port", type=int, required=True, help="on the loopback")
    parser.add_argument("--storage", choices=("f16", "i8"), default="f16", help="i8: of an f16 collection, with a scale a token")
    parser.add_argument("--max-batch-delay", type=seconds, default=seconds("2ms"), metavar="TIME")
    parser.add_argument("--max-batch-queries", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="batches at a time, each on a CUDA stream")
    parser.add_argument("--processes", type=int, default=1, help="servers on the same port, each with its own copy of the documents")
    parser.add_argument("--device", help="cuda, cuda:1 or cpu; default: cuda where it is there")
    parser.add_argument("--warm-query-tokens", type=int, nargs="*", default=[32], help="kernels are compiled for these before serving")
    parser.add_argument("--warm-candidates", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--ready-file", type=pathlib.Path, help="is made when requests are served")
    return parser.parse_args(arguments)


def to_work(pb, collection, request):
    """Returns a list with an entry (query indices, Work, positions, missing ids) for each group of queries with the
    same candidates and length. Positions and missing ids are those of candidates_of."""
    from scorer import Work

    top_k = request.top_k or 10
    groups = {}
    for index, query in enumerate(request.queries):
        tokens = query.tokens
        if tokens.dtype not in (pb.DATA_TYPE_F16, pb.DATA_TYPE_F32):
            raise BadRequest(f"queries[{index}].tokens.dtype: the baseline takes F16 and F32")
        kind = np.float16 if tokens.dtype == pb.DATA_TYPE_F16 else np.float32
        if tokens.dim != collection.dim or len(tokens.data) != tokens.num_tokens * tokens.dim * np.dtype(kind).itemsize:
            raise BadRequest(f"queries[{index}].tokens: the shape is not [{tokens.num_tokens}, {collection.dim}]")
        if query.weights:
            raise BadRequest(f"queries[{index}].weights: the baseline has no weights")
        rows = np.frombuffer(tokens.data, kind).reshape(tokens.num_tokens, tokens.dim)
        own = index if query.HasField("candidates") else -1
        groups.setdefault((own, tokens.num_tokens), []).append((index, rows))
    work, lists = [], {}
    for (own, _), members in groups.items():
        if own not in lists:
            lists[own] = candidates_of(collection, request.queries[own].candidates if own >= 0 else request.candidates)
        ordinals, positions, missing = lists[own]
        queries = np.stack([rows.astype(np.float16, copy=False) for _, rows in members])
        if not np.isfinite(queries).all():
            raise BadRequest("queries: values must be finite")
        work.append(([index for index, _ in members], Work(queries, ordinals, top_k), positions, missing))
    return work


def candidates_of(collection, candidates):
    """Returns three values: the ordinals, or None for all documents; their positions in the request's list, or None
    for 0, 1 and so on; and the ids that are missing."""
    kind = candidates.WhichOneof("kind")
    if kind == "whole_collection":
        return None, None, []
    if kind not in ("string_ids", "int_ids") or (kind == "string_ids") != collection.has_strings:
        raise BadRequest("candidates: the baseline takes the whole collection, or ids of the collection's type")
    ids = getattr(candidates, kind).ids
    ordinals = collection.resolve(ids)
    positions, missing = None, []
    if (ordinals < 0).any():
        positions = np.flatnonzero(ordinals >= 0)
        missing = list(dict.fromkeys(ids[place] for place in np.flatnonzero(ordinals < 0)))
        ordinals = ordinals[positions]
    unique, first = np.unique(ordinals, return_index=True)
    if len(unique) != len(ordinals):
        first.sort()
        ordinals = ordinals[first]
        positions = first if positions is None else positions[first]
    return ordinals, positions, missing


def fill(pb, collection, result, work, positions, missing, scores, places):
    ordinals = places if work.ordinals is None else work.ordinals[places]
    if collection.has_strings:
        ids = collection.ids
        result.string_ids.ids.extend([ids[ordinal] for ordinal in ordinals.tolist()])
        result.missing_string_ids.ids.extend(missing)
    else:
        result.int_ids.ids.extend(collection.ids[ordinals].tolist())
        result.missing_int_ids.ids.extend(missing)
    result.scores.extend(scores.tolist())
    result.positions.extend((places if positions is None else positions[places]).tolist())


def make_servicer(grpc, pb, pb_grpc, collections, batchers):
    class Reranker(pb_grpc.RerankerServicer):
        async def Rerank(self, request, context):
            arrival = time.perf_counter()
            collection = collections.get(request.collection)
            if collection is None:
                await context.abort(grpc.StatusCode.NOT_FOUND, f"collection {request.collection} is not served")
            try:
                work = to_work(pb, collection, request)
            except BadRequest as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            response = pb.RerankResponse(request_id=request.request_id, generation=collection.generation)
            results = [response.results.add() for _ in request.queries]
            batcher = batchers[request.collection]
            queued = scored = 0.0
            # A Work without candidates is not scored.
            waiting = [batcher.score(one) for _, one, _, _ in work if one.num_candidates(collection) > 0]
            answers = iter(await asyncio.gather(*waiting))
            for indices, one, positions, missing in work:
                if one.num_candidates(collection) == 0:
                    empty = np.empty((len(indices), 0), np.int64)
                    scores, places = empty, empty
                else:
                    answer, waited, took = next(answers)
                    scores, places = answer.scores, answer.places
                    queued, scored = max(queued, waited), max(scored, took)
                for row, index in enumerate(indices):
                    fill(pb, collection, results[index], one, positions, missing, scores[row], places[row])
            response.timings.queue_us = queued * 1e6
            response.timings.kernel_us = scored * 1e6
            response.timings.total_us = (time.perf_counter() - arrival) * 1e6
            return response

        async def GetInfo(self, request, context):
            info = pb.GetInfoResponse(version="baseline")
            for name, collection in collections.items():
                info.collections.add(
                    name=name, state=pb.COLLECTION_STATE_READY, generation=collection.generation, dim=collection.dim,
                    num_documents=collection.num_documents, num_tokens=collection.num_tokens,
                    id_type=pb.ID_TYPE_STRING if collection.has_strings else pb.ID_TYPE_INT64,
                )  # fmt: skip
            return info

    return Reranker()


async def serve(options):
    import grpc
    import torch

    from batcher import Batcher
    from collection import Collection
    from scorer import Scorer

    pb, pb_grpc = import_stubs()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    collections, batchers = {}, {}
    for name, path in options.collection:
        collections[name] = Collection(name, path)
        scorer = Scorer(collections[name], options.storage, device)
        scorer.warm_up(options.warm_query_tokens, options.warm_candidates)
        batchers[name] = Batcher(scorer, options.max_batch_delay, options.max_batch_queries, options.workers)
    limit = 256 << 20
    server = grpc.aio.server(
        options=[
            ("grpc.so_reuseport", int("MAXSIM_BASELINE_REUSE_PORT" in os.environ)),
            ("grpc.max_receive_message_length", limit),
            ("grpc.max_send_message_length", limit),
        ]
    )
    pb_grpc.add_RerankerServicer_to_server(make_servicer(grpc, pb, pb_grpc, collections, batchers), server)
    if server.add_insecure_port(f"127.0.0.1:{options.port}") == 0:
        raise SystemExit(f"port {options.port} is taken")
    await server.start()
    if options.ready_file:
        options.ready_file.touch()
    print(f"ready on port {options.port}, {device}, {options.storage}", flush=True)
    await server.wait_for_termination()


def serve_processes(options, arguments):
    """Starts the server processes. Is ready when all of them are ready, and ends when one of them ends."""
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / str(number) for number in range(options.processes)]
        clean = []
        skip = False
        for argument in arguments:
            if not skip and not argument.startswith(("--processes=", "--ready-file=")):
                skip = argument in ("--processes", "--ready-file")
                if not skip:
                    clean.append(argument)
            else:
                skip = False
        children = []
        try:
            for file in files:
                command = [sys.executable, str(HERE / "server.py"), *clean, "--processes", "1", "--ready-file", str(file)]
                children.append(subprocess.Popen(command, env={**os.environ, "MAXSIM_BASELINE_REUSE_PORT": "1"}))
            while all(child.poll() is None for child in children):
                if options.ready_file and not options.ready_file.exists() and all(file.exists() for file in files):
                    options.ready_file.touch()
                time.sleep(0.05)
            raise SystemExit("a server process ended")
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait()


def main():
    arguments = sys.argv[1:]
    options = parse(arguments)
    if options.processes > 1:
        import signal

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        return serve_processes(options, arguments)
    try:
        import uvloop

        uvloop.install()
    except ImportError:
        pass
    try:
        asyncio.run(serve(options))
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
