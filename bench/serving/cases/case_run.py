"""Code that the cases share: data, programs, the servers that run, and the rows."""

import json
import pathlib
import subprocess
import time

from loadtest import loadtest_command
from servers import Baseline, Maxsimd, ThreadTimes

KERNEL_SECONDS = "maxsim_batch_kernel_duration_seconds_sum"
DOCUMENT_BYTES = "maxsim_scored_document_bytes_total"
RESIDENT_BYTES = "process_resident_memory_bytes"


class Skip(Exception):
    """The case cannot run on this machine; the exception's text says why."""


def shown_command(command):
    """Returns the command as a user types it, without the folder of the program."""
    return " ".join([pathlib.Path(command[0]).name, *command[1:]])


class Run:
    """The state that cases share: data, programs, the servers that run, and the rows."""

    def __init__(self, options, data, keys):
        self.options = options
        self.data = data
        self.scale = data.scale
        self.keys = keys  # that this maxsimd knows
        self.out = pathlib.Path(options.out)
        self.gpu = options.gpu
        self.rows = []
        self.facts = {}  # what one case found and another needs
        self._server = None  # (description, Maxsimd)

    def residency(self):
        return "gpu" if self.gpu else "host"

    def server(self, name, collections, residency=None, **keys):
        """Returns a maxsimd over `collections` with these keys. Uses the running one if it is the same."""
        keys = {"backend.kind": "cuda" if self.gpu else "cpu", "engine.lanes": 6 if self.gpu else 2, **keys}
        description = (tuple(collections), residency, tuple(sorted(keys.items())))
        if self._server is not None and self._server[0] == description and self._server[1].process.poll() is None:
            return self._server[1]
        self.stop_server()
        folders = {collection: self.data.collection(collection) for collection in collections}
        server = Maxsimd(self.options.bin, self.out, name, folders, residency or self.residency(), keys,
                         unix_socket="grpc.unix_socket" in self.keys)  # fmt: skip
        self._server = (description, server)
        return server

    def stop_server(self):
        if self._server is not None:
            self._server[1].stop()
        self._server = None

    def load(self, name, server, collection, candidates, **flags):
        """Runs the load tester and returns its report. In the names of flags, _ stands for -. None as a value leaves
        a flag out."""
        scale = self.scale
        report = self.out / f"{name.replace(':', '-')}.json"
        report.unlink(missing_ok=True)
        arguments = {
            "quiet": True,
            "target": server.target,
            "collection": collection,
            "candidates": candidates,
            "query_tokens": scale.query_tokens,
            "queries_per_request": 1,
            "shared_candidates": "true",
            "top_k": 100 if self.data.scale.candidates > 100 else 10,
            "timeout": "10s",
            "warmup": f"{scale.warmup}s",
            "duration": f"{scale.seconds}s",
            "json": report,
            "html": report.with_suffix(".html"),
        }
        if candidates != "all":
            arguments["int_ids"] = self.data.num_documents(collection)
        if isinstance(server, Baseline):
            arguments["check"] = "order"  # the sums of PyTorch, and so of the baseline, depend on the batch
        elif isinstance(server, Maxsimd):
            arguments["metrics"] = server.metrics_url
        arguments.update(flags)
        command = loadtest_command(self.options.bin, report, arguments)
        before, begin = self._metrics(server), time.monotonic()
        warmup, duration = (float(str(arguments[name])[:-1]) for name in ("warmup", "duration"))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tester:
            pids = {"load tester": tester.pid}
            if not isinstance(server, Baseline):  # other processes do the baseline's work
                pids["server"] = server.process.pid
            try:
                # The threads' times are taken from half a second after the measured part begins to half a second
                # before it ends.
                with ThreadTimes(pids, warmup + 0.5, duration - 1) as threads:
                    output, errors = tester.communicate(timeout=warmup + duration + 60)
            except BaseException:
                tester.kill()
                raise
        wall = time.monotonic() - begin
        after = self._metrics(server)
        if not report.exists():
            raise RuntimeError(f"maxsim-loadtest wrote no report: {(errors or output).strip()[-300:]}")
        answer = json.loads(report.read_text())
        answer["processors"] = threads.processors
        answer["command"] = shown_command(command)
        answer["kernel_share"] = self._while_measuring(answer, "kernel_seconds")
        if answer["kernel_share"] is None:
            answer["kernel_share"] = self._per_second(before, after, KERNEL_SECONDS, wall)
        answer["document_bytes_per_second"] = self._while_measuring(answer, "scored_bytes_per_second")
        if answer["document_bytes_per_second"] is None:
            answer["document_bytes_per_second"] = self._per_second(before, after, DOCUMENT_BYTES, wall)
        return answer

    @staticmethod
    def _while_measuring(report, name):
        """Returns the mean of a metric over the measured seconds without the first and the last, or None if too few
        are left."""
        values = [second[name] for second in report.get("server_metrics", [])[1:-1] if name in second]
        return sum(values) / len(values) if len(values) >= 2 else None

    @staticmethod
    def _metrics(server):
        return server.metrics() if isinstance(server, Maxsimd) else {}

    @staticmethod
    def _per_second(before, after, series, wall):
        if series not in after:
            return None
        return (after[series] - before.get(series, 0)) / wall

    def row(self, case, report, **more):
        """Returns a row made from a report of the load tester, with the further members `more`."""
        latency = report.get("latency_us", {})
        row = {
            "case": case,
            "command": report.get("command"),
            "qps": report.get("qps"),
            "rps": report.get("rps"),
            "p50_us": latency.get("p50"),
            "p99_us": latency.get("p99"),
            "errors": sum(report.get("errors", {}).values()),
            "rejected": report.get("rejected", 0),
        }
        for name in ("stable", "client_bound"):
            if name in report:
                row[name] = report[name]
        if self.gpu and report.get("kernel_share") is not None:
            # Lanes (threads that score batches) run at the same time, so the sum of their kernel times may exceed the
            # wall clock.
            row["gpu_busy"] = round(report["kernel_share"], 3)
        if report.get("machine_busy") is not None:
            row["host_busy"] = round(report["machine_busy"], 3)
        if report.get("processors"):
            row["processors"] = report["processors"]
        row.update(more)
        self.rows.append(row)
        return row

    def link_gbs(self):
        """Returns the rate of copies from host to device memory in GB/s, or None if it could not be measured."""
        if self.options.link_gbs:
            return self.options.link_gbs
        if "link_gbs" not in self.facts and self.gpu:
            script = (
                "import torch\n"
                "h = torch.empty(1 << 29, dtype=torch.uint8, pin_memory=True); d = torch.empty_like(h, device='cuda')\n"
                "best = 0\n"
                "for _ in range(8):\n"
                "    a, b = (torch.cuda.Event(enable_timing=True) for _ in '12')\n"
                "    a.record(); d.copy_(h, non_blocking=True); b.record(); b.synchronize()\n"
                "    best = max(best, h.numel() / a.elapsed_time(b) / 1e6)\n"
                "print(best)\n"
            )
            result = subprocess.run([self.options.python, "-c", script], capture_output=True, text=True, timeout=120)
            self.facts["link_gbs"] = round(float(result.stdout), 1) if result.returncode == 0 else None
        return self.facts.get("link_gbs")
