"""The server must remember the version of a deleted id until later deletes exceed the limit, and then forget it, also
across compactions, kills and restarts. Afterwards the log must shrink.

    versions_test.py FOLDER_OF_THE_PROGRAMS
"""

import contextlib
import pathlib
import sys
import tempfile
import time

import oracle as exact
import server as client
from world import NAME, World, expect

SETUP = {"storage": "f16", "dim": 8, "id_type": "string", "num_base": 0, "seed": 5, "flags": client.NEVER_COMPACTS}
IDS_PER_CALL = 100_000
WAIT_S = 120
FIRST, SECOND = 1, 4  # numbers of the ids (World.id_of) that are deleted with version 9


def log_bytes(world):
    total = 0
    for one in (world.path / "log" / "records").iterdir():
        with contextlib.suppress(FileNotFoundError):  # RocksDB may delete a file between the listing and stat()
            total += one.stat().st_size
    return total


def delete_many(world, begin, count):
    """Deletes `count` ids of 512 bytes, with a version. The ids have no documents."""
    # The ids differ in their first bytes, because RocksDB would store a common prefix of neighbouring keys only once.
    ids = [f"{number:09d}".ljust(512, "x") for number in range(begin, begin + count)]
    response = world.server.delete(client.delete_request(NAME, ids, 5))
    for id, result in zip(ids, response.results):
        expect(world.oracle.delete(id, 5) == result.outcome == exact.NOT_FOUND, f"outcome {result.outcome} of {id[:9]}")
        world.oracle.sequence += 1
    return response


def write(world, number, version):
    """Writes a document and checks the outcome against the oracle. Returns whether the server applied the write."""
    world.do_upsert({"docs": [[number, 3, version, 0, "f32"]]})
    return world.oracle.versions.get(world.id_of(number)) == version


def main():
    programs = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="maxsim-versions-") as folder, World(programs, folder, SETUP) as world:
        world.begin()
        write(world, 7, 3)
        world.do_delete({"ids": [FIRST], "version": 9})
        per_id = exact.BYTES_PER_VERSION + 512
        in_limit = exact.REMEMBERED_BYTES // per_id  # later deletes that a remembered version survives
        for begin in range(0, in_limit, IDS_PER_CALL):
            delete_many(world, begin, min(IDS_PER_CALL, in_limit - begin))
        expect(not write(world, FIRST, 8), "a version within the limit is forgotten")
        world.do_kill({})
        expect(not write(world, FIRST, 8), "a version within the limit is forgotten after a kill")
        delete_many(world, in_limit, IDS_PER_CALL)  # enough forgotten versions that a compaction drops them
        world.do_delete({"ids": [SECOND], "version": 9})
        world.do_kill({})
        before = log_bytes(world)
        world.do_compact({})
        limit = exact.REMEMBERED_BYTES * 1.25
        until = time.monotonic() + WAIT_S  # RocksDB deletes files in the background
        while log_bytes(world) > limit and time.monotonic() < until:
            time.sleep(0.1)
        print(f"{before} bytes of the log, {log_bytes(world)} after a compaction")
        expect(log_bytes(world) <= limit, f"{log_bytes(world)} bytes of the log after a compaction, limit {limit}")
        expect(not write(world, SECOND, 8), "the newest version is forgotten")
        expect(write(world, FIRST, 8), "a version beyond the limit is remembered")
        expect(not write(world, 7, 2), "the version of a document is forgotten")
        world.do_restart({})
        world.check_all()
        world.server.stop()


if __name__ == "__main__":
    main()
