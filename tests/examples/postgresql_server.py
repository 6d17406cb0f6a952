"""A PostgreSQL server for a test. It has its own data folder, and listens on a Unix socket instead of a port."""

import os
import pathlib
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time

READY_LIMIT_S = 120
# PostgreSQL refuses to run as root. Debian's package makes this user.
UNPRIVILEGED = "postgres"


class PostgreSQL:
    """`programs` is the folder of initdb and postgres. The attribute `database` is a superuser's connection string."""

    def __init__(self, programs):
        self._options = {"user": UNPRIVILEGED, "group": UNPRIVILEGED} if os.geteuid() == 0 else {}
        # Uses /tmp, because the server's user may not be allowed to enter $TMPDIR, or its path may be too long for a
        # socket.
        self._folder = tempfile.mkdtemp(prefix="maxsim-postgresql-", dir="/tmp")
        if self._options:
            shutil.chown(self._folder, UNPRIVILEGED)
        self._data = pathlib.Path(self._folder) / "data"
        self._log = pathlib.Path(self._folder) / "log"
        self.database = f"host={self._folder} dbname=postgres user=postgres"
        self.process = None
        try:
            self._start(self._reachable(pathlib.Path(programs)))
        except BaseException:
            self.stop()
            raise

    def _reachable(self, programs):
        """Returns a folder with the same programs that the server's user may enter. If necessary, copies the whole
        installation, because the programs need the folders lib and share too."""
        if not self._options or all(folder.stat().st_mode & stat.S_IXOTH for folder in (programs, *programs.parents)):
            return programs
        shutil.copytree(programs.parent, pathlib.Path(self._folder) / "installation")
        return pathlib.Path(self._folder) / "installation" / programs.name

    def _start(self, programs):
        with open(self._log, "wb") as log:
            initdb = [programs / "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]
            server = [programs / "postgres", "-D", self._data, "-k", self._folder, "-c", "listen_addresses="]
            outputs = {"stdout": log, "stderr": log, "cwd": self._folder}
            done = subprocess.run([*initdb, "--no-sync", "-D", self._data], **outputs, **self._options)
            if done.returncode != 0:
                raise RuntimeError(f"initdb failed:\n{self.log()}")
            self.process = subprocess.Popen([*server, "-c", "fsync=off"], **outputs, **self._options)
        limit = time.monotonic() + READY_LIMIT_S
        while "ready to accept connections" not in self.log():
            if self.process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"PostgreSQL did not become ready:\n{self.log()}")
            time.sleep(0.02)

    def log(self):
        return self._log.read_text(errors="replace")

    def stop(self):
        """Stops the server, also if clients are still connected, and removes its folder."""
        if self.process:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def debian_programs():
    """Returns the folder of initdb and postgres of Debian's newest PostgreSQL with PL/Python, or None if there is
    none."""
    if os.geteuid() == 0 and UNPRIVILEGED not in {entry.pw_name for entry in pwd.getpwall()}:
        return None
    folders = pathlib.Path("/usr/lib/postgresql").glob("*/lib/plpython3.so")
    found = sorted((path.parents[1] for path in folders), key=lambda folder: int(folder.name))
    return found[-1] / "bin" if found else None
