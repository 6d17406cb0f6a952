"""Disk and clock faults for a maxsimd: compiles the preloaded library faults.c, and switches faults on through shared
memory."""

import errno
import mmap
import os
import pathlib
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FIELDS = [
    "write_error", "sync_error", "hold_syncs", "read_error", "clock_seconds", "kill_after",
    "num_writes", "num_syncs", "num_held",
]  # fmt: skip


def compile_library(folder, name="faults"):
    """Compiles NAME.c into `folder`, unless the library there is newer than NAME.c. Returns the path of the library."""
    library = pathlib.Path(folder).resolve() / f"{name}.so"
    source = HERE / f"{name}.c"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=library.parent, suffix=".so")
        os.close(handle)
        command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", temporary]
        subprocess.run([*command, str(source), "-ldl"], check=True)
        os.replace(temporary, library)
    return library


class Faults:
    """Controls the faults of the processes that run with its environment. All fields are 0 (no fault) at first."""

    def __init__(self, folder):
        self.library = compile_library(folder)
        handle, self.path = tempfile.mkstemp(prefix="maxsim-faults-")
        os.truncate(handle, mmap.PAGESIZE)
        self._memory = mmap.mmap(handle, mmap.PAGESIZE)
        os.close(handle)

    def close(self):
        self._memory.close()
        os.unlink(self.path)

    def environment(self, under):
        """Returns the environment for a process. Faults then affect the process's files under `folder`."""
        return {
            "LD_PRELOAD": str(self.library),
            "MAXSIM_FAULTS": self.path,
            "MAXSIM_FAULTS_UNDER": str(pathlib.Path(under).resolve()),
        }

    def set(self, **values):
        for name, value in values.items():
            struct.pack_into("<q", self._memory, 8 * FIELDS.index(name), value)

    def get(self, name):
        return struct.unpack_from("<q", self._memory, 8 * FIELDS.index(name))[0]

    def clear(self):
        self.set(**dict.fromkeys(FIELDS, 0))

    def disk_full(self, full=True):
        self.set(write_error=errno.ENOSPC if full else 0)

    def kill_after(self, calls):
        """Kills the process at its `calls`-th call from now on that changes a file."""
        self.set(kill_after=calls)
