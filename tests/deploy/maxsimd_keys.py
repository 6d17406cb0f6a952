"""Checks with the program maxsimd whether a file of configuration is valid."""

import os
import re
import subprocess
import tempfile

import yaml


class Maxsimd:
    """The program maxsimd of a build folder."""

    def __init__(self, programs):
        self.program = programs / "maxsimd"
        text = subprocess.run([self.program, "--help"], capture_output=True, check=True, text=True).stdout
        self.keys = set(re.findall(r"^  --([a-z_]+\.[a-z_]+) <", text, re.MULTILINE))

    def has(self, *keys):
        return self.keys.issuperset(keys)

    def problem(self, config, groups=None):
        """Returns maxsimd's error for the configuration `config` (a dictionary), or "" if maxsimd accepts it. `groups`
        is the content of the file that cluster.groups_file is set to."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MAXSIM_")}
        with tempfile.TemporaryDirectory(prefix="maxsim-config-") as folder:
            if groups is not None:
                config = {**config, "cluster": {**config["cluster"], "groups_file": f"{folder}/groups.txt"}}
                with open(f"{folder}/groups.txt", "w", encoding="utf-8") as file:
                    file.write(groups)
            with open(f"{folder}/maxsimd.yaml", "w", encoding="utf-8") as file:
                yaml.safe_dump(config, file)
            done = subprocess.run([self.program, "--config", file.name, "--check-config"], capture_output=True, text=True,
                                  env=clean, cwd=folder)
        return "" if done.returncode == 0 else done.stdout + done.stderr
