"""A single server, and a router over two groups, must select exactly the documents that a model selects, by filters,
groups, pages and counts.

    model_test.py FOLDER_OF_THE_PROGRAMS [--cases 2000] [--seconds 1200] [--seed S]

Writes and deletes random documents with random fields, compacts, and kills servers. In between, sends random requests.
A case is one request to each of the two servers. Stops after --cases cases or --seconds seconds, whichever comes first,
and prints how many cases there were. MAXSIM_TEST_SEED and MAXSIM_SELECTION_CASES also set the seed and the number of
cases. `make explore` runs 100,000 cases.
"""

import argparse
import os
import pathlib
import random
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("cluster", "live")]
import nodes  # noqa: E402
import server as client  # noqa: E402
import model  # noqa: E402

GROUPS = 2
CASES_PER_QUERY, QUERIES_PER_WRITE = 8, 3
CASES_PER_RESTART = 1000
WEIGHTS = {"search": 8, "count": 1, "facets": 1, "scroll": 1}


def start(programs, folder):
    """Returns a cluster whose groups have one server each, with a log of its own."""
    cluster = nodes.Cluster(programs, folder, {}, [{}] * GROUPS, replicas=1, flags=client.COMPACTS_OFTEN)
    for node in [cluster.single, *cluster.replicas()]:
        node.flags["store.allowed_roots"] = node.folder
    return cluster


def restart(cluster, models, chooser):
    """Kills the single server or the server of a group, and starts it again."""
    node = chooser.choice([cluster.single, *cluster.replicas()])
    node.collections = {one.name: node.folder / one.name for one in models}
    node.kill()
    if node is not cluster.single:
        cluster.wait_lost([node])  # otherwise the router might still send a request to the old process
    node.start()
    cluster.wait_ready()


def run(cluster, models, cases, seconds, chooser):
    """Returns the number of cases that were done."""
    done, num_restarts, until = 0, 0, time.monotonic() + seconds
    for one in models:
        for _ in range(10):
            one.write()
    while done < cases and time.monotonic() < until:
        one = chooser.choice(models)
        if done // CASES_PER_RESTART > num_restarts:
            restart(cluster, models, chooser)
            num_restarts += 1
        for _ in range(chooser.randint(1, 3)):
            one.write()
        for _ in range(QUERIES_PER_WRITE):
            rankings = one.rank_all()
            for _ in range(CASES_PER_QUERY):
                tree = one.random.tree(chooser.randint(1, 4)) if chooser.random() < 0.9 else None
                kind = chooser.choices(list(WEIGHTS), WEIGHTS.values())[0]
                arguments = (rankings, tree) if kind == "search" else (tree,)
                getattr(one, kind)(*arguments)
                done += 1
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=int(os.environ.get("MAXSIM_SELECTION_CASES", 2000)))
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    chooser = random.Random(arguments.seed)
    begin = time.monotonic()
    with nodes.workspace("selection") as folder:
        with start(arguments.programs, folder) as cluster:
            cluster.start()
            servers = {model.SINGLE: cluster.single, model.ROUTER: cluster.router}
            models = [
                model.Model(servers, f"{id_type}-{number}", id_type, chooser)
                for id_type in ("string", "int64")
                for number in range(2)
            ]
            done = run(cluster, models, arguments.cases, arguments.seconds, chooser)
            cluster.stop()
    for one in models:
        print(one.name, one.fields, f"{one.planes} planes", dict(sorted(one.counts.items())))
    for kind in ("whole", "list grouped", "matching", "delete_matching", "scroll"):
        assert sum(one.counts[kind] for one in models) or done < 2000, f"no case of the kind {kind!r} in {done} cases"
    print(f"{done} cases of {arguments.cases} in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
