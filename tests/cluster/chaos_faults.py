"""The faults of chaos_suite.py. Each function causes one fault, lets it last, and ends it. `run` is the FaultRun, which
has the cluster, the network, and the duration of a fault."""

import dataclasses
from collections.abc import Callable

import compare
import faults
from live_load import RETRIABLE, UNAVAILABLE
from maxsim.v1 import admin_pb2
from trials import NATS

RESOURCE_EXHAUSTED = 8
BAD_DELAY_S, BAD_LOSS = 0.02, 0.02  # of each packet on each way
SILENT_P99_S = 1.5  # docs/operate/cluster.md promises that reads wait at most 1.4 s for a replica that does not answer
CHANGE_LIMIT_S = 120


def kill_replica(run):
    node = run.one()
    with run.lasting(f"kill {node.name}"):
        node.kill()
        run.wait()
    node.start()


def pause_replica(run):
    node = run.one()
    with run.lasting(f"pause {node.name}"):
        node.pause()
        run.wait()
        node.go_on()


def drain_replica(run):
    node = run.one()
    with run.lasting(f"drain {node.name}"):
        node.stop()
        run.wait()
    node.start()


def silence_replica(run):
    _cut(run, [run.one().name])


def silence_one_of_each_group(run):
    _cut(run, [run.chooser.choice(group).name for group in run.cluster.groups])


def cut_replica_from_nats(run):
    node = run.one()
    _cut(run, [f"{node.name}/{server}" for server in NATS])


def cut_replica_from_router(run):
    _cut(run, [f"{run.chooser.choice(run.cluster.routers).name}/{run.one().name}"])


def _cut(run, names):
    with run.lasting(f"cut {', '.join(names)}"):
        for name in names:
            run.world.net.cut(name)
        run.wait()
        for name in names:
            run.world.net.heal(name)


def worsen_network(run):
    with run.lasting(f"delay packets by {BAD_DELAY_S} s and lose {BAD_LOSS} of them"):
        run.world.net.set(BAD_DELAY_S, BAD_LOSS)
        run.wait()
        run.world.net.set(0, 0)


def kill_nats_leader(run):
    leader = run.world.nats.leader_of(run.world.stream)
    with run.lasting(f"kill {leader.folder.name}, which leads the stream"):
        leader.kill()
        run.wait()
        leader.start()


def lose_nats_majority(run):
    """Kills two of the three NATS servers. No write that begins after that may be acknowledged until they are
    restarted."""
    lost = run.chooser.sample(run.world.nats.servers, 2)
    with run.lasting(f"kill {' and '.join(one.folder.name for one in lost)}"):
        for one in lost:
            one.kill()
        written = run.written_while_waiting()
        for one in lost:
            one.begin()
        for one in lost:
            one.wait()
    assert not written, f"{written} documents were acknowledged without a majority of NATS"


def give_disks_that_fill(stack, world):
    """Prepares the replicas for fill_disk(). Call this before they start. `stack` undoes it at its end."""
    for node in world.cluster.replicas():
        node.faults = faults.Faults(world.folder)
        stack.callback(node.faults.close)
        node.environment = node.faults.environment(node.folder / world.name)


def fill_disk(run):
    node = run.one()
    with run.lasting(f"fill the disk of {node.name}"):
        node.faults.disk_full()
        run.wait()
        met = node.faults.get("num_writes")
        node.faults.clear()
    assert met, f"{node.name} did not write to its full disk, so this means nothing"


def kill_router(run):
    index = run.chooser.randrange(len(run.cluster.routers))
    with run.lasting(f"kill {run.cluster.routers[index].name}"):
        run.world.kill_router(index, run.wait)


def compact_without_replica(run):
    """Compacts and reloads the collection through a router while a replica is down."""
    node, admin = run.one(), run.chooser.choice(run.cluster.routers).admin
    with run.lasting(f"compact and reload without {node.name}"):
        node.kill()
        run.wait()
        name = run.world.name
        for call, request in (
            (admin.CompactCollection, admin_pb2.CompactCollectionRequest(name=name)),
            (admin.ReloadCollection, admin_pb2.ReloadCollectionRequest(name=name)),
        ):
            answer = compare.call(call, request, CHANGE_LIMIT_S)
            code = answer.code if isinstance(answer, compare.Failure) else 0
            # UNAVAILABLE is allowed, because one replica cannot be reached. The other replicas may have done the work
            # all the same.
            assert code in (0, UNAVAILABLE), f"{type(request).__name__}: {answer}"
    node.start()


@dataclasses.dataclass(frozen=True)
class Fault:
    """A kind of fault. `happen` is one of the functions above. `max_p99_s` limits the 99th percentile of the duration
    of reads during the fault."""

    happen: Callable
    needs_switch: bool = False
    needs_disk: bool = False  # each replica has the attribute `faults`
    stops_nats: bool = False  # a group may see another group's latest writes only when NATS is back
    max_p99_s: float | None = None
    write_codes: tuple = RETRIABLE


FAULTS = {
    "replica-killed": Fault(kill_replica),
    "replica-paused": Fault(pause_replica),
    "replica-drained": Fault(drain_replica),
    "replica-silent": Fault(silence_replica, needs_switch=True, max_p99_s=SILENT_P99_S),
    "replicas-silent": Fault(silence_one_of_each_group, needs_switch=True, max_p99_s=SILENT_P99_S),
    "replica-without-nats": Fault(cut_replica_from_nats, needs_switch=True),
    "replica-without-router": Fault(cut_replica_from_router, needs_switch=True),
    "bad-network": Fault(worsen_network, needs_switch=True),
    "nats-leader-killed": Fault(kill_nats_leader, stops_nats=True),
    "nats-majority-lost": Fault(lose_nats_majority, stops_nats=True),
    "disk-full": Fault(fill_disk, needs_disk=True, write_codes=(*RETRIABLE, RESOURCE_EXHAUSTED)),
    "router-killed": Fault(kill_router),
    "compaction": Fault(compact_without_replica),
}
