"""No request fails while replicas are killed, paused, drained and reloaded, one replica at a time.

    chaos_test.py FOLDER_OF_THE_PROGRAMS [--seconds 45] [--clients 3] [--deadline 2] [--seed S]

Each answer must equal, bit for bit, the answer of a single server with the generation that the answer names. Later all
servers of a group are stopped. Then a request that requires all documents must fail. Any other request must rank the
remaining documents, and name the missing group and the number of its documents. After the group's restart, answers must
be complete again. MAXSIM_TEST_SEED and MAXSIM_CLUSTER_SECONDS also set seed and duration.
"""

import argparse
import os
import pathlib
import random
import sys
import time

import compare
import corpus
import nodes
from background import Askers, Pool
from equality_test import PARTS, build_cluster, make_corpora
from events import Events
from maxsim.v1 import rerank_pb2

UNAVAILABLE = 14


class Chaos(Events):
    kinds = ["killed", "paused", "reloaded", "drained", "ahead"]

    def __init__(self, programs, folder, seed):
        self.seed, self.corpora = seed, make_corpora(seed)
        cluster, self.built = build_cluster(programs, folder, self.corpora)
        super().__init__(cluster, random.Random(seed))
        self.pool = None

    def begin(self, size):
        self.cluster.start()
        self.pool = Pool(self.cluster.single, self.corpora, self.seed, size)
        self.pool.learn()

    def _publish(self):
        """Publishes the next generation of every collection. The single server loads it under a new name."""
        names = {}
        for name, built in self.built.items():
            built.publish()
            names[name] = f"{name}-{built.generation}"
            self.cluster.single.load(names[name], built.copy_whole(names[name]))
        self.pool.learn(names)
        for name in names.values():
            self.cluster.single.unload(name)

    def _reload(self):
        for name, built in self.built.items():
            if self.chooser.random() < 0.5:
                self.reload_by_program(name)
                continue
            response = self.cluster.router.reload(name)
            assert response.changed, f"a reload of {name} through the router changed nothing"
            assert response.collection.generation == built.generation, f"reloaded {name}: {response.collection}"
        self.cluster.wait_ready()
        self.expect_generation()

    def expect_generation(self):
        """Checks that the router now answers requests from the newest generation."""
        for name, built in self.built.items():
            number = next(i for i, request in enumerate(self.pool.requests) if request.collection == name)
            answer = compare.call(self.cluster.router.reranker.Rerank, self.pool.requests[number])
            problem = self.pool.check(number, answer)
            assert not problem, problem
            assert answer.generation == built.generation, f"{name}: {answer.generation} after {built.generation}"

    def be_reloaded(self):
        self.tell("reload")
        self._publish()
        self._reload()

    def be_ahead(self):
        """Publishes a generation and restarts one replica. It goes on serving the generation before, as the others do:
        either it has noted that generation, or it loads the new one first, and the router tells it."""
        node = self.one("restart after the publication of a generation")
        self._publish()
        node.kill()
        node.start()
        self.cluster.wait_ready(may_be_left_out=True)
        time.sleep(0.5)
        self._reload()

    # The loss of a whole group.

    def lose_a_group(self):
        lost = self.chooser.choice([0, PARTS - 1])
        print(f"lose group g{lost}", flush=True)
        names, removed = {}, {}
        single = self.cluster.single
        for name, built in self.built.items():
            names[name] = f"{name}-without"
            single.load(names[name], built.merge_without(lost, names[name]))
            shown = self.cluster.groups[lost][0].info(name)
            removed[name] = shown.num_documents
        rest = self.pool.answers(names)
        for node in self.cluster.groups[lost]:
            node.kill()
        self.cluster.wait_lost(self.cluster.groups[lost])
        for number, request in enumerate(self.pool.requests):
            self._check_lost(lost, request, rest[number], removed)
        for node in self.cluster.groups[lost]:
            node.start()
        self.cluster.wait_ready()
        self.check_whole()

    def _check_lost(self, lost, request, rest, removed):
        """Checks the router's answer while group `lost` is down. `rest` is the single server's answer for a collection
        that lacks this group's documents."""
        wanted = rerank_pb2.RerankResponse()
        wanted.CopyFrom(rest)
        asks_lost = False
        for query, result in zip(request.queries, wanted.results):
            candidates = query.candidates if query.HasField("candidates") else request.candidates
            kind = candidates.WhichOneof("kind")
            if kind == "whole_collection":
                result.unavailable_documents = removed[request.collection]
                asks_lost = True
            elif kind in ("string_ids", "int_ids"):
                of_group = {id for id in getattr(candidates, kind).ids if corpus.part_of(id, PARTS) == lost}
                result.unavailable_documents = len(of_group)
                missing = getattr(result, "missing_" + kind).ids
                left = [id for id in missing if id not in of_group]
                if len(left) < len(missing):
                    result.ClearField("missing_" + kind)
                    if left:
                        getattr(result, "missing_" + kind).ids.extend(left)
                asks_lost = asks_lost or bool(of_group)
        if asks_lost:
            wanted.unavailable_groups.append(f"g{lost}")
        router = self.cluster.router.reranker
        answer = compare.call(router.Rerank, request)
        if asks_lost and isinstance(answer, compare.Failure) and self._asks_nobody_else(lost, request):
            assert answer.code == UNAVAILABLE, f"{answer}"
        else:
            found = compare.difference(wanted, answer)
            assert not found, f"without group g{lost}:\n{str(request)[:2000]}\n{found}"
        strict = type(request)()
        strict.CopyFrom(request)
        strict.missing_policy = rerank_pb2.MISSING_POLICY_FAIL
        answer = compare.call(router.Rerank, strict)
        if asks_lost:
            code = getattr(answer, "code", 0)
            assert code == UNAVAILABLE, f"code {code} under FAIL without group g{lost}:\n{str(strict)[:2000]}\n{answer}"

    @staticmethod
    def _asks_nobody_else(lost, request):
        """Returns whether all documents that a request names are in the lost group, so that no running server has any
        of them."""
        for query in request.queries:
            candidates = query.candidates if query.HasField("candidates") else request.candidates
            kind = candidates.WhichOneof("kind")
            if kind not in ("string_ids", "int_ids"):
                return False
            if any(corpus.part_of(id, PARTS) != lost for id in getattr(candidates, kind).ids):
                return False
        return True

    def check_whole(self):
        answers = compare.stream(self.cluster.router.reranker, self.pool.requests)
        for number, request in enumerate(self.pool.requests):
            problem = self.pool.check(number, answers[request.request_id])
            assert not problem, f"with all groups:\n{str(request)[:2000]}\n{problem}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("MAXSIM_CLUSTER_SECONDS", 45)))
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=2)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    with nodes.workspace("chaos") as folder:
        chaos = Chaos(arguments.programs, folder, arguments.seed)
        with chaos.cluster:
            chaos.begin(150)
            chaos.askers = Askers(chaos.cluster.router, chaos.pool, arguments.clients, arguments.deadline)
            with chaos.askers:
                chaos.run(arguments.seconds)
            print(chaos.askers.summary())
            chaos.askers.expect_no_problem()
            chaos.check_whole()
            chaos.lose_a_group()
            chaos.cluster.stop()
    print(f"{dict(chaos.counts)}, {chaos.hedges:.0f} second replicas asked while one was paused")
    if not chaos.hedges:
        sys.exit("no second replica was asked while one was paused")
    if len(chaos.askers.times) < 100:
        sys.exit("too few requests for this to mean something")


if __name__ == "__main__":
    main()
