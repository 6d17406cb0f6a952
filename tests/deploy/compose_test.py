"""Tests the Compose file of a cluster. It must be valid by Compose's specification, its services must refer to each
other by the right names, and the service that splits the collection must work.

python compose_test.py FOLDER_OF_PROGRAMS         in an environment with the packages of deploy.txt
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import compose_spec
import yaml

from maxsimd_keys import Maxsimd

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
FILE = DEPLOY / "compose.cluster.yaml"
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
MAXSIMD = Maxsimd(PROGRAMS)


def load(path):
    """Reads a file and replaces variables as Compose does. Environment variables get their defaults, and $$ becomes
    $."""
    text = re.sub(r"(?<!\$)\$\{(\w+)(?::?[-?+]([^{}]*))?\}", lambda match: match[2] or "", path.read_text())
    return yaml.safe_load(text.replace("$$", "$"))


def takes_partitions():
    done = subprocess.run([PROGRAMS / "maxsim-shard", "build", "--help"], capture_output=True, text=True)
    return "--partitions" in done.stdout


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = load(FILE)
        cls.services = cls.file["services"]
        cls.servers = {name: one for name, one in cls.services.items() if "MAXSIM_CLUSTER_PARTITION" in
                       one.get("environment", {})}

    def test_the_specification_takes_the_file(self):
        compose_spec.PyCompose.from_yaml(yaml.safe_dump(self.file)).validate()
        wrong = yaml.safe_load(yaml.safe_dump(self.file))
        wrong["services"]["router"]["enviroment"] = wrong["services"]["router"].pop("environment")
        with self.assertRaises(ValueError):
            compose_spec.PyCompose.from_yaml(yaml.safe_dump(wrong))

    def test_each_replica_serves_the_partition_of_its_group_from_a_volume_of_its_own(self):
        groups = {}
        for group in self.services["router"]["environment"]["MAXSIM_CLUSTER_GROUPS"].split(","):
            name, _, targets = group.strip().partition("=")
            groups[name] = targets.split()
        self.assertEqual({target for targets in groups.values() for target in targets},
                         {f"{name}:7070" for name in self.servers})
        partitions = [{self.servers[target.removesuffix(":7070")]["environment"]["MAXSIM_CLUSTER_PARTITION"]
                       for target in targets} for targets in groups.values()]
        self.assertEqual(partitions, [{f"{index}/{len(groups)}"} for index in range(len(groups))])
        self.assertEqual(len(groups), 2)
        volumes = [one["volumes"] for one in self.servers.values()]
        self.assertEqual(volumes, [[f"{name}:/collections"] for name in self.servers])
        mounted = self.services["partitions"]["volumes"]
        self.assertCountEqual(mounted, ["../demo:/demo:ro", *(f"{name}:/volumes/{name}" for name in self.servers)])
        self.assertEqual(set(self.file["volumes"]), {*self.servers, "nats"})

    def test_servers_wait_for_their_documents_and_for_nats(self):
        for one in self.servers.values():
            self.assertEqual(one["depends_on"]["partitions"]["condition"], "service_completed_successfully")
            self.assertEqual(one["depends_on"]["nats"]["condition"], "service_healthy")
            self.assertEqual(one["environment"]["MAXSIM_NATS_URL"], "nats://nats:4222")
        self.assertIn("healthcheck", self.services["nats"])
        self.assertEqual(self.services["partitions"]["restart"], "no")

    def test_ports_are_open_to_this_machine_alone(self):
        published = [port for one in self.services.values() for port in one.get("ports", [])]
        self.assertEqual(published, ["127.0.0.1:7070:7070", "127.0.0.1:7071:7071"])

    def test_containers_are_confined_as_those_of_the_plain_file(self):
        plain = load(DEPLOY / "compose.yaml")["services"]["maxsimd"]
        cpu = yaml.safe_load((DEPLOY / "compose.cpu.yaml").read_text().replace("!reset", ""))["services"]["maxsimd"]
        for name in ("router", *self.servers):
            one = self.services[name]
            for key in ("read_only", "cap_drop", "security_opt", "restart", "stop_grace_period"):
                self.assertEqual(one[key], plain[key], key)
            self.assertEqual(one["build"]["args"], {**plain["build"]["args"], **cpu["build"]["args"]})
            self.assertEqual(one["image"], cpu["image"])

    def check(self, names):
        """Checks the command and the environment of these services with `maxsimd --check-config`. A service without a
        command has the image's command."""
        for name in names:
            one = self.services[name]
            command = one.get("command", ["--config", "/etc/maxsim/maxsimd.yaml"])
            command = [DEPLOY / "docker" / "maxsimd.yaml" if word == "/etc/maxsim/maxsimd.yaml" else word for word in command]
            clean = {key: value for key, value in os.environ.items() if not key.startswith("MAXSIM_")}
            done = subprocess.run([PROGRAMS / "maxsimd", *command, "--check-config"], capture_output=True, text=True,
                                  env={**clean, **one["environment"]})
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_maxsimd_takes_the_configuration_of_each_server(self):
        self.check(self.servers)

    def test_maxsimd_takes_the_configuration_of_the_router(self):
        self.check(["router"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root: gives files to another user")
    def test_the_bundled_collection_is_cut_once_and_a_copy_given_to_each_server(self):
        service = self.services["partitions"]
        with tempfile.TemporaryDirectory(prefix="maxsim-compose-") as name:
            folder = pathlib.Path(name)
            for server in self.servers:
                (folder / server).mkdir()
            environment = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "DEMO": str(ROOT / "demo"), "VOLUMES": name,
                           "BUILD": f"{name}/build"}
            self.assertEqual(environment.keys() - service["environment"].keys(), {"PATH"})

            def cut():
                done = subprocess.run([*service["entrypoint"], *service["command"]], env=environment, capture_output=True,
                                      text=True)
                self.assertEqual(done.returncode, 0, done.stderr)

            cut()
            for server in self.servers:
                manifest = folder / server / "docs" / "collection.json"
                built = folder / "build" / f"partition-{server[1]}-of-2" / "collection.json"
                self.assertEqual(manifest.read_bytes(), built.read_bytes())
                self.assertEqual(manifest.stat().st_uid, 10001)
            # The service must not change an existing folder: clients may have written to the collection in it.
            shutil.rmtree(folder / "build")
            (folder / "g0a" / "docs" / "collection.json").write_text("mine")
            cut()
            self.assertEqual((folder / "g0a" / "docs" / "collection.json").read_text(), "mine")
            self.assertFalse((folder / "build").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
