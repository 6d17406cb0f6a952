"""A maxsimd with one live collection, for the benchmarks of this folder."""

import os
import pathlib
import sys

import grpc

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from servers import Maxsimd, gpu_bytes, gpu_query, provenance  # noqa: E402

try:
    from maxsim.v1 import admin_pb2, admin_pb2_grpc, documents_pb2, documents_pb2_grpc, rerank_pb2, rerank_pb2_grpc
except ImportError as error:
    raise SystemExit(f"{error}: the client's stubs are made by `python client/python/generate.py`") from error

__all__ = ["documents_pb2", "rerank_pb2", "LiveServer", "describe", "gpu_query"]
CALL_S = 300


class LiveServer(Maxsimd):
    """maxsimd with a live collection `name` in the folder `path`. Makes an empty collection if `path` is None. `keys`
    are configuration keys. Also listens on a Unix socket (`unix_target`)."""

    def __init__(self, binaries, folder, name, path=None, keys=None, dim=128, storage="f16", log="maxsimd"):
        folder = pathlib.Path(folder)
        allowed = [str(folder)] + ([str(pathlib.Path(path).parent)] if path else [])
        wanted = {"store.allowed_roots": allowed, "batching.max_queue_time": "0s", **(keys or {})}
        super().__init__(binaries, folder, log, {}, "auto", wanted, unix_socket=True)
        channel = grpc.insecure_channel(self.unix_target, options=[("grpc.max_receive_message_length", -1)])
        self.name = name
        self.admin = admin_pb2_grpc.AdminStub(channel)
        self.documents = documents_pb2_grpc.DocumentsStub(channel)
        self.reranker = rerank_pb2_grpc.RerankerStub(channel)
        if path:
            request = admin_pb2.LoadCollectionRequest(name=name, path=str(path), live=True)
            self.admin.LoadCollection(request, timeout=CALL_S)
        else:
            request = admin_pb2.CreateCollectionRequest(name=name, path=str(folder / name), dim=dim)
            request.storage = {"f16": rerank_pb2.DATA_TYPE_F16, "i8": rerank_pb2.DATA_TYPE_I8}[storage]
            request.id_type = rerank_pb2.ID_TYPE_INT64
            self.admin.CreateCollection(request, timeout=CALL_S)

    def info(self):
        answer = self.reranker.GetInfo(rerank_pb2.GetInfoRequest(), timeout=CALL_S)
        return next(one for one in answer.collections if one.name == self.name)

    def live(self):
        """Returns what GetInfo says of the changes."""
        live = self.info().live
        names = ("sequence", "num_changed_documents", "num_deleted_documents", "segment_bytes", "log_bytes")
        return {name: getattr(live, name) for name in names}

    def compact(self):
        return self.admin.CompactCollection(admin_pb2.CompactCollectionRequest(name=self.name), timeout=CALL_S).changed

    def memory(self):
        """Returns the server's resident bytes of host memory, and the bytes in use on all GPUs."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return {"host_bytes": resident, "gpu_bytes": gpu_bytes()}


def describe(binaries):
    gpus = gpu_query("name")
    cores = len(os.sched_getaffinity(0))
    return {**provenance(binaries), "device": gpus[0][0] if gpus else "CPU", "cores": cores}


def need(binaries, *names):
    """Ends this program at once if a program that it needs is missing."""
    missing = [name for name in names if not os.access(pathlib.Path(binaries) / name, os.X_OK)]
    if missing:
        raise SystemExit(f"{binaries} lacks {', '.join(missing)}")
