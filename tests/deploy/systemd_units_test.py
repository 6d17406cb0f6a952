"""Tests the units of deploy/systemd. systemd must accept them, the unit for a cluster's servers must have the same
settings as the unit for a single server, and maxsimd must accept the example configuration files.

python systemd_units_test.py FOLDER_OF_PROGRAMS
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

from maxsimd_keys import Maxsimd

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy" / "systemd"
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
MAXSIMD = Maxsimd(PROGRAMS)


def settings(path):
    """Returns the settings of a unit's section [Service] as a dictionary."""
    lines = path.read_text().partition("[Service]\n")[2].partition("[Install]\n")[0].splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class UnitsTest(unittest.TestCase):
    def test_systemd_takes_the_units_with_their_drop_in(self):
        with tempfile.TemporaryDirectory(prefix="maxsim-units-") as folder:
            copies = pathlib.Path(folder)
            shutil.copytree(UNITS, copies, dirs_exist_ok=True)
            for name in ("maxsimd.service", "maxsimd@.service"):
                unit = copies / name
                unit.write_text(unit.read_text().replace("/opt/maxsim/bin", str(PROGRAMS)))
            for instance in ("group", "router"):
                (copies / f"maxsimd@{instance}.service").symlink_to("maxsimd@.service")
            names = ["maxsimd.service", "maxsimd@group.service", "maxsimd@router.service"]
            complaints = self.complaints(copies, names)
            self.assertEqual(complaints, [])
            drop_in = copies / "maxsimd@router.service.d" / "router.conf"
            drop_in.write_text(drop_in.read_text().replace("PrivateDevices", "PrivateDevice"))
            self.assertEqual(len(self.complaints(copies, names)), 1, "the drop-in was not read")

    def complaints(self, folder, names):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(folder / name for name in names)],
                              capture_output=True, text=True)
        return [line for line in (done.stdout + done.stderr).splitlines() if "maxsimd" in line]

    def test_a_clusters_servers_have_the_settings_of_the_plain_unit(self):
        plain, template = settings(UNITS / "maxsimd.service"), settings(UNITS / "maxsimd@.service")
        self.assertGreater(len(plain), 20)
        other = {key for key in plain.keys() | template.keys() if plain.get(key) != template.get(key)}
        self.assertEqual(other, {"ExecStart", "RuntimeDirectory", "StateDirectory"})
        for key in other:
            self.assertIn("%i", template[key])

    def test_maxsimd_takes_the_example_of_a_group(self):
        self.assertEqual(MAXSIMD.problem(yaml.safe_load((UNITS / "cluster" / "group.yaml").read_text())), "")

    def test_maxsimd_takes_the_example_of_a_router(self):
        config = yaml.safe_load((UNITS / "cluster" / "router.yaml").read_text())
        self.assertEqual(MAXSIMD.problem(config), "")
        config["cluster"]["groups"][0] = config["cluster"]["groups"][1]
        self.assertIn("g1", MAXSIMD.problem(config))

    def test_the_examples_are_of_one_cluster(self):
        group, router = (yaml.safe_load((UNITS / "cluster" / f"{name}.yaml").read_text()) for name in ("group", "router"))
        index, count = map(int, group["cluster"]["partition"].split("/"))
        self.assertEqual(len(router["cluster"]["groups"]), count)
        self.assertTrue(group["collections"][0]["path"].endswith(f"/partition-{index}-of-{count}"))
        port = group["grpc"]["address"].rpartition(":")[2]
        targets = [target for one in router["cluster"]["groups"] for target in one.partition("=")[2].split()]
        self.assertEqual({target.rpartition(":")[2] for target in targets}, {port})
        self.assertEqual(len(set(targets)), 2 * count)
        self.assertEqual(set(group["auth"].values()), {router["cluster"]["token_file"]})


if __name__ == "__main__":
    unittest.main(verbosity=2)
