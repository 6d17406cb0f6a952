"""Tests the simulation of bench/cluster: latency quantiles without queues, the limit on hedged calls, and that every
request is answered exactly once.

python cluster_simulation_test.py
"""

import dataclasses
import json
import math
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "cluster"))

import pages  # noqa: E402
import service_times  # noqa: E402
import simulate  # noqa: E402
import world  # noqa: E402

SEED = 20261126
# Service times in microseconds, with a long tail, of a replica that handles two requests at a time.
PROFILE = {
    "places": 2,
    "mean": 1000.0,
    "quantiles": {"0.5": 800.0, "0.9": 1500.0, "0.95": 2000.0, "0.99": 5000.0, "0.999": 9000.0, "1.0": 20000.0},
}
TIMES = service_times.from_profile("test", PROFILE)
IDLE = 0.001  # a load at which nothing waits


def run(fan_out=4, load=0.5, seed=SEED, times=TIMES, **members):
    return world.World(world.Setting(times, fan_out, load, **members), seed).run()


def rank_error(values, times, share, power=1):
    """Returns by how many standard errors the rank of the `share` quantile of `values` differs from the expected rank.
    Each value is the largest of `power` draws from `times`."""
    found = simulate.quantile_of(values, share)
    low, high = 0.0, 1.0
    for _ in range(60):  # find the share of the distribution that is below `found`
        middle = (low + high) / 2
        low, high = (middle, high) if times.quantile(middle) < found else (low, middle)
    return abs(low**power - share) / math.sqrt(share * (1 - share) / len(values))


class ServiceTimesTest(unittest.TestCase):
    def test_quantiles_are_the_measured_ones_and_the_mean_is_the_measured_mean(self):
        for share, value in PROFILE["quantiles"].items():
            self.assertAlmostEqual(TIMES.quantile(float(share)), value)
        self.assertAlmostEqual(TIMES.quantile(0.7), 800 + 700 / 2)
        self.assertAlmostEqual(TIMES.mean(), PROFILE["mean"])
        self.assertGreater(TIMES.quantile(0.0), 0)
        self.assertLess(TIMES.quantile(0.0), 800)

    def test_a_profile_that_makes_no_sense_is_refused(self):
        for wrong in (
            {"quantiles": {"0.5": 800.0, "1.0": 700.0}},
            {"quantiles": {"0.5": 800.0, "0.9": 900.0}},
            {"quantiles": {}},
            {"places": 0},
            {"places": 1.5},
        ):
            with self.subTest(wrong), self.assertRaises(ValueError):
                service_times.from_profile("wrong", {**PROFILE, **wrong})

    def test_the_profiles_of_the_repository_can_be_read(self):
        profiles = service_times.read_profiles(service_times.OUTPUT)
        self.assertEqual(set(profiles), {"cpu", "cpu-single", "h200", "h200-single"})
        written = json.loads(service_times.OUTPUT.read_text())["profiles"]
        for name, profile in profiles.items():
            self.assertAlmostEqual(profile.mean() / written[name]["mean"], 1, delta=0.02)
            # A simulated replica that handles as many requests at a time as the measured one must reach the measured
            # rate.
            self.assertAlmostEqual(profile.places * 1e6 / profile.mean() / written[name]["rps"], 1, delta=0.03)

    def test_a_report_that_is_no_closed_loop_without_errors_is_refused(self):
        right = json.loads((ROOT / "docs/performance/serving/latency-i8-1000x180.json").read_text())
        self.assertEqual(service_times.profile_of(right, "a GPU")["places"], 1)
        for wrong in ({"mode": "open"}, {"errors": {"INTERNAL": 1}}, {"client_bound": True}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                service_times.profile_of({**right, **wrong}, "a GPU")


class WorldTest(unittest.TestCase):
    def test_one_group_without_a_queue_has_the_quantiles_of_the_distribution(self):
        latencies = run(fan_out=1, load=IDLE, requests=20000, policy="none").latencies
        self.assertEqual(len(latencies), 20000)
        for share in (0.1, 0.5, 0.9, 0.95, 0.99, 0.999):
            self.assertLess(rank_error(latencies, TIMES, share), 4, share)

    def test_many_groups_without_a_queue_have_the_quantiles_of_the_slowest_of_so_many(self):
        for fan_out in (2, 8, 32):
            latencies = run(fan_out=fan_out, load=IDLE, requests=4000, policy="none").latencies
            for share in (0.5, 0.99):
                self.assertLess(rank_error(latencies, TIMES, share, power=fan_out), 4, (fan_out, share))

    def test_requests_wait_for_places_as_the_theory_of_queues_says(self):
        # One replica that handles one request at a time, with service times from 0 to 2,000 microseconds and Poisson
        # arrivals. By the formula of Pollaczek and Khinchine, the mean wait is the mean service time times load x (1 +
        # variance / mean^2) / 2 / (1 - load).
        flat = service_times.ServiceTimes("flat", 1, (0.0, 1.0), (0.0, 2000.0))
        load, means = 0.6, []
        for seed in range(6):
            latencies = run(1, load, seed, flat, policy="none", replicas=1, requests=20000).latencies
            means.append(sum(latencies) / len(latencies))
        wanted = 1000 * (1 + load * (1 + 1 / 3) / 2 / (1 - load))
        self.assertAlmostEqual(sum(means) / len(means) / wanted, 1, delta=0.04)

    def test_every_request_is_answered_once_whatever_fails(self):
        for fault in world.FAULTS:
            for policy in world.POLICIES:
                for load in (0.3, 0.7):
                    with self.subTest(fault=fault, policy=policy, load=load):
                        outcome = run(load=load, fault=fault, policy=policy, requests=2000)
                        self.assertEqual(outcome.requests, 2200)
                        self.assertEqual(outcome.answers, outcome.requests)
                        self.assertEqual(len(outcome.latencies), 2000)
                        self.assertEqual(outcome.calls, 4 * outcome.requests)
                        self.assertGreaterEqual(min(outcome.latencies), TIMES.quantile(0))
                        self.assertEqual(outcome.retries > 0, fault == "dead")

    def test_hedges_are_a_tenth_of_each_groups_calls_at_most(self):
        for fault in world.FAULTS:
            outcome = run(load=0.7, fault=fault, requests=3000)
            # A hedge does not count against its group's limit if all replicas of the call are known to be down. So with
            # a fault, the groups may count fewer hedges than there were.
            self.assertGreaterEqual(outcome.hedges, sum(outcome.hedges_of_groups))
            if fault == "none":
                self.assertEqual(outcome.hedges, sum(outcome.hedges_of_groups))
            self.assertGreater(outcome.hedges, 0)
            for hedges in outcome.hedges_of_groups:
                self.assertLessEqual(hedges, outcome.requests / world.CALLS_A_HEDGE + 1)
        self.assertEqual(run(policy="none").hedges, 0)
        self.assertEqual(run(replicas=1).hedges, 0)

    def test_hedges_shorten_the_tail_of_many_groups(self):
        plain, hedged = (run(16, 0.3, policy=policy, requests=3000).latencies for policy in ("none", "hedge"))
        self.assertLess(simulate.quantile_of(hedged, 0.99), 0.8 * simulate.quantile_of(plain, 0.99))

    def test_a_slow_replica_is_felt_and_less_with_hedges(self):
        well, plain, hedged = (
            simulate.quantile_of(run(1, 0.3, policy=policy, fault=fault, requests=3000).latencies, 0.99)
            for policy, fault in (("none", "none"), ("none", "slow"), ("hedge-eject", "slow"))
        )
        self.assertGreater(plain, 1.5 * well)
        self.assertLess(hedged, plain)

    def test_a_replica_is_left_out_where_it_is_silent_or_lost(self):
        for fault, policy, leaves_out in (
            ("none", "none", False),
            ("slow", "none", False),
            ("slow", "hedge-eject", False),
            ("paused", "hedge", False),
            ("paused", "hedge-eject", True),
            ("dead", "none", True),
        ):
            outcome = run(1, 0.3, fault=fault, policy=policy, requests=2000)
            self.assertEqual(outcome.ejections > 0, leaves_out, (fault, policy))

    def test_a_paused_replica_answers_what_it_held_after_the_pause(self):
        plain, hedged = (run(1, 0.3, policy=policy, fault="paused", requests=3000) for policy in world.POLICIES[:2])
        # The pause takes half of the run, in which 3,300 requests arrive.
        pause = 3300 / (0.3 * 3 * TIMES.places / TIMES.mean()) / 2
        self.assertAlmostEqual(max(plain.latencies) / pause, 1, delta=0.1)
        self.assertLess(simulate.quantile_of(hedged.latencies, 0.99), simulate.quantile_of(plain.latencies, 0.999))

    def test_the_same_seed_gives_the_same_run_and_another_one_another(self):
        self.assertEqual(run(fault="slow", requests=500), run(fault="slow", requests=500))
        self.assertNotEqual(run(requests=500).latencies, run(requests=500, seed=SEED + 1).latencies)

    def test_a_load_fault_or_policy_that_cannot_be_is_refused(self):
        for wrong in ({"load": 0.0}, {"load": 1.0}, {"fault": "lost"}, {"policy": "all"}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                run(**wrong)

    def test_buckets_are_those_of_the_router(self):
        # These are the upper limits of the buckets in server/cluster/observed/latency_window.h: buckets of one value
        # below 8, and eight buckets for each power of two above.
        limits = {0: 1, 7: 8, 8: 9, 15: 16, 16: 18, 17: 18, 1000: 1024, 1024: 1152, 1151: 1152, 1152: 1280}
        self.assertEqual({us: world.bucket_limit(us) for us in limits}, limits)


class PagesTest(unittest.TestCase):
    def setUp(self):
        self.rows = []
        for policy in world.POLICIES:
            for fan_out in (1, 2, 8):
                outcomes = [run(fan_out, 0.3, seed, policy=policy, requests=300) for seed in (1, 2)]
                setting = world.Setting(dataclasses.replace(TIMES, name="cpu"), fan_out, 0.3, policy)
                self.rows.append(simulate.row_of(setting, outcomes))
        self.report = {"what": "", "replicas": 3, "requests": 300, "seeds": [1, 2], "rows": self.rows}

    def test_a_row_has_the_median_over_the_seeds_within_its_band(self):
        for row in self.rows:
            self.assertLessEqual(row["p99_us_least"], row["p99_us"])
            self.assertLessEqual(row["p99_us"], row["p99_us_most"])
            self.assertEqual(row["hedge_share"] > 0, row["policy"] != "none")

    def test_groups_are_counted_up_to_the_first_that_is_beyond_the_factor(self):
        def rows(*values):
            return [{"fan_out": 2**i, "p99_us": value} for i, value in enumerate(values)]

        self.assertEqual(pages.largest_within(rows(100, 150, 151, 120), 100), 2)
        self.assertEqual(pages.largest_within(rows(100, 120), 100), 2)
        self.assertEqual(pages.largest_within(rows(151), 100), 0)

    def test_the_files_are_written_and_made_again_from_the_json(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "README.md").write_text("before\n\n" + pages.BEGIN + "old\n" + pages.END + "\nbehind\n")
            simulate.write(self.report, folder)
            written = json.loads((folder / "fanout.json").read_text())
            self.assertEqual(written, self.report)
            page, plot = (folder / "README.md").read_text(), (folder / "fanout.svg").read_text()
            self.assertTrue(page.startswith("before\n") and page.endswith("\nbehind\n") and "old" not in page)
            self.assertIn("| cpu | 0.3 | none |", page)
            self.assertEqual(plot.count("<polyline"), 3)
            simulate.write(written, folder)
            self.assertEqual((page, plot), ((folder / "README.md").read_text(), (folder / "fanout.svg").read_text()))

    def test_the_rows_of_the_repository_are_those_of_its_service_times(self):
        report = json.loads((simulate.FOLDER / "fanout.json").read_text())
        times = service_times.read_profiles(service_times.OUTPUT)["cpu"]
        for policy in world.POLICIES:
            setting = world.Setting(times, 2, 0.3, policy, requests=report["requests"])
            row = simulate.row_of(setting, [world.World(setting, seed).run() for seed in report["seeds"]])
            (written,) = pages.find(report["rows"], profile="cpu", load=0.3, fault="none", policy=policy, fan_out=2)
            self.assertEqual(written.keys(), row.keys())
            for name in ("p50_us", "p99_us", "p999_us", "hedge_share", "ejections"):
                self.assertAlmostEqual(written[name], row[name], delta=1e-3 * row[name] + 1e-9)

    def test_the_files_of_the_repository_are_those_of_its_json(self):
        report = json.loads((simulate.FOLDER / "fanout.json").read_text())
        self.assertEqual((simulate.FOLDER / "fanout.svg").read_text(), pages.svg(report["rows"]))
        page = (simulate.FOLDER / "README.md").read_text()
        self.assertEqual(page, pages.with_table(page, report))


if __name__ == "__main__":
    unittest.main(verbosity=2)
