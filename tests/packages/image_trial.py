#!/usr/bin/python3
"""Tests an image in buildah's store as a container would run it, without a container runtime. The programs run as the
image's user, without privileges, and see only the image's root file system, which is read-only. Builds a collection of
the demo's vectors, serves it, makes a health check, asks a question, and stops the server.

  tests/packages/image_trial.py [--max-mb N] [--sbom FILE] IMAGE        as root

Prints the size of the image and the time until the health check passed. Exits with 0 if everything worked. Only this
program's processes see the mounts and the network. So the image's ports are free, even if a server runs on this
machine.
"""

import argparse
import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo"
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "ld", "make")
DEVICES = ("null", "zero", "full", "random", "urandom")
# Only a trial that hangs reaches these limits.
START_SECONDS = 120
STOP_SECONDS = 60
UNSHARE = ("unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child")


class Failed(Exception):
    """The image does not do what it must. The message says what it did instead."""


def check(condition, message):
    if not condition:
        raise Failed(message)


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    check(done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def size_of(root):
    """Returns the bytes of all files below a folder. A file with several hard links counts once."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            about = os.lstat(os.path.join(folder, name))
            found[about.st_dev, about.st_ino] = about.st_size
    return sum(found.values())


class Container:
    """The root file system of an image, mounted as in a container: read-only, except for /collections, which is in
    memory. Needs a mount namespace of its own; when this namespace ends, the mounts are removed."""

    def __init__(self, image):
        self.config = json.loads(output("buildah", "inspect", "--type", "image", image))["Docker"]["config"]
        self.name = output("buildah", "from", "--pull-never", image)
        self.root = pathlib.Path(output("buildah", "mount", self.name))
        self.uid, _, self.gid = self.config["User"].partition(":")
        self.environment = dict(one.split("=", 1) for one in self.config["Env"])
        self.mounted = False

    def mount(self):
        for name in ("proc", "dev"):
            check((self.root / name).is_dir(), f"the image has no folder /{name}")
        output("mount", "--bind", self.root, self.root)
        self.mounted = True
        output("mount", "-t", "proc", "proc", self.root / "proc")
        output("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", self.root / "dev")
        for name in DEVICES:
            # Rootless containers may not make devices, hence those of this machine.
            (self.root / "dev" / name).touch()
            output("mount", "--bind", f"/dev/{name}", self.root / "dev" / name)
        output("mount", "-t", "tmpfs", "-o", f"uid={self.uid},gid={self.gid}", "tmpfs", self.root / "collections")
        output("mount", "-o", "remount,bind,ro", self.root)
        output("ip", "link", "set", "lo", "up")

    def start(self, *command, **options):
        """Starts a program of the image as its user. It can gain no privilege."""
        confined = [shutil.which("setpriv"), "--no-new-privs", shutil.which("chroot"), f"--userspec={self.uid}:{self.gid}"]
        words = [*confined, self.root, *command]
        return subprocess.Popen([str(word) for word in words], env=self.environment, text=True, **options)

    def run(self, *command):
        process = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        shown = process.communicate()[0]
        check(process.returncode == 0, f"{command} exited with {process.returncode}:\n{shown}")
        return shown

    def is_healthy(self):
        kind, *command = self.config["Healthcheck"]["Test"]
        check(kind == "CMD", f"the health check is of the kind {kind}")
        return self.start(*command).wait() == 0

    def remove(self):
        if self.mounted:
            output("umount", "--recursive", "--lazy", self.root)
        output("buildah", "rm", self.name)


def check_files(container, max_mb):
    """Checks what can be seen without running anything."""
    root = container.root
    check(container.uid.isdigit() and int(container.uid) > 0, f"the user is {container.config['User']!r}")
    megabytes = size_of(root) / 1e6
    print(f"size: {megabytes:.0f} MB")
    check(megabytes <= max_mb, f"the image has {megabytes:.0f} MB, over the limit of {max_mb} MB")
    found = [name for name in COMPILERS for folder in ("bin", "usr/bin", "usr/local/bin") if os.path.lexists(root / folder / name)]
    check(not found, f"the image has compilers: {found}")
    sbom = json.loads((root / "opt/maxsim/sbom.json").read_text())
    listed = {(one["name"], one.get("version")) for one in sbom["components"]}
    packages = output("dpkg-query", "--admindir", root / "var/lib/dpkg", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n")
    for line in packages.splitlines():
        package, version, status = line.split()
        check(status != "installed" or (package, version) in listed, f"the list of parts lacks {package} {version}")
    files = {one["value"] for part in sbom["components"] for one in part.get("properties", [])}
    missing = {path.name for path in (root / "opt/maxsim/lib").iterdir()} - files
    check(not missing, f"the list of parts lacks the libraries {sorted(missing)}")
    print(f"parts: {len(listed)}")


def check_read_only(root):
    for folder in ("", "etc/maxsim", "opt/maxsim"):
        try:
            (root / folder / "written").touch()
        except OSError as problem:
            check(problem.errno == errno.EROFS, f"/{folder}: {problem}")
        else:
            raise Failed(f"root can write to /{folder} of the image")


def wait_until_healthy(container, server):
    begin = time.monotonic()
    while not container.is_healthy():
        check(server.poll() is None, f"the server ended with {server.returncode}")
        check(time.monotonic() - begin < START_SECONDS, "the health check does not pass")
        time.sleep(0.02)
    print(f"start: healthy after {time.monotonic() - begin:.2f} s")


def check_privileges(container, server):
    # The image's /proc shows the process namespace of this program, in which the server has the id server.pid.
    status = (container.root / "proc" / str(server.pid) / "status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    check(set(fields["Uid"].split()) == {container.uid}, f"the server runs as {fields['Uid']}")
    check(int(fields["CapEff"], 16) == 0 and fields["NoNewPrivs"] == "1", f"the server has privileges: {fields}")


def check_server(container):
    root, folder = container.root, "/collections"
    names = ("tokens.npy", "lengths.npy", "passages.jsonl", "query_tokens.npy", "query_lengths.npy")
    for name in names:
        shutil.copy(DEMO / name, root / "collections" / name)
    container.run("maxsim-shard", "build", "--quiet", "--name", "demo", "--output", f"{folder}/demo", "--tokens",
                  f"{folder}/tokens.npy", "--lengths", f"{folder}/lengths.npy", "--ids", f"{folder}/passages.jsonl")
    output("mount", "-o", "remount,ro", root / "collections")
    check_read_only(root)
    check(not container.is_healthy(), "the health check passes without a server")

    # Sets the delay to 0. By default, a server accepts requests for some seconds after it is told to stop.
    container.environment["MAXSIM_SERVER_SHUTDOWN_DELAY"] = "0s"
    command = container.config["Entrypoint"] + container.config["Cmd"]
    log = tempfile.TemporaryFile("w+")
    server = container.start(*command, "--collection", f"demo={folder}/demo", stderr=log)
    try:
        wait_until_healthy(container, server)
        check_privileges(container, server)
        queries = ("--query", f"{folder}/query_tokens.npy", "--query-lengths", f"{folder}/query_lengths.npy")
        # A container runtime would add localhost to /etc/hosts, hence the address.
        client = ("maxsimctl", "--server", "127.0.0.1:7070")
        answer = container.run(*client, "rerank", "--collection", "demo", "--all", "--top-k", "1", "--payload", *queries,
                               "--query-index", "0")
        # The question with index 0 is: Why do some volcanoes explode while others only pour out lava?
        check("volcano-1" in answer, f"the answer is not volcano-1:\n{answer}")
        print("answer: " + next(line for line in answer.splitlines() if "volcano-1" in line).strip()[:100])
        container.run(*client, "verify", "--collection", "demo", "--queries", *queries[1:])
        server.send_signal(getattr(signal, container.config.get("StopSignal") or "SIGTERM"))
        check(server.wait(STOP_SECONDS) == 0, f"the server ended with {server.returncode}")
        check(not container.is_healthy(), "the health check passes after the server's end")
    except Failed:
        log.seek(0)
        sys.stderr.write(log.read())
        raise
    finally:
        server.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--max-mb", type=int, default=300, help="largest size of all files, in 10^6 bytes")
    parser.add_argument("--sbom", type=pathlib.Path, help="file to which the image's list of parts is copied")
    parser.add_argument("image", help="name or id of an image in buildah's store")
    arguments = parser.parse_args()
    if os.environ.get("MAXSIM_TRIAL_UNSHARED") != "1":
        os.execvpe(UNSHARE[0], [*UNSHARE, sys.executable, "-B", *sys.argv], {**os.environ, "MAXSIM_TRIAL_UNSHARED": "1"})
    container = Container(arguments.image)
    try:
        check_files(container, arguments.max_mb)
        if arguments.sbom:
            shutil.copy(container.root / "opt/maxsim/sbom.json", arguments.sbom)
        container.mount()
        check_server(container)
        print(f"image_trial: everything worked in {arguments.image}")
    finally:
        container.remove()


if __name__ == "__main__":
    try:
        main()
    except Failed as problem:
        sys.exit(f"image_trial: {problem}")
