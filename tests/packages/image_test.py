"""Builds the image from the Dockerfile with the programs of a build folder. Tests the image with image_trial.py.

python image_test.py BUILD_FOLDER         as root

The base of the image is a root file system with only bash and glibc, which are copied from this machine. So nothing is
downloaded. try-image.sh does the same with a complete Debian.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from buildah_fixture import BuildahTest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SCRIPTS = ROOT / "scripts" / "packages"
BASE_PACKAGES = ("bash", "libc6", "libtinfo6")
BASE = "localhost/base:latest"
IMAGE = "localhost/maxsim:cpu"


def mounts():
    """Returns whether this process has the rights that image_trial.py needs: to mount, to make a network namespace, and
    to change to the image's user. Root in a container or a user namespace often has not."""
    namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
    try:
        command = [*namespaces, "chroot", "--userspec=10001:10001", "/", "true"]
        return os.geteuid() == 0 and subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def make_base(root):
    """Makes a root file system with the programs and libraries of BASE_PACKAGES, and with their entries in dpkg's
    status file."""
    for name in ("bin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("dev", "proc", "var/lib/dpkg"):
        (root / name).mkdir(parents=True)
    listed = subprocess.run(["dpkg-query", "--listfiles", *BASE_PACKAGES], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        path = pathlib.PurePosixPath(line)
        if line.endswith("/bin/bash") or (".so" in path.name and os.path.isfile(line) and "gconv" not in line):
            # With a merged /usr, a package may list its files with or without it.
            target = root / "usr" / path.relative_to("/usr" if line.startswith("/usr/") else "/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(line, target)
    shutil.copy("/usr/lib/os-release", root / "usr/lib/os-release")
    with open(root / "var/lib/dpkg/status", "w") as status:
        subprocess.run(["dpkg-query", "--status", *BASE_PACKAGES], check=True, stdout=status)


@unittest.skipUnless(mounts(), "needs root, with the right to mount and to change to other users")
class ImageTest(BuildahTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.folder
        cls.output(SCRIPTS / "make-image-programs.sh", BUILD, folder / "programs")
        base, sbom = folder / "base", folder / "sbom"
        make_base(base)
        sbom.mkdir()
        cls.output(sys.executable, "-B", SCRIPTS / "sbom.py", "image", folder / "programs/sbom.json",
                   base / "usr/lib/os-release", base / "var/lib/dpkg/status", sbom / "sbom.json")
        cls.commit("scratch", BASE, add=base)
        # Two folders replace the stages of the Dockerfile that would compile the programs and install Python.
        contexts = [f"--build-context={name}={folder / name}" for name in ("programs", "sbom")]
        cls.output(ROOT / "scripts" / "docker-build.sh", "0", "--pull-never", *contexts, f"--build-arg=BUILD_BASE={BASE}",
                   f"--build-arg=RUNTIME_BASE={BASE}")

    def try_image(self, *arguments):
        command = [sys.executable, "-B", HERE / "image_trial.py", *arguments]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=self.environment)

    def test_the_server_starts_without_privileges_on_a_read_only_root_and_answers(self):
        done = self.try_image(IMAGE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("everything worked", done.stdout)

    def test_an_image_that_is_too_large_is_refused(self):
        done = self.try_image("--max-mb", "20", IMAGE)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("over the limit of 20 MB", done.stderr)

    def test_an_image_whose_health_check_passes_without_a_server_is_refused(self):
        name = "localhost/healthy:latest"
        self.commit(IMAGE, name, healthcheck="CMD /bin/bash --version")
        done = self.try_image(name)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("passes without a server", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
