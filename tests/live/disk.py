"""Computes, from what recorder.c recorded, the states in which a disk may be after a power cut.

A Recording has the changes to files that were recorded in the programs which ran with its environment. `Recording.cut`
writes a folder with contents that the disk may have if the power failed immediately after one of the recorded changes:

- Bytes that were written to a file before its last sync are on the disk. Each later write is complete, missing, or
  lacks some of its sectors. Those keep their old content, or are zeros.
- A change of names (files and folders that were created, renamed, linked or removed) is on the disk after the next
  sync of the folder. As in POSIX, a sync of the file is not enough. Later changes of names may be on the disk or not.

A Choice decides which changes survive. ORDERED models a journal: all changes of names survive up to some point, and
so do the writes of each file, of which only the last can be torn, at its end. INDEPENDENT is the minimum that POSIX
guarantees: each change survives or not, independently of others, except that a change of a name needs the earlier
changes of this name.
"""

import dataclasses
import os
import pathlib
import random
import shutil
import struct

HEAD = struct.Struct("<IIIIQqQ")
CREATE, MAKE_FOLDER, RENAME, LINK, REMOVE, WRITE, RESIZE, ALLOCATE, SYNC, UNKNOWN = range(1, 11)
SECTOR = 512
ORDERED, INDEPENDENT = "ordered", "independent"


@dataclasses.dataclass
class Entry:
    kind: int
    path: str
    second_path: str
    inode: int
    offset: int
    data: bytes
    end: int  # where the entry ends in the record's file, in bytes


@dataclasses.dataclass
class Choice:
    """Decides which of the changes that were not synced survive. `writes` and `names` are the probabilities that a
    single write, or a single change of names, survives."""

    seed: int
    mode: str
    writes: float
    names: float

    @staticmethod
    def of(seed):
        chooser = random.Random(seed)
        share = lambda: chooser.choice([0, 0.5, 0.9, 1])  # noqa: E731
        return Choice(seed, chooser.choice([ORDERED, INDEPENDENT]), share(), share())


class File:
    """The bytes of a file: those that are surely on the disk (synced), and the changes since the last sync."""

    def __init__(self, data=b""):
        self.synced, self.pending = bytearray(data), []

    def sync(self):
        for change in self.pending:
            apply(self.synced, *change)
        self.pending = []

    def contents(self, choice, chooser):
        """Returns the bytes that survive the power cut."""
        data = bytearray(self.synced)
        if choice.mode == ORDERED:
            count = chooser.randint(0, len(self.pending)) if choice.writes not in (0, 1) else 0
            kept = self.pending if choice.writes == 1 else self.pending[:count]
            for change in kept:
                apply(data, *change)
            left = self.pending[len(kept) :]
            if choice.writes and left and left[0][0] == WRITE:
                _, offset, written = left[0]
                apply(data, WRITE, offset, written[: cut_in(offset, len(written), chooser)])
            return data
        for kind, offset, written in self.pending:
            if chooser.random() >= choice.writes:
                continue
            if kind == WRITE and chooser.random() < 0.6:
                tear(data, offset, written, chooser)
            else:
                apply(data, kind, offset, written)
        return data


def apply(data, kind, offset, written):
    if kind == WRITE and written:
        if len(data) < offset:
            data.extend(bytes(offset - len(data)))
        data[offset : offset + len(written)] = written
    elif kind == RESIZE and offset < len(data):
        del data[offset:]
    elif kind in (RESIZE, ALLOCATE) and offset > len(data):
        data.extend(bytes(offset - len(data)))


def cut_in(offset, count, chooser):
    """Returns how many bytes of a torn write survive. The surviving part ends at the end of a sector."""
    ends = range(SECTOR - offset % SECTOR, count, SECTOR)
    return chooser.choice(ends) if ends else 0


def tear(data, offset, written, chooser):
    """Applies only some sectors of a torn write. The file still gets the length that the complete write would give
    it."""
    apply(data, ALLOCATE, offset + len(written), b"")
    begin = 0
    while begin < len(written):
        end = min(len(written), begin + SECTOR - (offset + begin) % SECTOR)
        if chooser.random() < 0.5:
            apply(data, WRITE, offset + begin, written[begin:end])
        begin = end


class Folder:
    def __init__(self):
        self.entries = {}
        self.synced_at = -1  # index of the last change of names before the last sync


@dataclasses.dataclass
class NameChange:
    """A change of names: removes a name, gives a file or folder a name, or both in one step."""

    removed: tuple  # (folder, name), or None
    given: tuple
    what: object  # the File or Folder that gets the name

    def places(self):
        return [place for place in (self.removed, self.given) if place]

    def apply(self, folders):
        if self.removed:
            folders[id(self.removed[0])].pop(self.removed[1], None)
        if self.given:
            folders.setdefault(id(self.given[0]), {})[self.given[1]] = self.what


class Disk:
    """Repeats the recorded changes, starting from the folder as it was before."""

    def __init__(self, root, ignored=None):
        self.root_path = str(root)
        self.by_inode = {}
        self.changes = []
        self.ignored = ignored or (lambda path, is_folder: False)  # says which files' syncs to ignore
        self.paths = {}  # of files that were opened, for `ignored`

    def begin_with(self, before, inodes):
        """Starts from the folder `before`, a copy. `inodes` are the inodes that the copied files had when the record
        began."""
        self.root = self._read(pathlib.Path(before), "", inodes)
        self.first = {id(one): dict(one.entries) for one in self._folders(self.root)}
        self.all_folders = self._folders(self.root)

    def _read(self, path, relative, inodes):
        if path.is_dir():
            made = Folder()
            for child in sorted(path.iterdir()):
                made.entries[child.name] = self._read(child, f"{relative}/{child.name}", inodes)
        else:
            made = File(path.read_bytes())
        self.by_inode[inodes[relative]] = made
        self.paths[inodes[relative]] = relative
        return made

    def _folders(self, folder):
        found = [folder]
        for one in folder.entries.values():
            if isinstance(one, Folder):
                found += self._folders(one)
        return found

    def _place(self, path):
        """Returns the folder that contains a path, according to the current names, and the last part of the path."""
        names = os.path.relpath(path, self.root_path).split("/")
        folder = self.root
        for name in names[:-1]:
            folder = folder.entries[name]
        return folder, names[-1]

    def _change(self, removed, given, what):
        change = NameChange(removed, given, what)
        if removed:
            removed[0].entries.pop(removed[1])
        if given:
            given[0].entries[given[1]] = what
        self.changes.append(change)

    def follow(self, entry):
        if entry.kind == UNKNOWN:
            raise AssertionError(f"the record has no entry for {entry.second_path} of {entry.path}")
        if entry.kind in (CREATE, MAKE_FOLDER):
            made = File() if entry.kind == CREATE else Folder()
            self.by_inode[entry.inode] = made
            self.paths[entry.inode] = entry.path
            self._change(None, self._place(entry.path), made)
        elif entry.kind in (RENAME, LINK):
            place = self._place(entry.path)
            what = place[0].entries[place[1]]
            self._change(place if entry.kind == RENAME else None, self._place(entry.second_path), what)
        elif entry.kind == REMOVE:
            self._change(self._place(entry.path), None, None)
        elif entry.kind == SYNC:
            self._sync(self.by_inode[entry.inode], self.paths[entry.inode])
        else:
            self.by_inode[entry.inode].pending.append((entry.kind, entry.offset, entry.data))

    def _sync(self, what, path):
        if self.ignored(path, isinstance(what, Folder)):
            return
        if isinstance(what, Folder):
            what.synced_at = len(self.changes) - 1
        else:
            what.sync()

    def _is_synced(self, index):
        return any(folder.synced_at >= index for folder, _ in self.changes[index].places())

    def _surviving_names(self, choice, chooser):
        count = len(self.changes)
        synced = [index for index in range(count) if self._is_synced(index)]
        if choice.mode == ORDERED:
            least = synced[-1] + 1 if synced else 0
            end = {0: least, 1: count}.get(choice.names, chooser.randint(least, count))
            return self.changes[:end]
        kept, blocked, certain = [], set(), set(synced)
        for index, change in enumerate(self.changes):
            places = {(id(folder), name) for folder, name in change.places()}
            if index in certain or (not places & blocked and chooser.random() < choice.names):
                kept.append(change)
            else:
                blocked |= places
        return kept

    def write_to(self, target, choice):
        """Writes the folder as it is after a power cut."""
        chooser = random.Random(choice.seed)
        folders = {key: dict(entries) for key, entries in self.first.items()}
        for change in self._surviving_names(choice, chooser):
            change.apply(folders)
        written = {}

        def write(folder, path):
            path.mkdir(parents=True)
            for name, what in sorted(folders.get(id(folder), {}).items()):
                if isinstance(what, Folder):
                    write(what, path / name)
                    continue
                if id(what) not in written:
                    written[id(what)] = what.contents(choice, chooser)
                (path / name).write_bytes(written[id(what)])

        write(self.root, pathlib.Path(target))


class Recording:
    """A record of changes to the folder `root`, and a copy of the folder as it was when the record began."""

    def __init__(self, library, root, folder):
        self.library, self.root = library, pathlib.Path(root).resolve()
        self.path = pathlib.Path(folder) / "record"
        self.before = pathlib.Path(folder) / "before"
        self.path.touch()
        shutil.copytree(self.root, self.before)
        paths = [self.root, *self.root.rglob("*")]
        self.inodes = {str(one)[len(str(self.root)) :]: one.stat().st_ino for one in paths}

    def environment(self):
        return {
            "LD_PRELOAD": str(self.library),
            "MAXSIM_RECORD": str(self.path),
            "MAXSIM_RECORD_UNDER": str(self.root),
        }

    def position(self):
        """Returns the number of bytes recorded so far. All changes that a program made before it answered a call are
        before this position."""
        return os.stat(self.path).st_size

    def read(self):
        """Returns all entries."""
        data, at, entries = self.path.read_bytes(), 0, []
        while at < len(data):
            kind, path_bytes, second_bytes, _, inode, offset, data_bytes = HEAD.unpack_from(data, at)
            at += HEAD.size
            parts = []
            for count in (path_bytes, second_bytes, data_bytes):
                parts.append(data[at : at + count])
                at += count
            entries.append(Entry(kind, parts[0].decode(), parts[1].decode(), inode, offset, parts[2], at))
        return entries

    def cut(self, entries, count, choice, target, ignored=None):
        """Writes to `target` what a folder may contain after a power cut that follows the first `count` entries."""
        disk = Disk(self.root, ignored)
        disk.begin_with(self.before, self.inodes)
        for entry in entries[:count]:
            disk.follow(entry)
        disk.write_to(target, choice)
