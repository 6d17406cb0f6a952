"""Tests that the Helm chart renders for several sets of values, that Kubernetes accepts each object, and that objects
refer to each other correctly. helm_config_test.py tests the configuration files.

python helm_test.py         in an environment with the packages of deploy.txt
"""

import os
import re
import subprocess
import tempfile
import unittest

import kubernetes_validate
import yaml

import chart
from chart import NAMES, ROOT, VALUES, ChartTest, Rendered, labels_of_pods, pod, server, with_all_values

# The oldest version of Kubernetes that Chart.yaml allows, and the newest version whose schemas are installed.
KUBERNETES = ("1.27.0", kubernetes_validate.latest_version())
CUSTOM = ("ServiceMonitor", "PrometheusRule")


class ObjectsTest(ChartTest):
    def validate(self, objects):
        for one in objects:
            if one["kind"] in CUSTOM:
                continue
            for version in KUBERNETES:
                with self.subTest(kind=one["kind"], name=one["metadata"]["name"], version=version):
                    kubernetes_validate.validate(one, version, strict=True)

    @with_all_values
    def test_kubernetes_takes_every_object_in_its_oldest_and_newest_version(self, release):
        self.validate(release.documents)

    def test_kubernetes_takes_every_object_of_the_plain_manifests(self):
        objects = [one for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml")) for one in chart.documents(path.read_text())]
        self.assertEqual({one["kind"] for one in objects} & {"Deployment", "StatefulSet"}, {"Deployment", "StatefulSet"})
        self.validate(objects)

    def test_helm_lint_finds_nothing(self):
        for name in NAMES:
            done = chart.run("lint", "--strict", self.chart, "-f", VALUES / f"{name}.yaml")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_names_are_unique_and_short_enough_for_pods_of_them(self):
        long = self.rendered("minimal", "--set", "fullnameOverride=" + "a" * 90)
        for release in [*map(self.rendered, NAMES), long]:
            names = [(one["kind"], one["metadata"]["name"]) for one in release.documents]
            self.assertEqual(len(names), len(set(names)), names)
            for kind, name in names:
                self.assertLessEqual(len(name), 52 if kind == "StatefulSet" else 63, name)

    @with_all_values
    def test_workloads_select_their_own_pods_and_no_others(self, release):
        for name, workload in release.workloads().items():
            self.assertEqual(release.pods_of(workload["spec"]["selector"]["matchLabels"]), {name})

    @with_all_values
    def test_each_group_has_a_headless_service_and_the_routers_have_the_releases(self, release):
        sets = {one["metadata"]["name"] for one in release.of("StatefulSet")}
        for name in sets:
            service = release.get("Service", name)["spec"]
            self.assertEqual(service["clusterIP"], "None")
            self.assertEqual(release.pods_of(service["selector"]), {name})
            self.assertEqual(release.get("StatefulSet", name)["spec"]["serviceName"], name)
        public = [one for one in release.of("Service") if one["metadata"]["name"] not in sets]
        self.assertEqual(len(public), 1)
        routers = {one["metadata"]["name"] for one in release.of("Deployment")}
        self.assertEqual(release.pods_of(public[0]["spec"]["selector"]), routers or sets)

    @with_all_values
    def test_budgets_are_for_one_workload_each_and_for_none_of_a_single_pod(self, release):
        budgets = [release.pods_of(one["spec"]["selector"]["matchLabels"]) for one in release.of("PodDisruptionBudget")]
        wanted = [{name} for name, one in release.workloads().items() if one["spec"].get("replicas", 2) > 1]
        self.assertCountEqual(budgets, wanted)

    @with_all_values
    def test_pods_are_kept_apart_from_those_of_their_own_workload_alone(self, release):
        for name, workload in release.workloads().items():
            affinity = pod(workload).get("affinity", {}).get("podAntiAffinity", {})
            terms = [one["podAffinityTerm"] for one in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])]
            terms += affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
            terms += pod(workload).get("topologySpreadConstraints", [])
            for term in terms:
                self.assertEqual(release.pods_of(term["labelSelector"]["matchLabels"]), {name})

    def test_how_far_pods_are_kept_apart_is_a_value(self):
        apart = pod(self.rendered("full").get("StatefulSet", "rel-maxsim-g0"))
        self.assertIn("requiredDuringSchedulingIgnoredDuringExecution", apart["affinity"]["podAntiAffinity"])
        self.assertEqual(apart["topologySpreadConstraints"][0]["whenUnsatisfiable"], "DoNotSchedule")
        together = pod(self.rendered("one_group").get("StatefulSet", "rel-maxsim-g0"))
        self.assertEqual(together.keys() & {"affinity", "topologySpreadConstraints"}, set())

    @with_all_values
    def test_pods_name_objects_volumes_and_ports_that_are_there(self, release):
        for name, workload in release.workloads().items():
            spec = pod(workload)
            release.get("ServiceAccount", spec["serviceAccountName"])
            volumes = {one["name"] for one in spec["volumes"]}
            volumes |= {one["metadata"]["name"] for one in workload["spec"].get("volumeClaimTemplates", [])}
            mounts = {mount["name"] for one in spec["containers"] + spec.get("initContainers", [])
                      for mount in one["volumeMounts"]}
            self.assertEqual(mounts, volumes, name)
            for volume in spec["volumes"]:
                if "configMap" in volume:
                    release.get("ConfigMap", volume["configMap"]["name"])
            ports = {one["name"]: one["containerPort"] for one in server(workload)["ports"]}
            self.assertEqual(ports, {"grpc": 7070, "http": 7071})
        for service in release.of("Service"):
            self.assertEqual({one["targetPort"] for one in service["spec"]["ports"]}, {"grpc", "http"})

    @with_all_values
    def test_pods_may_stop_for_longer_than_the_server_takes(self, release):
        for name, workload in release.workloads().items():
            stop = release.config(name)["server"]
            takes = sum(int(stop[key].removesuffix("s")) for key in ("shutdown_delay", "shutdown_grace"))
            self.assertGreaterEqual(pod(workload)["terminationGracePeriodSeconds"], takes + 5)

    def test_pods_are_as_those_of_the_plain_manifests(self):
        plain = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "maxsimd.yaml").read_text())
        deployment = next(one for one in plain if one["kind"] == "Deployment")
        group = self.rendered("minimal").get("StatefulSet", "rel-maxsim-g0")
        for key in ("startupProbe", "readinessProbe", "livenessProbe", "resources", "securityContext", "args", "ports", "image"):
            ours = server(group)[key]
            if isinstance(ours, dict) and "httpGet" in ours:
                self.assertEqual(ours["httpGet"].pop("scheme"), "HTTP")
            self.assertEqual(ours, server(deployment)[key], key)
        for key in ("securityContext", "terminationGracePeriodSeconds", "affinity"):
            ours = pod(group)[key]
            if key == "affinity":
                ours = yaml.safe_load(yaml.safe_dump(ours))
                term = ours["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]
                term["labelSelector"]["matchLabels"] = {"app.kubernetes.io/name": "maxsimd"}
            self.assertEqual(ours, pod(deployment)[key], key)


class ValuesTest(ChartTest):
    def test_groups_have_their_partitions_and_those_that_are_named_their_own_values(self):
        release = self.rendered("full")
        sets = [release.get("StatefulSet", f"rel-maxsim-g{index}") for index in range(3)]
        self.assertEqual([one["spec"]["replicas"] for one in sets], [2, 3, 2])
        limits = [server(one)["resources"]["limits"] for one in sets]
        self.assertEqual(limits[0], {"memory": "32Gi", "nvidia.com/gpu": 2})
        self.assertEqual(limits[2], {"memory": "32Gi", "nvidia.com/mig-3g.40gb": 1})
        self.assertEqual(pod(sets[1])["nodeSelector"], {"example.com/gpu": "h100", "example.com/zone": "b"})
        self.assertEqual(pod(sets[0])["runtimeClassName"], "nvidia")
        self.assertEqual(server(sets[0])["startupProbe"]["failureThreshold"], 360)
        environment = {one["name"]: one.get("value") for one in pod(sets[1])["initContainers"][0]["env"]}
        self.assertEqual([environment[key] for key in ("GROUP_NAME", "PARTITION_INDEX", "PARTITION_COUNT")], ["g1", "1", "3"])

    def test_servers_and_routers_learn_their_zone_from_their_pods(self):
        variable = {"name": "MAXSIM_CLUSTER_ZONE",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['topology.kubernetes.io/zone']"}}}
        for name, workload in self.rendered("full").workloads().items():
            self.assertIn(variable, server(workload)["env"], name)
        for workload in self.rendered("minimal").workloads().values():
            names = [one["name"] for one in server(workload).get("env", [])]
            self.assertNotIn("MAXSIM_CLUSTER_ZONE", names)

    @with_all_values
    def test_where_no_gpu_is_asked_for_none_gets_in(self, release):
        for workload in release.workloads().values():
            limits = server(workload)["resources"]["limits"]
            hidden = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in server(workload).get("env", [])
            self.assertNotEqual(hidden, any(key.startswith("nvidia.com/") for key in limits))

    def test_storage_is_read_only_but_for_live_collections(self):
        for values, kind, read_only in (("minimal", "persistentVolumeClaim", True), ("one_group", "hostPath", True),
                                        ("external_nats", "hostPath", False), ("fetched", "emptyDir", True)):
            group = next(iter(self.rendered(values).of("StatefulSet")))
            volume = next(one for one in pod(group)["volumes"] if one["name"] == "collections")
            self.assertIn(kind, volume)
            mount = next(one for one in server(group)["volumeMounts"] if one["name"] == "collections")
            self.assertEqual(mount["readOnly"], read_only, values)
        claim = self.rendered("full").get("StatefulSet", "rel-maxsim-g0")["spec"]["volumeClaimTemplates"][0]["spec"]
        self.assertEqual((claim["accessModes"], claim["storageClassName"]), (["ReadWriteOncePod"], "fast"))
        self.assertEqual(claim["resources"]["requests"]["storage"], "200Gi")

    def test_the_liveness_probe_asks_http_where_grpc_is_encrypted(self):
        for values, name, probe in (("minimal", "rel-maxsim-g0", "grpc"), ("full", "rel-maxsim-g0", "HTTP"),
                                    ("full", "rel-maxsim-router", "HTTPS"), ("one_group", "rel-maxsim-g0", "HTTP")):
            asked = server(self.rendered(values).workloads()[name])["livenessProbe"]
            self.assertEqual("grpc" if "grpc" in asked else asked["httpGet"]["scheme"], probe)

    def test_secrets_of_clients_and_of_the_cluster_are_mounted_where_they_are_used(self):
        release = self.rendered("full")
        mounted = {name: {one["mountPath"] for one in server(workload)["volumeMounts"]}
                   for name, workload in release.workloads().items()}
        cluster = {"/secrets/cluster", "/secrets/cluster-tls", "/etc/maxsim"}
        self.assertEqual(mounted["rel-maxsim-g2"], cluster | {"/collections", "/secrets/nats"})
        self.assertEqual(mounted["rel-maxsim-router"], cluster | {"/etc/maxsim-groups", "/secrets/tokens", "/secrets/tls"})

    def test_nats_comes_with_the_release_where_it_is_enabled(self):
        release = self.rendered("full")
        self.assertEqual(release.config("rel-maxsim-g0")["nats"]["url"], "nats://rel-maxsim-nats-client:4222")
        servers = release.nats("StatefulSet", "rel-maxsim-nats")
        labels = labels_of_pods(servers)
        self.assertEqual(servers["spec"]["replicas"], 3)
        for name in ("rel-maxsim-nats", "rel-maxsim-nats-client"):
            selector = release.nats("Service", name)["spec"]["selector"]
            self.assertLessEqual(selector.items(), labels.items())
        config = release.nats("ConfigMap", "rel-maxsim-nats")["data"]["nats.conf"]
        for index in range(3):
            self.assertIn(f"nats://rel-maxsim-nats-{index}.rel-maxsim-nats:6222", config)
        single = self.rendered("full", "--set", "nats.replicas=1,live.nats.replicas=1")
        self.assertNotIn("cluster {", single.nats("ConfigMap", "rel-maxsim-nats")["data"]["nats.conf"])
        outside = self.rendered("external_nats")
        self.assertEqual(outside.config("rel-maxsim-g0")["nats"]["url"], "nats://nats.messaging:4222")
        self.assertEqual([one for one in outside.documents if chart.component(one) == "nats"], [])

    def test_the_chart_is_whole_in_its_own_folder(self):
        """The chart must render from a copy of its folder alone. It must have no symbolic links and depend on no other
        chart."""
        links = [str(path) for path in chart.CHART.rglob("*") if path.is_symlink()]
        self.assertEqual(links, [])
        self.assertNotIn("dependencies", yaml.safe_load((chart.CHART / "Chart.yaml").read_text()))
        copy = chart.CHART / "files" / "alerts.yml"
        original = ROOT / "deploy" / "prometheus" / "alerts.yml"
        self.assertEqual(copy.read_text(), original.read_text(), f"run: cp {original} {copy}")

    def test_a_release_with_the_charts_name_does_not_repeat_it(self):
        release = Rendered(self.chart, release="maxsim")
        self.assertEqual(set(release.workloads()), {"maxsim-g0", "maxsim-g1", "maxsim-router"})

    def test_the_autoscaler_scales_the_routers_and_alone_says_how_many(self):
        release = self.rendered("full")
        scaler = release.of("HorizontalPodAutoscaler")[0]["spec"]
        router = release.workloads()[scaler["scaleTargetRef"]["name"]]
        self.assertNotIn("replicas", router["spec"])
        self.assertEqual([one["type"] for one in scaler["metrics"]], ["Pods"])
        self.assertEqual((scaler["minReplicas"], scaler["maxReplicas"]), (3, 12))
        metric = scaler["metrics"][0]["pods"]
        self.assertEqual(metric["metric"]["name"], "maxsim_router_calls_in_flight")
        self.assertEqual(metric["target"], {"type": "AverageValue", "averageValue": "32"})
        self.assertEqual(self.rendered("minimal").of("HorizontalPodAutoscaler"), [])

    def test_another_number_of_replicas_starts_no_router_anew_and_another_configuration_does(self):
        before = self.rendered("minimal").workloads()["rel-maxsim-router"]
        for arguments, same in ((("--set", "groups.replicas=3"), True), (("--set", "groups.count=3"), True),
                                (("--set", "router.hedgeAt=0.99"), False), (("--set", "config.log.format=text"), False)):
            after = self.rendered("minimal", *arguments).workloads()["rel-maxsim-router"]
            self.assertEqual(before["spec"]["template"] == after["spec"]["template"], same, arguments)

    def test_prometheus_scrapes_each_pod_once_and_gets_the_alerts(self):
        for values in ("full", "one_group"):
            release = self.rendered(values)
            monitor = release.of("ServiceMonitor")[0]["spec"]
            labels = monitor["selector"]["matchLabels"]
            parts = monitor["selector"]["matchExpressions"][0]
            scraped = [name for one in release.of("Service") if labels.items() <= one["metadata"]["labels"].items()
                       and one["metadata"]["labels"][parts["key"]] in parts["values"]
                       for name in release.pods_of(one["spec"]["selector"])]
            self.assertCountEqual(scraped, release.workloads())
            rule = monitor["endpoints"][0]["relabelings"][0]
            self.assertEqual(rule["targetLabel"], "group")
            meta = rule["sourceLabels"][0].removeprefix("__meta_kubernetes_service_label_")
            for one in release.of("StatefulSet"):
                service = release.get("Service", one["metadata"]["name"])
                labels_of_group = {re.sub(r"\W", "_", key): value for key, value in service["metadata"]["labels"].items()}
                self.assertTrue(service["metadata"]["name"].endswith("-" + labels_of_group[meta]))
            for workload in release.workloads().values():
                self.assertNotIn("prometheus.io/scrape", workload["spec"]["template"]["metadata"]["annotations"])
        alerts = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
        self.assertEqual(self.rendered("full").of("PrometheusRule")[0]["spec"], alerts)
        plain = self.rendered("minimal").workloads()["rel-maxsim-g0"]["spec"]["template"]["metadata"]["annotations"]
        self.assertEqual(plain["prometheus.io/port"], "7071")

    def test_policies_let_routers_reach_groups_and_nobody_else(self):
        release = self.rendered("full")
        policies = {one["metadata"]["name"]: one["spec"] for one in release.of("NetworkPolicy")}
        groups, router = policies["rel-maxsim-groups"], policies["rel-maxsim-router"]
        sets = {one["metadata"]["name"] for one in release.of("StatefulSet")}
        self.assertEqual(release.pods_of(groups["podSelector"]["matchLabels"]), sets)
        self.assertEqual(release.pods_of(router["podSelector"]["matchLabels"]), {"rel-maxsim-router"})
        callers = groups["ingress"][0]["from"]
        self.assertEqual([release.pods_of(one["podSelector"]["matchLabels"]) for one in callers], [{"rel-maxsim-router"}])
        self.assertIn(sets, [release.pods_of(peer["podSelector"]["matchLabels"]) for rule in router["egress"]
                             for peer in rule.get("to", []) if "podSelector" in peer])
        alone = self.rendered("one_group").of("NetworkPolicy")
        self.assertEqual(alone[0]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"], {"maxsim-client": "true"})
        self.assertEqual(alone[0]["spec"]["egress"], [])

    def test_one_plain_server_has_no_partition_and_no_router_and_clients_reach_it_directly(self):
        release = self.rendered("one_server")
        self.assertEqual(set(release.workloads()), {"rel-maxsim-g0"})
        self.assertEqual(release.workloads()["rel-maxsim-g0"]["spec"]["replicas"], 1)
        config = release.config("rel-maxsim-g0")
        self.assertEqual(config["collections"], [{"name": "docs", "path": "/collections/docs"}])
        self.assertEqual(config.keys() & {"cluster", "live", "nats"}, set())
        self.assertEqual(release.pods_of(release.get("Service", "rel-maxsim")["spec"]["selector"]), {"rel-maxsim-g0"})
        on_cpu = self.rendered("one_server", "--set", "groups.gpu.count=0,image.tag=cpu")
        self.assertEqual(server(on_cpu.workloads()["rel-maxsim-g0"])["image"], "maxsim:cpu")

    def test_a_packed_chart_names_the_image_of_its_release(self):
        with tempfile.TemporaryDirectory(prefix="maxsim-chart-") as folder:
            def pack(repository, tag):
                script = ROOT / "scripts" / "packages" / "make-chart.sh"
                return subprocess.run([script, folder, repository, tag], capture_output=True, text=True,
                                      env={**os.environ, "HELM": chart.helm()})

            done = pack("registry.example:5000/acme/maxsim", "1.2.3")
            self.assertEqual(done.returncode, 0, done.stderr)
            packed = Rendered(done.stdout.strip())
            images = {server(one)["image"] for one in packed.workloads().values()}
            self.assertEqual(images, {"registry.example:5000/acme/maxsim:1.2.3"})
            for arguments, named in ((("two words", "1"), "'two words'"), (("maxsim", "a|b"), "'a|b'")):
                done = pack(*arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(named, done.stderr)

    def test_the_charts_version_is_that_of_the_programs(self):
        version = re.search(r"project\(maxsim VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertEqual((about["version"], about["appVersion"]), (version, version))


if __name__ == "__main__":
    unittest.main(verbosity=2)
