"""Tests that scripts/packages/publish-images.sh pushes all images of a release under the right names. Uses images
without content, and a registry in this process.

python publish_images_test.py         as root
"""

import json
import os
import pathlib
import subprocess
import unittest
import urllib.request

from buildah_fixture import BuildahTest
from registry_fixture import Registry

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "packages" / "publish-images.sh"
VERSION = "1.2.3"
LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
IMAGES = [(variant, arch) for variant in ("cuda", "cpu") for arch in ("amd64", "arm64")]


@unittest.skipUnless(os.geteuid() == 0, "needs root: buildah writes files of other users")
class PublishImagesTest(BuildahTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment["PUSH_OPTIONS"] = "--tls-verify=false"
        cls.images = cls.folder / "release"
        cls.images.mkdir()
        registry = Registry()
        registry.start()
        cls.addClassCleanup(registry.stop)
        cls.address = registry.address
        for variant, arch in IMAGES:
            cls.make_image(variant, arch, arch)
            (cls.images / f"sbom-{variant}-{arch}.json").write_text("{}")

    @classmethod
    def make_image(cls, variant, arch, built_for):
        """Writes the archive of an image for machine `arch`. The image's configuration says that it is for
        `built_for`."""
        name = f"localhost/{variant}-{arch}:latest"
        cls.commit("scratch", name, arch=built_for, label=f"variant={variant}", healthcheck="CMD /healthcheck")
        archive = cls.images / f"image-{variant}-{arch}.tar"
        archive.unlink(missing_ok=True)
        cls.output("buildah", "push", "--quiet", name, f"docker-archive:{archive}")

    def publish(self):
        return subprocess.run([SCRIPT, f"{self.address}/acme", VERSION, self.images], capture_output=True, text=True,
                              env=self.environment)

    def get(self, path, accepted="*/*"):
        """Returns an object of the repository acme/maxsim and its digest."""
        request = urllib.request.Request(f"http://{self.address}/v2/acme/maxsim/{path}", headers={"Accept": accepted})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer), answer.headers.get("Docker-Content-Digest")

    def test_each_name_stands_for_the_images_of_both_machines_and_signers_get_every_digest(self):
        done = self.publish()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = (self.images / "published.txt").read_text().splitlines()
        published = {tuple(line.removeprefix(f"{self.address}/acme/maxsim@").split()) for line in lines}
        wanted = set()
        for variant, names in (("cuda", (VERSION, "latest")), ("cpu", (f"{VERSION}-cpu", "cpu"))):
            for name in names:
                listed, digest = self.get(f"manifests/{name}", LIST)
                machines = {one["platform"]["architecture"]: one["digest"] for one in listed["manifests"]}
                self.assertEqual(set(machines), {"amd64", "arm64"})
                wanted.add((digest, "-"))
            for arch, digest in machines.items():
                manifest, _ = self.get(f"manifests/{digest}", MANIFEST)
                config = self.get(f"blobs/{manifest['config']['digest']}")[0]
                self.assertEqual((config["architecture"], config["config"]["Labels"]["variant"]), (arch, variant))
                self.assertEqual(config["config"]["Healthcheck"]["Test"], ["CMD", "/healthcheck"])
                wanted.add((digest, f"sbom-{variant}-{arch}.json"))
        self.assertEqual(published, wanted)
        self.assertEqual(len(lines), 6)

    def test_an_image_of_another_machine_or_without_its_list_of_parts_is_refused(self):
        self.make_image("cuda", "arm64", "amd64")
        done = self.publish()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("image-cuda-arm64.tar is an image for amd64, not for arm64", done.stderr)
        self.make_image("cuda", "arm64", "arm64")
        list_of_parts = self.images / "sbom-cpu-arm64.json"
        list_of_parts.rename(list_of_parts.with_suffix(".away"))
        self.addCleanup(list_of_parts.with_suffix(".away").rename, list_of_parts)
        done = self.publish()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("sbom-cpu-arm64.json is not there", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
