"""The servers of a cluster, each at its own address: a single server with whole collections, groups of replicas with
one partition per group, and routers. A test can start, stop, kill and pause each server."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "live"))
import server as client  # noqa: E402
from maxsim.v1 import rerank_pb2  # noqa: E402

READY_LIMIT_S = 60

# Tests run many servers on one machine, so each is small.
SMALL = {
    "server.shutdown_delay": "300ms",  # so that the router learns of the shutdown
    "memory.budget": "64MiB",
    "log.level": "info",
}
ROUTER = {"cluster.poll_interval": "250ms"}


@contextlib.contextmanager
def workspace(name):
    """A folder that is removed at the end. If the test failed, the logs stay."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"maxsim-{name}-"))
    try:
        yield folder
    except BaseException:
        logs = folder.with_name(folder.name + "-logs")
        logs.mkdir()
        for log in [*folder.glob("*/maxsimd.log"), *folder.glob("nats/**/nats.log")]:
            shutil.copy(log, logs / f"{log.parent.name}.log")
        print(f"The servers' logs are in {logs}", flush=True)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Node(client.Server):
    """A maxsimd that keeps its address across restarts. `collections` maps the names of the collections that it serves
    from the start to their folders."""

    def __init__(self, programs, folder, host, flags, collections, prefix=()):
        folder.mkdir()
        super().__init__(programs, folder, {**SMALL, "store.allowed_roots": folder.parent, **flags})
        self.name, self.host, self.prefix, self.collections = folder.name, host, list(prefix), collections
        self.flags["grpc.address"] = self.flags["http.address"] = f"{host}:0"
        self.is_paused = False

    @property
    def target(self):
        return f"{self.host}:{self.grpc_port}"

    def start(self, collections=None):
        super().start({**self.collections, **(collections or {})})
        self.flags["grpc.address"] = f"{self.host}:{self.grpc_port}"
        self.flags["http.address"] = f"{self.host}:{self.http_port}"

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def post(self, path, body, timeout_s=client.CALL_LIMIT_S):
        """Returns status and body of an HTTP call."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.host}:{self.http_port}{path}", data, method="POST")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def series(self):
        """Returns the server's metrics as (name, labels, value). `labels` is the text of all labels with its braces."""
        with urllib.request.urlopen(f"http://{self.host}:{self.http_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = re.findall(r"^([a-zA-Z_:]+)(\{[^\n]*\})? (\S+)$", text, re.M)
        return [(name, labels, float(value)) for name, labels, value in found]

    def metrics(self):
        """Returns the server's metrics by name, each summed over its series."""
        sums = {}
        for name, _, value in self.series():
            sums[name] = sums.get(name, 0.0) + value
        return sums

    def ready_collections(self):
        """Returns the names of the collections that the server reports as READY."""
        info = self.reranker.GetInfo(rerank_pb2.GetInfoRequest(), timeout=5)
        return {one.name for one in info.collections if one.state == rerank_pb2.COLLECTION_STATE_READY}

    def groups(self):
        """Returns the states of replicas by target, as a router reports them."""
        info = self.reranker.GetInfo(rerank_pb2.GetInfoRequest(), timeout=client.CALL_LIMIT_S)
        return {one.target: one for group in info.groups for one in group.replicas}


def loopback(number):
    """Returns an address of the loopback interface. Each server has an address of its own, so that no other program
    takes its port while the server is down."""
    return f"127.53.0.{number}"


def names_of_nodes(parts, replicas, routers=1):
    """Returns the names of a cluster's servers, in the order of Cluster's `places`."""
    of_groups = [f"g{part}-{'abc'[replica]}" for part in range(parts) for replica in range(replicas)]
    return ["single", "router", *of_groups, *(f"router-{number}" for number in range(1, routers))]


def on_all(function, nodes):
    """Calls the function with each of the nodes, with all at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(function, nodes))


class Cluster:
    """The servers of a test. `whole` (of the single server) and `parts` (one for each group) map names of collections
    to folders. `places` are the host and the command prefix of each server, in the order of names_of_nodes."""

    def __init__(
        self, programs, folder, whole, parts, replicas=2, flags=None, places=None, routers=1, router_flags=None
    ):
        self.programs, self.folder = pathlib.Path(programs).resolve(), pathlib.Path(folder)
        names = names_of_nodes(len(parts), replicas, routers)
        places = dict(zip(names, places or [(loopback(number), ()) for number in range(1, 1 + len(names))]))
        flags, count = flags or {}, len(parts)
        host, prefix = places["single"]
        self.single = Node(self.programs, self.folder / "single", host, flags, whole, prefix)
        self.groups = []
        for index, collections in enumerate(parts):
            of_group = {**flags, "cluster.partition": f"{index}/{count}"} if count > 1 else flags
            nodes = []
            for name in names[2 + index * replicas : 2 + (index + 1) * replicas]:
                host, prefix = places[name]
                nodes.append(Node(self.programs, self.folder / name, host, of_group, collections, prefix))
            self.groups.append(nodes)
        self.router_flags = {**ROUTER, **(router_flags or {})}
        self.router_places = {name: places[name] for name in names if name.startswith("router")}
        self.routers = []

    @property
    def router(self):
        """The first router, or None before start()."""
        return self.routers[0] if self.routers else None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for node in self.nodes():
            if node.process is not None:
                node.kill()
        if kind is not None:
            for node in [node for node in self.nodes() if node is not self.single]:
                print(f"--- {node.name}\n{node.log_end(1500)}", flush=True)

    def nodes(self):
        return [self.single, *self.replicas(), *self.routers]

    def replicas(self):
        return [node for group in self.groups for node in group]

    def start(self, targets=None):
        """Starts all servers, the replicas in parallel. `targets` returns the addresses at which routers reach the
        replicas, by name. By default these are the replicas' own addresses."""
        on_all(Node.start, [self.single, *self.replicas()])
        targets = targets() if targets else {node.name: node.target for node in self.replicas()}
        groups = [
            f"g{index}=" + " ".join(targets[node.name] for node in group) for index, group in enumerate(self.groups)
        ]
        flags = {**self.router_flags, "cluster.groups": ",".join(groups)}
        for name, (host, prefix) in self.router_places.items():
            self.routers.append(Node(self.programs, self.folder / name, host, flags, {}, prefix))
            self.routers[-1].target_of = targets
        on_all(Node.start, self.routers)
        self.wait_ready()

    def wait_ready(self, nodes=None, may_be_left_out=False):
        """Waits until each router reports all these replicas (default: all of the cluster) as READY, with the
        collections that they serve. With `may_be_left_out`, a replica may be ready but get no requests because of its
        generation."""
        for router in self.routers:
            self._wait_ready(router, self.replicas() if nodes is None else nodes, may_be_left_out)

    def _wait_ready(self, router, wanted, may_be_left_out):
        until = time.monotonic() + READY_LIMIT_S
        while True:
            states = router.groups()
            ready = {rerank_pb2.REPLICA_STATE_READY}
            if may_be_left_out:
                ready.add(rerank_pb2.REPLICA_STATE_LEFT_OUT)
            late = [node for node in wanted if not self._is_ready(node, states[router.target_of[node.name]], ready)]
            names = {name for node in wanted for name in node.collections}
            if not late and names <= router.ready_collections():
                return
            if time.monotonic() > until:
                said = {node.name: str(states[router.target_of[node.name]]) for node in late}
                raise AssertionError(f"{router.name} does not say READY in {READY_LIMIT_S} s of {said}")
            time.sleep(0.05)

    def wait_lost(self, nodes):
        """Waits until the router reports none of these replicas as READY."""
        until = time.monotonic() + 10
        targets = {self.router.target_of[node.name] for node in nodes}
        ready = rerank_pb2.REPLICA_STATE_READY
        while lost := [name for name, one in self.router.groups().items() if name in targets and one.state == ready]:
            assert time.monotonic() < until, f"the router says READY of {lost}, which were ended 10 s ago"
            time.sleep(0.05)

    @staticmethod
    def _is_ready(node, state, ready):
        if state.state not in ready:
            return False
        try:
            return node.collections.keys() <= node.ready_collections()
        except grpc.RpcError:
            return False

    def control(self, *arguments):
        """Runs maxsimctl on the router. Returns what it printed."""
        done = subprocess.run(self.control_command(*arguments), capture_output=True, text=True)
        assert done.returncode == 0, f"maxsimctl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def control_command(self, *arguments):
        """Returns the command that runs maxsimctl on the router."""
        return [str(self.programs / "maxsimctl"), "--server", self.router.target, *arguments]

    def stop(self):
        """Stops all servers by SIGTERM, the routers first. Raises if one of them fails to stop properly."""
        for node in [*self.routers, *self.replicas(), self.single]:
            node.stop()


def shard_tool(programs, *arguments):
    command = [str(pathlib.Path(programs) / "maxsim-shard"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
