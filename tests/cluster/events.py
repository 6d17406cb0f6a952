"""Events that happen to replicas while clients ask, one at a time."""

import collections
import time

PAUSE_S = 3


class Events:
    """Causes events one after another. `kinds` lists the kinds of events. The method be_KIND causes an event and undoes
    it before it returns. Subclasses add kinds. Set `askers` (the clients) before run(). It is told which event happens,
    and is checked after each event."""

    kinds = ["killed", "paused", "drained"]

    def __init__(self, cluster, chooser):
        self.cluster, self.chooser = cluster, chooser
        self.askers = None
        self.counts = collections.Counter()
        self.hedges = 0

    def run(self, seconds):
        """Causes events for `seconds`, and longer if some kind of event has not happened by then."""
        kinds = list(self.kinds)
        until = time.monotonic() + seconds
        time.sleep(1)  # the router learns how long answers take
        while time.monotonic() < until or not self._all_happened():
            for kind in kinds:
                self.counts[kind] += 1
                getattr(self, "be_" + kind)()
                self.after_event()
                if time.monotonic() > until and self._all_happened():
                    break
            self.chooser.shuffle(kinds)

    def _all_happened(self):
        return all(self.counts[kind] for kind in self.kinds)

    def after_event(self):
        self.askers.expect_no_problem()

    def tell(self, what):
        self.askers.event = what
        print(what, flush=True)

    def one(self, what):
        """Returns the replica that the next event happens to."""
        node = self.chooser.choice(self.cluster.replicas())
        self.tell(f"{what} {node.name}")
        return node

    def be_killed(self):
        node = self.one("kill")
        node.kill()
        time.sleep(self.chooser.random())
        node.start()
        self.cluster.wait_ready()

    def be_paused(self):
        hedges = self.cluster.router.metrics()["maxsim_group_hedges_total"]
        node = self.one("pause")
        node.pause()
        time.sleep(PAUSE_S)
        node.go_on()
        self.cluster.wait_ready()
        self.hedges += self.cluster.router.metrics()["maxsim_group_hedges_total"] - hedges

    def be_drained(self):
        node = self.one("drain")
        node.stop()
        node.start()
        self.cluster.wait_ready()

    def reload_by_program(self, name):
        """Reloads a collection on all groups with maxsimctl, as an operator does."""
        self.cluster.control("reload", "--cluster", name)
