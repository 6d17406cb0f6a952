"""A reload reaches all servers of a cluster, also those that were dead or cut off meanwhile, and can be taken back.

    reload_test.py FOLDER_OF_THE_PROGRAMS [--seed S]

Two groups of two replicas, each with its own copy of the folder, and clients that ask a router all the time. No request
may fail, and each answer must have the bits of the single server's answer for a generation that a reload has named: no
answer may lack documents or mix generations, and a generation that is only published may not be seen.
"""

import argparse
import os
import pathlib
import shutil
import time
import urllib.request

import compare
import nodes
from background import Askers, Pool
from corpus import Built, Corpus
from maxsim.v1 import rerank_pb2

NAME, GROUPS = "words", 2
MANIFEST, NOTE = "collection.json", "collection.served.json"
LIMIT_S = 20


def wait_until(condition, what):
    until = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {LIMIT_S} s"
        time.sleep(0.05)


def bring(source, target):
    """Copies a published generation into a replica's folder, as docs/operate/reload.md says: the manifest last."""
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if path.name not in (MANIFEST, ".maxsim-build.lock") and not (target / path.name).exists():
            shutil.copy(path, target)
    previous = source / "collection.previous.json"
    if previous.exists():
        shutil.copy(previous, target)
    shutil.copy(source / MANIFEST, target / "new.json")
    os.replace(target / "new.json", target / MANIFEST)


class World:
    def __init__(self, programs, folder, seed):
        self.folder = folder
        self.built = Built(programs, folder, Corpus(NAME, "f16", "string", seed, dim=16, size=60), GROUPS)
        parts = [{NAME: part} for part in self.built.parts]
        # On a busy machine, requests may wait for seconds.
        flags = {"batching.max_queue_time": "30s"}
        self.cluster = nodes.Cluster(programs, folder, {NAME: self.built.whole}, parts, flags=flags)
        for group in range(GROUPS):
            for node in self.cluster.groups[group]:
                node.collections = {NAME: folder / f"{node.name}-docs"}
        self.bring_all()
        self.cluster.start()
        self.pool = Pool(self.cluster.single, [self.built.corpus], seed, 40)
        self.pool.learn()
        self.askers = None

    def place_of(self, node):
        return node.collections[NAME]

    def bring_to(self, node):
        group = next(group for group in range(GROUPS) if node in self.cluster.groups[group])
        bring(self.built.parts[group], self.place_of(node))

    def bring_all(self, but=None):
        for node in self.cluster.replicas():
            if node is not but:
                self.bring_to(node)

    def publish(self, but=None):
        """Publishes the next generation in the folder of each replica but one. No reload has named it yet."""
        self.built.publish()
        self.bring_all(but)

    def learn(self):
        """Learns the right answers of the published generation. From now on, the router may give them."""
        name = f"{NAME}-{self.built.generation}"
        self.cluster.single.load(name, self.built.copy_whole(name))
        self.pool.learn({NAME: name})
        self.cluster.single.unload(name)

    def tell(self, what):
        print(what, flush=True)
        self.askers.event = what

    def expect_all(self, generation):
        """Waits until all replicas get requests, and checks that all serve the generation, and so does the router."""
        self.cluster.wait_ready()
        for node in [*self.cluster.replicas(), self.cluster.router]:
            found = node.info(NAME).generation
            assert found == generation, f"{node.name} has generation {found} instead of {generation}"
        for number, request in enumerate(self.pool.requests):
            answer = compare.call(self.cluster.router.reranker.Rerank, request)
            problem = self.pool.check(number, answer)
            assert not problem, problem
            if request.collection:  # else all documents are in the request
                assert answer.generation == generation, f"an answer of generation {answer.generation}, not {generation}"
        self.askers.expect_no_problem()

    def expect_not_reached(self, found, node):
        index = next(index for index in range(GROUPS) if node in self.cluster.groups[index])
        wanted = f"{self.cluster.router.target_of[node.name]} of group g{index}"
        assert list(found) == [wanted], f"not reached: {list(found)} instead of {wanted}"

    def restart(self, node, generation):
        """Kills and starts a replica, and checks the generation that it loads when it starts."""
        node.kill()
        node.start()
        found = node.info(NAME).generation
        assert found == generation, f"{node.name} has started with generation {found} instead of {generation}"


def a_dead_machine(world):
    """One replica is killed just before the reload comes to it."""
    cluster, (_, dead) = world.cluster, world.cluster.groups[0]
    world.tell("reload while a machine is dead")
    wait_until(lambda: all((world.place_of(node) / NOTE).exists() for node in cluster.replicas()), "notes")
    world.publish()
    world.learn()
    dead.kill()
    response = cluster.router.reload(NAME)
    assert response.changed and response.collection.generation == 2, f"{response}"
    world.expect_not_reached(response.not_reached, dead)
    dead.start()
    world.expect_all(2)


def a_cut_and_a_roll_back(world):
    """One replica is silent while the others go back. It has the newer number, and goes back by itself."""
    cluster, (_, silent) = world.cluster, world.cluster.groups[1]
    world.tell("roll back while a machine is silent")
    silent.pause()
    cluster.wait_lost([silent])
    said = cluster.control("reload", "--cluster", NAME, "--roll-back")
    assert said.startswith(f"reloaded {NAME}: generation 1"), said
    assert f"not reached: {cluster.router.target_of[silent.name]} of group g1" in said, said
    assert cluster.router.info(NAME).generation == 1
    silent.go_on()
    world.expect_all(1)


def a_generation_that_is_only_published(world):
    """Every folder has generation 3, and generation 2 of before. Machines that restart serve 1, as the others do."""
    world.tell("restart machines after a publication")
    world.publish(but=world.cluster.groups[0][1])
    for group in world.cluster.groups:
        world.restart(group[0], 1)
    world.expect_all(1)


def a_machine_without_the_files(world):
    """One replica was dead when generation 3 was brought and commanded."""
    cluster, (_, without) = world.cluster, world.cluster.groups[0]
    world.tell("reload a generation that a dead machine lacks")
    world.learn()
    without.kill()
    response = cluster.router.reload(NAME)
    assert response.collection.generation == 3, f"{response}"
    world.expect_not_reached(response.not_reached, without)
    without.start()
    target = cluster.router.target_of[without.name]

    def is_left_out():
        shown = cluster.router.groups()[target]
        return shown.state == rerank_pb2.REPLICA_STATE_LEFT_OUT and "no generation 3 in" in shown.error

    wait_until(is_left_out, "the reason in the router's info")
    shown = cluster.router.groups()[target].error
    reason = "it has generation 1, but requests name 3; its last reload failed: "
    assert reason in shown, shown
    ready = f"http://{cluster.router.host}:{cluster.router.http_port}/readyz"
    with urllib.request.urlopen(ready, timeout=LIMIT_S) as answer:
        text = answer.read().decode()
    assert reason in text, text
    gauge = [value for name, labels, value in cluster.router.series()
             if name == "maxsim_replica_left_out" and target in labels]  # fmt: skip
    assert gauge == [1], f"maxsim_replica_left_out is {gauge}"
    wait_until(lambda: "no generation 3 in" in cluster.router.log(), "the reason in the router's log")
    world.bring_to(without)
    response = cluster.router.reload(NAME)
    assert not response.not_reached, f"{response}"
    world.expect_all(3)
    world.restart(without, 3)
    world.expect_all(3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    with nodes.workspace("reload") as folder:
        world = World(arguments.programs, folder, arguments.seed)
        with world.cluster:
            world.askers = Askers(world.cluster.router, world.pool, 1, deadline_s=20, rest_s=0.02)
            with world.askers:
                a_dead_machine(world)
                a_cut_and_a_roll_back(world)
                a_generation_that_is_only_published(world)
                a_machine_without_the_files(world)
            world.askers.expect_no_problem()
            print(world.askers.summary())
            assert len(world.askers.times) > 50, "too few requests for this to mean something"
            world.cluster.stop()


if __name__ == "__main__":
    main()
