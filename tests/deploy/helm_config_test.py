"""Tests the configuration files that the Helm chart writes, and the errors for invalid values.

python helm_config_test.py FOLDER_OF_PROGRAMS         in an environment with the packages of deploy.txt
"""

import pathlib
import sys
import unittest

import chart
from chart import NAMESPACE, VALUES, ChartTest, pod, server, with_all_values
from maxsimd_keys import Maxsimd

MAXSIMD = Maxsimd(pathlib.Path(sys.argv.pop(1)).resolve())
# Some builds of maxsimd lack these keys. With such a build, the tests remove them from a configuration.
CLUSTER_KEYS = ("cluster.partition",)
NATS_KEYS = ("live.log", "nats.url", "nats.credentials_file", "nats.replicas", "nats.stream_prefix", "nats.timeout")
TRACING_KEYS = ("tracing.endpoint", "tracing.sample_ratio")


def without(config, keys):
    """Removes those of `keys` that maxsimd lacks, and sections that become empty. Returns the other keys and
    sections."""
    lacked = {key for key in keys if not MAXSIMD.has(key)}
    kept = {section: {key: value for key, value in entries.items() if f"{section}.{key}" not in lacked}
            if isinstance(entries, dict) else entries for section, entries in config.items()}
    return {section: entries for section, entries in kept.items() if entries}


class ConfigTest(ChartTest):
    @with_all_values
    def test_maxsimd_takes_the_configuration_of_every_group(self, release):
        for one in release.of("StatefulSet"):
            config = release.config(one["metadata"]["name"])
            collections = config.pop("collections")
            known = without(config, CLUSTER_KEYS + NATS_KEYS + TRACING_KEYS)
            self.assertEqual(MAXSIMD.problem({**known, "collections": collections}), "")

    @with_all_values
    def test_maxsimd_takes_the_configuration_of_the_routers(self, release):
        for one in release.of("Deployment"):
            name = one["metadata"]["name"]
            groups = release.get("ConfigMap", f"{name}-groups")["data"]["groups.txt"]
            self.assertEqual(MAXSIMD.problem(without(release.config(name), TRACING_KEYS), groups), "")
            broken = groups + groups
            self.assertNotEqual(MAXSIMD.problem(without(release.config(name), TRACING_KEYS), broken), "")

    def test_maxsimd_refuses_a_partition_that_is_none(self):
        release = self.rendered("full", "--set", "groups.overrides.g1.partition=3/3")
        self.assertIn("partition", MAXSIMD.problem(without(release.config("rel-maxsim-g1"), NATS_KEYS + TRACING_KEYS)))

    def test_groups_hold_their_partitions_of_every_collection(self):
        release = self.rendered("full")
        configs = [release.config(f"rel-maxsim-g{index}") for index in range(3)]
        self.assertEqual([one["cluster"]["partition"] for one in configs], ["0/3", "1365-2729", "2/3"])
        paths = [[collection["path"] for collection in one["collections"]] for one in configs]
        self.assertEqual(paths[2], ["/collections/docs/partition-2-of-3", "/collections/notes/g2"])
        self.assertNotIn("cluster", self.rendered("one_group").config("rel-maxsim-g0"))

    def test_values_of_a_group_are_laid_over_those_of_all(self):
        release = self.rendered("full")
        engines = [release.config(f"rel-maxsim-g{index}")["engine"] for index in range(3)]
        self.assertEqual(engines[0], {"lanes": 4, "max_candidates": 8388608})
        self.assertEqual(engines[2], {"lanes": 2, "max_candidates": 8388608})
        store = self.rendered("minimal", "--set", "config.store.load_threads=8").config("rel-maxsim-g0")["store"]
        self.assertEqual(store, {"load_threads": 8, "allowed_roots": ["/collections"]})
        cluster = self.rendered("minimal", "--set", "router.config.cluster.timeout=10s").config("rel-maxsim-router")["cluster"]
        self.assertEqual(cluster, {"timeout": "10s", "groups_file": "/etc/maxsim-groups/groups.txt"})
        backends = [release.config(f"rel-maxsim-g{index}")["backend"] for index in range(3)]
        self.assertEqual(backends[0], {"kind": "cuda", "devices": "all"})
        self.assertEqual(backends[2], {"kind": "cuda"})
        self.assertNotIn("backend", self.rendered("one_group").config("rel-maxsim-g0"))

    @with_all_values
    def test_the_routers_ask_for_each_group_at_its_services_name(self, release):
        services = [one["metadata"]["name"] for one in release.of("StatefulSet") if one["spec"]["replicas"]]
        for one in release.of("Deployment"):
            lines = release.get("ConfigMap", one["metadata"]["name"] + "-groups")["data"]["groups.txt"].splitlines()
            wanted = {name.rpartition("-")[2]: f"dns:///{name}.{NAMESPACE}.svc.cluster.local:7070" for name in services}
            self.assertEqual(dict(line.split("=") for line in lines), wanted)
            self.assertEqual(len(lines), len(wanted))

    @with_all_values
    def test_files_and_folders_of_the_configuration_are_mounted(self, release):
        for name, workload in release.workloads().items():
            config = release.config(name)
            mounts = tuple(one["mountPath"] + "/" for one in server(workload)["volumeMounts"])
            paths = [value for section in config.values() if isinstance(section, dict)
                     for key, value in section.items() if key.endswith("_file")]
            paths += [one["path"] for one in config.get("collections", [])]
            self.assertTrue(paths, name)
            for path in paths:
                self.assertTrue(path.startswith(mounts), path)
            secrets = {one["name"] for one in pod(workload)["volumes"] if "secret" in one}
            used = {path.split("/")[2] for path in paths if path.startswith("/secrets/")}
            self.assertEqual(secrets, used, name)

    def test_the_token_between_routers_and_groups_is_one(self):
        release = self.rendered("full")
        groups = release.config("rel-maxsim-g0")["auth"]
        self.assertEqual(set(groups.values()), {release.config("rel-maxsim-router")["cluster"]["token_file"]})
        self.assertEqual(set(groups), {"tokens_file", "write_tokens_file", "admin_tokens_file"})
        clients = self.rendered("one_group").config("rel-maxsim-g0")["auth"]
        self.assertEqual(clients["tokens_file"], "/secrets/tokens/tokens")
        self.assertNotIn("write_tokens_file", clients)
        self.assertNotIn("auth", self.rendered("minimal").config("rel-maxsim-router"))

    def test_routers_expect_one_name_in_the_certificates_of_all_groups(self):
        cluster = self.rendered("full").config("rel-maxsim-router")["cluster"]
        self.assertEqual((cluster["tls"], cluster["server_name"]), (True, "rel-maxsim-groups.search.svc.cluster.local"))
        self.assertEqual(cluster["ca_file"], self.rendered("full").config("rel-maxsim-g0")["tls"]["client_ca_file"])
        named = self.rendered("full", "--set", "clusterTls.serverName=groups.example,clusterTls.clientCa=false")
        self.assertEqual(named.config("rel-maxsim-router")["cluster"]["server_name"], "groups.example")
        self.assertNotIn("cert_file", named.config("rel-maxsim-router")["cluster"])
        self.assertNotIn("client_ca_file", named.config("rel-maxsim-g0")["tls"])

    def test_what_is_empty_is_left_to_the_server(self):
        self.assertEqual(set(self.rendered("minimal").config("rel-maxsim-router")["cluster"]), {"groups_file"})
        off = self.rendered("full", "--set", "tracing.sampleRatio=0").config("rel-maxsim-router")
        self.assertEqual(off["tracing"]["sample_ratio"], 0)
        share = self.rendered("full", "--set", "router.hedgeAt=0.9,tracing.sampleRatio=0.5").config("rel-maxsim-router")
        self.assertEqual((share["cluster"]["hedge_at"], share["tracing"]["sample_ratio"]), (0.9, 0.5))


# Arguments of helm that it must refuse, and a text that the error must contain.
REFUSED = (
    (("--set", "groups.count=0"), "count"),
    (("--set", "groups.count=4097"), "count"),
    (("--set", "zoneField=topology.kubernetes.io/zone"), "zoneField"),
    (("--set", "groups.replicas=two"), "replicas"),
    (("--set", "groups.replicas=0"), "replicas"),
    (("--set", "groups.routed=false"), "routed"),
    (("--set", "groups.replica=3"), "replica"),
    (("--set", "groups.storage.kind=nfs"), "kind"),
    (("--set", "groups.overrides.third.replicas=3"), "third"),
    (("--set", "groups.overrides.g2.replicas=3"), "groups.overrides.g2: there are 2 groups"),
    (("--set", "groups.overrides.g1.partition=second"), "partition"),
    (("--set", "groups.overrides.g1.count=2"), "count"),
    (("--set", "groups.gpu.count=-1"), "count"),
    (("--set", "groups.config.auth.tokens_file=/x"), "auth"),
    (("--set", "config.grpc.address=0.0.0.0:1"), "address"),
    (("--set", "config.store.allowed_roots[0]=/"), "allowed_roots"),
    (("--set", "router.config.cluster.groups_file=/x"), "groups_file"),
    (("--set", "groups.collections[0].name=docs,groups.collections[0].path=/elsewhere"), "path"),
    (("--set", "router.service.type=ExternalName"), "type"),
    (("--set", "router.autoscaling.callsInFlight=0"), "callsInFlight"),
    (("--set", "router.hedgeAt=95"), "hedgeAt"),
    (("--set", "tls.http=some"), "http"),
    (("--set", "tls.secret=mine"), "secret"),
    (("--set", "tracing.sampleRatio=2"), "sampleRatio"),
    (("--set", "live.nats.url=localhost"), "url"),
    (("--set", "image.tag=two words"), "tag"),
    (("--set", "unknown=1"), "unknown"),
    (("--set", "router.enabled=false"), "router.enabled is false, and groups.count 2"),
    (("--set", "router.enabled=false,groups.count=1,clusterAuth.existingSecret=x"), "clusterAuth.existingSecret"),
    (("--set", "router.enabled=false,groups.count=1,clusterTls.existingSecret=x"), "clusterTls.existingSecret"),
    (("--set", "groups.fetch.image=curl"), "groups.storage.kind of g0 existingClaim"),
    (("--set", "groups.storage.kind=emptyDir"), "groups.fetch.image empty"),
    (("--set", "live.enabled=true,nats.enabled=true"), "claimTemplate or hostPath"),
    (("--set", "live.enabled=true,nats.enabled=true,groups.storage.kind=hostPath"), "antiAffinity must be required"),
    (("--set", "live.enabled=true,groups.storage.kind=claimTemplate"), "live.nats.url, or nats.enabled"),
    (("--set", "live.enabled=true,groups.storage.kind=claimTemplate,nats.enabled=true,nats.replicas=1"), "nats.replicas 1"),
    (("--set", "nats.config.cluster.replicas=3"), "config"),
    (("--set", "live.enabled=true,live.log=local,groups.storage.kind=claimTemplate"), "live.log is local"),
    (("--kube-version", "1.26.0"), "1.27.0"),
)


class RefusalTest(ChartTest):
    def test_values_that_are_wrong_are_refused_by_name(self):
        for arguments, named in REFUSED:
            with self.subTest(arguments=arguments):
                done = chart.template(self.chart, "-f", VALUES / "minimal.yaml", *arguments)
                self.assertNotEqual(done.returncode, 0, done.stdout[:200])
                self.assertIn(named, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
