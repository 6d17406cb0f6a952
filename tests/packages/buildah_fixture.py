"""A store of images of a test's own, for tests that build images with buildah."""

import os
import pathlib
import subprocess
import tempfile
import unittest

# The driver vfs copies files, so that the file system needs no overlays.
STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'


class BuildahTest(unittest.TestCase):
    """The base class of tests that use buildah. It has a temporary `folder`, and in `environment` the variables that
    make buildah keep its images there."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-image-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        storage = cls.folder / "storage.conf"
        storage.write_text(STORAGE.format(folder=cls.folder))
        cls.environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage), "BUILDER": "buildah", "BUILDAH_ISOLATION": "chroot"}

    @classmethod
    def output(cls, *command):
        """Runs a command that must succeed. Returns its standard output."""
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=cls.environment)
        if done.returncode != 0:
            raise AssertionError(f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    @classmethod
    def commit(cls, base, image, add=None, **config):
        """Makes an image from `base` (an image or "scratch"), with the files of the folder `add` and with `config` as
        parts of the image's configuration."""
        container = cls.output("buildah", "from", "--pull-never", base)
        if add:
            cls.output("buildah", "add", "--quiet", container, add, "/")
        if config:
            cls.output("buildah", "config", *(f"--{key}={value}" for key, value in config.items()), container)
        cls.output("buildah", "commit", "--quiet", "--rm", "--format", "docker", container, image)
