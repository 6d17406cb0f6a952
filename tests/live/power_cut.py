"""A World that records all changes on its disk, and can continue from a state that the disk may have after a power
cut."""

import dataclasses
import itertools
import pathlib
import shutil

import disk
import server as client
from maxsim.v1 import admin_pb2, rerank_pb2
from world import ALL, NAME, World, expect

# do_create() writes the documents with these numbers to each collection that it creates.
MADE_IDS = (3, 4)


@dataclasses.dataclass
class State:
    """The state that the server must have. `oracle` is None while the main collection does not exist."""

    oracle: object
    made: dict  # for each collection of do_create(), by name: whether its documents were written
    snapshots: dict  # the oracle of each snapshot, by the name of its folder

    def copy(self):
        return State(self.oracle and self.oracle.copy(), dict(self.made), dict(self.snapshots))


@dataclasses.dataclass
class Step:
    """The effect of one operation. `between` lists the states that are possible before the operation is
    acknowledged."""

    position: int  # length of the record in bytes when the operation was acknowledged
    between: list
    after: State


class RecordedWorld(World):
    """A World whose collections are all in the folder `root`. After begin_record(), changes in `root` are recorded."""

    def __init__(self, programs, library, folder, setup):
        self.root = pathlib.Path(folder).resolve() / "disk"
        (self.root / "deep").mkdir(parents=True)
        super().__init__(programs, folder, {**setup, "flags": {**setup["flags"], "store.allowed_roots": self.root}})
        self.path = self.root / "deep" / NAME  # not directly in the root, which holds the list of created collections
        self.library, self.recording, self.steps = library, None, []
        self.state = State(None, {}, {})
        self._numbers = itertools.count()

    def begin_record(self):
        """Starts a record. The present content of the folder counts as synced."""
        place = self.folder / f"recording-{len(list(self.folder.glob('recording-*')))}"
        place.mkdir()
        self.recording = disk.Recording(self.library, self.root, place)
        self.server.environment = self.recording.environment()

    def begin(self):
        self.build_base()
        self.begin_record()
        self.steps = [Step(0, [], self.state.copy())]
        self.start()
        self.state.oracle = self.oracle
        self.note()

    def note(self, between=()):
        self.steps.append(Step(self.recording.position(), list(between), self.state.copy()))

    def do(self, operation):
        """Does an operation. Stores the state after it, and the length of the record when it was acknowledged."""
        between = []
        if operation["op"] == "stream":
            whole = self.oracle
            self.oracle = whole.copy()
            for made in operation["calls"]:
                self._upsert_each(made)
                between.append(State(self.oracle.copy(), dict(self.state.made), dict(self.state.snapshots)))
            self.oracle = whole
        getattr(self, "do_" + operation["op"])(operation)
        self.note(between)

    def server_collections(self):
        """Returns the collections that the server must be started with. It restores by itself those that it created."""
        return {NAME: f"{self.path},live"} if self.setup["num_base"] else {}

    def do_kill(self, _):
        self.server.kill()
        self.server.start(self.server_collections())

    def do_restart(self, operation):
        self.server.stop()
        if operation.get("offline"):
            self.compact_offline()
        self.server.start(self.server_collections())

    def do_create(self, operation):
        name = f"made-{operation['number']}"
        if name in self.state.made:
            return
        # Each collection gets a new path, because unloading a collection keeps its folder.
        path = self.root / "deep" / f"{name}-{next(self._numbers)}"
        request = admin_pb2.CreateCollectionRequest(name=name, path=str(path), dim=self.dim)
        request.storage, request.id_type = rerank_pb2.DATA_TYPE_F32, rerank_pb2.ID_TYPE_STRING
        self.server.admin.CreateCollection(request, timeout=client.CALL_LIMIT_S)
        self.state.made[name] = False
        self.note()
        self.server.upsert(client.upsert_request(name, self.made_documents()))
        self.state.made[name] = True

    def made_documents(self):
        rows = [[number] * self.dim for number in MADE_IDS]
        return [client.document(f"made-{number}", [row]) for number, row in zip(MADE_IDS, rows)]

    def do_drop(self, operation):
        name = f"made-{operation['number']}"
        if name in self.state.made:
            self.server.unload(name)
            del self.state.made[name]

    def do_keep(self, _):
        """Makes a snapshot and keeps it. recover() checks it after a power cut."""
        path = self._new_folder("kept")
        self.server.snapshot(NAME, self.root / path.name)
        self.state.snapshots[path.name] = self.oracle.copy()

    # After a power cut.

    def states_at(self, position):
        """Returns the states that the server may have if the power failed at this position of the record."""
        last = max(index for index, step in enumerate(self.steps) if step.position <= position)
        following = self.steps[last + 1 : last + 2]
        return [self.steps[last].after, *(one for step in following for one in [*step.between, step.after])]

    def cut(self, entries, count, choice, ignored=None):
        """Replaces the disk's contents by contents that are possible if the power failed after `count` entries. Returns
        the states that the server may then have."""
        self.server.kill()
        position = entries[count - 1].end if count else 0
        shutil.rmtree(self.root)
        self.recording.cut(entries, count, choice, self.root, ignored)
        self.server.environment = {}
        states = self.states_at(position)
        self.steps = [Step(0, [], states[0])]
        return states

    def recover(self, states):
        """Starts the server and determines which of the states it has. The world continues with that state. Call
        begin_record() first if the recovery must be recorded."""
        self.server.start(self.server_collections())
        infos = {name: self.server.info(name) for name in [NAME, *{name for state in states for name in state.made}]}
        self._recover_world(states, infos[NAME])
        for name in infos.keys() - {NAME}:
            self._check_made(name, infos[name], states)
        for name, oracle in states[0].snapshots.items():
            self._check_snapshot(name, oracle)
        self.state.made = {name: True for name, info in infos.items() if name != NAME and is_served(info)}
        self.state.snapshots = dict(states[0].snapshots)
        self.note(states[1:])

    def _recover_world(self, states, info):
        oracles = [state.oracle for state in states]
        if not is_served(info):
            expect(None in oracles, f"the collection is not served: {info.error if info else 'it is not listed'}")
            self.state.oracle = None
            return
        expect(any(oracles), "a collection is served that nobody made")
        fitting = [one for one in oracles if one and one.sequence == info.live.sequence]
        numbers = sorted({one.sequence for one in oracles if one})
        expect(fitting, f"the collection is at sequence {info.live.sequence} instead of one of {numbers}")
        self.oracle = self.state.oracle = fitting[0].copy()
        self.check_everything()

    def check_everything(self):
        """Compares with the oracle: all documents, ids without documents, and the versions of eight ids, deleted ones
        first."""
        self.check_all()
        self.check_whole(NAME, 1, ALL)
        known = {self.id_of(k): k for k in [*range(80), *range(1001, 1030)]}
        absent = [id for id in known if id not in self.oracle.documents]
        self.check_get(NAME, absent, False)
        versioned = [(id, version) for id, version in self.oracle.versions.items() if id in known]
        versioned.sort(key=lambda one: one[0] in self.oracle.documents)  # deleted ids first
        stale = [[known[id], 1, version, 0, "f32"] for id, version in versioned[:8]]
        if stale:
            self.do_upsert({"docs": stale})

    def _check_made(self, name, info, states):
        """Compares a collection of do_create() with what it may contain after the power cut."""
        may_be = [state.made.get(name) for state in states]
        if not is_served(info):
            expect(None in may_be, f"{name} is not served: {info.error if info else 'it is not listed'}")
            return
        expect(any(one is not None for one in may_be), f"{name} is served, and was dropped")
        expected = self.made_documents()
        response = self.server.get(client.get_request(name, [one.string_id for one in expected], True))
        data = [one.tokens.data for one in response.documents]
        expect(data in ([], [one.tokens.data for one in expected]), f"{name} has other documents than were written")
        expect(data or False in may_be or None in may_be, f"{name} has lost its documents")
        self.server.upsert(client.upsert_request(name, expected))

    def _check_snapshot(self, name, oracle):
        own, self.oracle = self.oracle, oracle
        self.server.load("snapshot", self.root / name)
        self.check_all("snapshot")
        self.check_whole("snapshot", 1, ALL)
        self.server.unload("snapshot")
        self.oracle = own


def is_served(info):
    return info is not None and info.state == rerank_pb2.COLLECTION_STATE_READY
