"""No request fails while replicas are cut off from the network, one replica at a time.

    network_test.py FOLDER_OF_THE_PROGRAMS [--seconds 15] [--kind namespaces|relays] [--deadline 2] [--seed S]

Without --kind, the test runs twice: with network namespaces, if they can be created, and with relays. In namespaces,
packets take a millisecond, and one in a hundred is lost. Each answer must equal that of a single server bit for bit.
"""

import argparse
import os
import pathlib
import random
import time

import nodes
import wires
from background import Askers, Pool
from equality_test import PARTS, build_cluster, make_corpora

CUT_S = 3


def cut_one_after_the_other(cluster, net, pool, arguments):
    """Cuts replicas off, one at a time. Returns how many."""
    chooser, count = random.Random(arguments.seed), 0
    askers = Askers(cluster.router, pool, arguments.clients, arguments.deadline)
    until = time.monotonic() + arguments.seconds
    with askers:
        time.sleep(1)
        while time.monotonic() < until or not count:
            node = chooser.choice(cluster.replicas())
            askers.event = f"cut {node.name}"
            print(askers.event, flush=True)
            net.cut(node.name)
            time.sleep(CUT_S)
            net.heal(node.name)
            cluster.wait_ready()
            askers.expect_no_problem()
            count += 1
    askers.expect_no_problem()
    print(f"{count} were cut; {askers.summary()}", flush=True)


def run_namespaces(arguments, folder, corpora):
    names = nodes.names_of_nodes(PARTS, 2)
    with wires.Switch(names, arguments.seed) as net:
        places = [net.place(name) for name in names]
        cluster, _ = build_cluster(arguments.programs, folder, corpora, places=places)
        with cluster:
            cluster.start()
            pool = Pool(cluster.single, corpora, arguments.seed, 100)
            pool.learn()
            cut_one_after_the_other(cluster, net, pool, arguments)


def run_relays(arguments, folder, corpora):
    cluster, _ = build_cluster(arguments.programs, folder, corpora)
    with cluster, nodes.contextlib.ExitStack() as stack:
        net = None

        def targets():
            nonlocal net
            net = stack.enter_context(wires.Relays({node.name: node.target for node in cluster.replicas()}))
            return net.said

        cluster.start(targets)
        pool = Pool(cluster.single, corpora, arguments.seed, 100)
        pool.learn()
        cut_one_after_the_other(cluster, net, pool, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=2)
    parser.add_argument("--kind", choices=["namespaces", "relays"])
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    corpora = make_corpora(arguments.seed)
    kinds = [arguments.kind] if arguments.kind else ["namespaces", "relays"]
    if not arguments.kind and (reason := wires.why_no_switch()):
        print(f"skipped: namespaces, which this machine does not let one make: {reason}", flush=True)
        kinds = ["relays"]
    for kind in kinds:
        print(f"with {kind}:", flush=True)
        with nodes.workspace("network") as folder:
            {"namespaces": run_namespaces, "relays": run_relays}[kind](arguments, folder, corpora)


if __name__ == "__main__":
    main()
