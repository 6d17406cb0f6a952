"""The cases: which server each starts, with which load, and which of the results go into a row of serving.json."""

import json
import pathlib
import statistics
import subprocess
import threading

from case_run import RESIDENT_BYTES, Skip, shown_command
from servers import Baseline, DeviceMemory, Maxsimd, Wire, gpu_query

RESIDENT = ["passages-i8", "shard-f16"]
# The first collection has the lengths of web passages, as in the kernels' rows of this name. The second has documents
# of one length.
ENGINE_CASES = {"engine:f16-1000of100000": "ragged-f16", "engine:f16-1000x180": "passages-f16"}


def engine(run):
    """Times a batch of one query inside the engine, with maxsim_bench_engine, which starts no server."""
    program = pathlib.Path(run.options.bin) / "maxsim_bench_engine"
    if not program.exists():
        raise Skip(f"there is no {program}")
    run.stop_server()
    for name, collection in ENGINE_CASES.items():
        report = run.out / f"engine-{collection}.json"
        command = [program, run.data.collection(collection), "--candidates", run.scale.candidates, "--case", name,
                   "--json", report]  # fmt: skip
        command = [str(part) for part in command]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        answer = json.loads(report.read_text())
        run.rows.append({"case": name, "command": shown_command(command), "qps": None,
                         "p50_us": answer["p50_us"], "p99_us": answer["p99_us"],
                         "executor_p50_us": answer["executor_p50_us"], "device_p50_us": answer["device_p50_us"],
                         "errors": 0, "rejected": 0})  # fmt: skip


def latency(run):
    """Times requests of one client, over TCP and over a Unix socket. Then sends the same requests to
    maxsim_bench_wire, which already knows the answers, to find the time that gRPC takes.
    """
    one_client = {"mode": "closed", "concurrency": 1, "channels": 1, "threads": 1}

    def rows(name, server):
        for case, target in ((name, server.target), (f"{name}-unix", server.unix_target)):
            case = f"{case}:i8-1000x180"
            if target is None:
                run.rows.append({"case": case, "skipped": "this maxsimd knows no grpc.unix_socket"})
                continue
            run.row(case, run.load(case, server, "passages-i8", run.scale.candidates, target=target, **one_client))

    server = run.server("resident", RESIDENT)
    rows("latency", server)
    if not (pathlib.Path(run.options.bin) / "maxsim_bench_wire").exists():
        for case in ("wire", "wire-unix"):
            run.rows.append({"case": f"{case}:i8-1000x180", "skipped": "there is no maxsim_bench_wire"})
        return
    with Wire(run.options.bin, run.out, "wire", server.target) as wire:
        rows("wire", wire)


def _saturated(run, case, collection, candidates, queries, concurrency):
    server = run.server("resident", RESIDENT)
    report = run.load(case, server, collection, candidates, mode="closed", concurrency=concurrency,
                      queries_per_request=queries, channels=8, threads=4)  # fmt: skip
    return run.row(case, report)


def saturated(run):
    _saturated(run, "saturated:i8-1000x180", "passages-i8", run.scale.candidates, 1, run.scale.concurrency)


def saturated8(run):
    _saturated(run, "saturated8:i8-1000x180", "passages-i8", run.scale.candidates, 8, max(1, run.scale.concurrency // 2))


def shard32(run):
    _saturated(run, "shard32:f16-1024x180", "shard-f16", "all", 32, max(1, run.scale.concurrency // 4))


def overload(run):
    """Offers 80 % of the capacity, then twice the capacity with a bound on the wait in the queue (half of the p99 at
    80 %).

    Queries are over the whole collection, so that scoring is the bottleneck. With a thousand candidates, gRPC would be
    the bottleneck. It accepts no more calls than it can answer, even with refusals, so the other calls would wait where
    no server sees them.
    """
    server = run.server("resident", RESIDENT)
    flags = {"channels": 8, "threads": 4}
    busy = run.load("overload-capacity", server, "passages-i8", "all", mode="closed",
                    concurrency=max(1, run.scale.concurrency // 3), **flags)  # fmt: skip
    capacity = busy["rps"]
    run.row("overload:capacity", busy)
    calm = run.load("overload-80", server, "passages-i8", "all", mode="open",
                    rate=round(0.8 * capacity, 1), arrivals="poisson", **flags)  # fmt: skip
    calm_p99 = calm["latency_us"]["p99"]
    run.row("overload:80", calm, rate=round(0.8 * capacity, 1))
    # The limit on the time in the queue is half of the p99 at 80 % load. Under overload the p99 should be at most twice
    # the p99 at 80 % load; the rest of that time is for batches that already run, and for scoring.
    bound = f"{max(calm_p99 / 2, 200):.0f}us"
    server = run.server("overload", RESIDENT, **{"batching.max_queue_time": bound})
    storm = run.load("overload", server, "passages-i8", "all", mode="open", rate=round(2 * capacity, 1),
                     arrivals="poisson", duration=f"{run.scale.overload_seconds}s", **flags)  # fmt: skip
    after = run.load("overload-after", server, "passages-i8", run.scale.candidates, mode="closed", concurrency=1)
    run.row("overload", storm, rate=round(2 * capacity, 1), max_queue_time=bound, p99_at_80_us=calm_p99,
            p99_ratio=_ratio(storm["latency_us"]["p99"], calm_p99),
            errors_after=sum(after.get("errors", {}).values()))  # fmt: skip


def _ratio(value, other):
    return round(value / other, 3) if value and other else None


def baseline(run):
    """Finds the concurrency with which the baseline is fastest, then puts the same load on maxsimd."""
    script = pathlib.Path(__file__).resolve().parent.parent / "baseline" / "server.py"
    run.stop_server()
    for storage in ("i8", "f16"):
        collection = f"passages-{storage}"
        name = f"baseline-{storage}"
        folders = {collection: run.data.collection(collection)}
        best, at = None, {}
        # Measures one process, and then enough processes that the interpreter's lock does not limit them. Each
        # process has its own copy of the documents.
        for processes in sorted({1, run.scale.baseline_processes}):
            keys = ["--processes", processes, "--warm-query-tokens", run.scale.query_tokens,
                    "--warm-candidates", run.scale.candidates]  # fmt: skip
            keys += [] if run.gpu else ["--device", "cpu"]
            with Baseline(run.options.python, script, run.out, f"{name}-{processes}", folders, storage, keys) as server:
                for concurrency in sorted({max(1, run.scale.concurrency // n) for n in (24, 6, 1)}):
                    report = run.load(f"{name}-{processes}-{concurrency}", server, collection, run.scale.candidates,
                                      mode="closed", concurrency=concurrency, channels=16, threads=4, html=None,
                                      duration=f"{max(run.scale.seconds / 2, 0.3)}s")  # fmt: skip
                    if best is None or (report["qps"] or 0) > (best["qps"] or 0):
                        best, at = report, {"concurrency": concurrency, "processes": processes}
        run.row("baseline" if storage == "i8" else "baseline:f16", best, **at)
        server = run.server(f"against-{name}", [collection])
        concurrency = at["concurrency"]
        ours = run.load(f"against-{name}", server, collection, run.scale.candidates, mode="closed",
                        concurrency=concurrency, channels=16, threads=4)  # fmt: skip
        run.row(f"against-{name}", ours, concurrency=concurrency, times_baseline=_ratio(ours["qps"], best["qps"]),
                baseline_p99_us=best["latency_us"]["p99"])  # fmt: skip
        run.stop_server()


def _from_host(run, case, collection, candidates, queries):
    residency = "host"
    server = run.server("host", ["pages-f16", "pages-i8", "lists-f16"], residency)
    lists = candidates != "all"
    # Enough requests are in flight that the link from host memory to the GPU is never idle.
    with DeviceMemory() as memory:
        report = run.load(case, server, collection, candidates, mode="closed", concurrency=32 if lists else 4,
                          queries_per_request=queries, timeout="60s")  # fmt: skip
    gbs = (report["document_bytes_per_second"] or 0) / 1e9
    link = run.link_gbs()
    run.row(case, report, gbs=round(gbs, 2), link_gbs=link, link_share=_ratio(gbs, link),
            device_mib_least=memory.least, device_mib_most=memory.most)  # fmt: skip


def host_scan(run):
    for storage in ("f16", "i8"):
        for queries in (1, 32):
            _from_host(run, f"host-scan:{storage}-{queries}", f"pages-{storage}", "all", queries)


def host_lists(run):
    _from_host(run, "host-lists:f16-1000x300", "lists-f16", run.scale.candidates, 1)


def two_gpus(run):
    """Compares a scan of resident documents on one GPU with the same on two GPUs."""
    if len(gpu_query("index")) < 2:
        raise Skip("the machine has fewer than two GPUs")
    key = "backend.devices"
    if key not in run.keys:
        raise Skip(f"this maxsimd has no {key}")
    qps = {}
    for count in (1, 2):
        server = run.server(f"gpus-{count}", ["many-f16"], **{key: list(range(count))})
        report = run.load(f"two-gpus-{count}", server, "many-f16", "all", mode="closed", concurrency=8,
                          queries_per_request=8)  # fmt: skip
        qps[count] = report["qps"]
        more = {"times_one": _ratio(qps[2], qps[1])} if count == 2 else {}
        run.row("two-gpus" if more else "two-gpus:one", report, **more)


def start(run):
    """Times the start with several copies of one collection. Every copy is read, checked and uploaded, but the disk
    needs to hold only one of them, instead of 50 GB."""
    run.stop_server()
    copies = run.scale.start_copies
    folder = run.data.collection("many-f16")
    num_bytes = copies * run.data.num_bytes("many-f16")
    for path in folder.glob("*.safetensors"):  # into the page cache
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass
    folders = {f"passages-{n}": folder for n in range(copies)}
    keys = {"backend.kind": "cuda" if run.gpu else "cpu", "store.load_threads": 8}
    with Maxsimd(run.options.bin, run.out, "start", folders, run.residency(), keys) as server:
        seconds = server.start_seconds
        plan = server.log.read_text(errors="replace").count("memory_plan") or None
        command = shown_command(server.command)
    run.rows.append({"case": "start", "command": command, "seconds": round(seconds, 3), "bytes": num_bytes,
                     "gbs": float(f"{num_bytes / seconds / 1e9:.4g}"), "memory_plans": plan, "errors": 0, "rejected": 0})  # fmt: skip


def resident_by_quarter(samples):
    """Returns the median resident bytes of the server in each quarter of a run, from its metrics by second. Returns
    None for each if too few samples are known."""
    known = [sample["resident_bytes"] for sample in samples if sample.get("resident_bytes") is not None]
    length = len(known) // 4
    if length == 0:
        return [None] * 4
    return [statistics.median(known[quarter * length : (quarter + 1) * length]) for quarter in range(4)]


def soak(run):
    """Offers 80 % load while generations change. The row says how memory changed over the run, and must have no
    error."""
    server = run.server("soak", ["shard-f16"])
    scale = run.scale
    candidates = min(scale.candidates, scale.shard)
    busy = run.load("soak-busy", server, "shard-f16", candidates, mode="closed",
                    concurrency=max(1, scale.concurrency // 4))  # fmt: skip
    memory_before = server.metrics().get(RESIDENT_BYTES)
    # gRPC answers fewer calls per second while thousands are in flight. So this rate is measured, too. If the soak sent
    # more calls than that, its queue would keep growing after the first delay.
    flooded = run.load("soak-flooded", server, "shard-f16", candidates, mode="closed",
                       concurrency=10 * scale.concurrency)  # fmt: skip
    rate = round(0.8 * min(busy["rps"], flooded["rps"]), 1)
    stop = threading.Event()
    reloads = []

    def reload():
        while not stop.wait(scale.reload_seconds):
            try:
                run.data.publish_again("shard-f16")
                control = str(pathlib.Path(run.options.bin) / "maxsimctl")
                result = subprocess.run([control, "--server", server.target, "reload", "shard-f16"], capture_output=True)
                reloads.append(result.returncode)
            except (OSError, RuntimeError) as error:
                print(f"soak: {error}", flush=True)
                reloads.append(1)

    thread = threading.Thread(target=reload)
    thread.start()
    try:
        with DeviceMemory() as memory:
            report = run.load("soak", server, "shard-f16", candidates, mode="open", rate=rate, arrivals="poisson",
                              duration=f"{scale.soak_seconds}s")  # fmt: skip
    finally:
        stop.set()
        thread.join()
    quarters = resident_by_quarter(report.get("server_metrics") or [])
    run.row("soak", report, rate=rate, seconds=scale.soak_seconds, reloads=len(reloads),
            failed_reloads=sum(code != 0 for code in reloads), host_bytes_before=memory_before,
            host_bytes_quarter_2=quarters[1], host_bytes_quarter_4=quarters[3], device_mib_least=memory.least,
            device_mib_most=memory.most)  # fmt: skip


# The cases, each with the collections that it needs. In this order, consecutive cases can use the same server.
CASES = {
    "engine": (engine, list(ENGINE_CASES.values())),
    "latency": (latency, RESIDENT),
    "saturated": (saturated, RESIDENT),
    "saturated8": (saturated8, RESIDENT),
    "shard32": (shard32, RESIDENT),
    "overload": (overload, RESIDENT),
    "baseline": (baseline, ["passages-i8", "passages-f16"]),
    "host-scan": (host_scan, ["pages-f16", "pages-i8", "lists-f16"]),
    "host-lists": (host_lists, ["pages-f16", "pages-i8", "lists-f16"]),
    "start": (start, ["many-f16"]),
    "two-gpus": (two_gpus, ["many-f16"]),
    "soak": (soak, ["shard-f16"]),
}
