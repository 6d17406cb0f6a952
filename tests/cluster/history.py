"""Computes the contents of a live collection at each sequence of its stream. Compares the stream with the
acknowledgements that writers got and the answers that readers got."""

import bisect
import collections
import functools
import math
import struct
import threading

import corpus
import oracle as exact
from numbered import vectors

FIRST_WRITTEN = 1 << 40  # position of sequence 0
UPSERT, DELETE = 1, 2  # collection/log/log_record.h

vectors_of = functools.lru_cache(maxsize=256)(vectors)  # writes have few different vectors


class Write:
    """One upsert or delete of a call. `number` identifies the vectors of an upsert. A delete has an empty payload."""

    def __init__(self, id, number, payload, version):
        self.id, self.number, self.payload, self.version = id, number, payload, version
        self.result = None  # (outcome, sequence), when it is acknowledged
        self.found = 0  # its sequence, when it is found in the stream
        self.begun, self.failed = 0.0, None  # when its call began, and when it failed; times of one clock


class Message:
    """A message of the stream (server/live/stream/stream_message.h)."""

    def __init__(self, sequence, data, id_type):
        self.sequence = sequence
        version, _, _, form, self.kind, self.version = struct.unpack_from("<BQQBBQ", data)
        assert (version, form) == (1, 1), f"message {sequence} is of version {version}, its record of {form}"
        at = struct.calcsize("<BQQBBQ")
        if id_type == "string":
            (size,) = struct.unpack_from("<H", data, at)
            self.id = data[at + 2 : at + 2 + size].decode()
            at += 2 + size
        else:
            (self.id,) = struct.unpack_from("<q", data, at)
            at += 8
        self.rows, self.scale, self.payload = b"", 0.0, ""
        if self.kind == UPSERT:
            _, self.scale, size = struct.unpack_from("<IfI", data, at)
            at += 12
            self.rows = data[at : len(data) - size]
            self.payload = data[len(data) - size :].decode()


class Ledger:
    """The attempted writes. Thread-safe."""

    def __init__(self):
        self.lock = threading.Lock()
        self.upserts = {}  # by payload, which is unique for each
        self.deletes = collections.defaultdict(list)  # by (id, version)
        self.acknowledged = []  # those that History has not processed yet
        self.failed = []  # writes of failed calls
        self.newest = 0  # the newest sequence that an acknowledgement named
        self.count = 0

    def add(self, writes):
        """Notes writes that are about to be sent."""
        with self.lock:
            for one in writes:
                if one.payload:
                    self.upserts[one.payload] = one
                else:
                    self.deletes[one.id, one.version].append(one)

    def acknowledge(self, writes, answer):
        assert len(answer.results) == len(writes), f"{len(answer.results)} results of {len(writes)} writes"
        with self.lock:
            for one, result in zip(writes, answer.results):
                one.result = result.outcome, result.sequence
            self.acknowledged += writes
            self.newest = max(self.newest, answer.sequence)
            self.count += len(writes)

    def fail(self, writes, now):
        """Notes that the call with these writes ended with an error at this time."""
        with self.lock:
            for one in writes:
                one.failed = now
            self.failed += writes

    def take(self):
        with self.lock:
            taken, self.acknowledged = self.acknowledged, []
            return taken


class History:
    """`oracle` holds the documents that the collection has at the start. `numbers` maps their ids to numbers that
    identify their vectors."""

    def __init__(self, ledger, oracle, numbers, parts):
        self.ledger, self.oracle, self.parts = ledger, oracle, parts
        self.last = 0
        self.outcomes = {}  # by sequence: (outcome, id, whether it is a delete)
        self.states = {}  # by id: sequences, and from each on (payload, number, position) or None
        self.changes = [[] for _ in range(parts)]  # of each part: (sequence, id)
        self.deletes = collections.Counter()  # messages by (id, version)
        self.applied = collections.defaultdict(list)  # by id: (begin, sequence) of acknowledged writes that were applied
        self.claimed = set()  # sequences in the acknowledgements of deletes
        self.unclaimed = {}  # applied deletes in no acknowledgement yet: (id, version) by sequence
        for position, (id, document) in enumerate(oracle.documents.items()):
            self.states[id] = [0], [(document.payload, numbers[id], position)]

    def extend(self, messages):
        """Applies messages of the stream, (sequence, data), to the oracle. Checks that each message is a write that a
        client tried, and that no write occurs twice. `data` is None for a message that came too late, which no server
        may apply."""
        for sequence, data in messages:
            assert sequence == self.last + 1, f"the stream has message {sequence} behind {self.last}"
            self.last = sequence
            if data is None:
                continue
            self.oracle.sequence = sequence - 1
            message = Message(sequence, data, self.oracle.id_type)
            if message.kind == UPSERT:
                self._upsert(message)
            else:
                assert message.kind == DELETE, f"message {sequence} is of kind {message.kind}"
                self._delete(message)

    def _upsert(self, message):
        write = self.ledger.upserts.get(message.payload)
        where = f"message {message.sequence}, {message.payload}"
        assert write is not None, f"{where}: nobody wrote it"
        assert not write.found, f"{where}: it is there already, as message {write.found}"
        write.found = message.sequence
        assert (message.id, message.version) == (write.id, write.version), f"{where}: of {message.id!r}"
        outcome = self.oracle.upsert(
            write.id, vectors_of(write.number, self.oracle.storage.dim), write.payload, write.version
        )
        self.outcomes[message.sequence] = outcome, write.id, False
        if outcome != exact.APPLIED:
            return
        document = self.oracle.documents[write.id]
        assert message.rows == document.elements.tobytes() and message.scale == document.scale, (
            f"{where}: other vectors"
        )
        self._change(message, (write.payload, write.number, FIRST_WRITTEN + message.sequence))

    def _delete(self, message):
        key = message.id, message.version
        self.deletes[key] += 1
        tried = len(self.ledger.deletes.get(key, []))
        assert self.deletes[key] <= tried, (
            f"message {message.sequence}: delete {self.deletes[key]} of {key} of {tried}"
        )
        outcome = self.oracle.delete(message.id, message.version)
        self.outcomes[message.sequence] = outcome, message.id, True
        if outcome == exact.APPLIED:
            self._change(message, None)
            self.unclaimed[message.sequence] = key

    def _change(self, message, state):
        sequences, states = self.states.setdefault(message.id, ([0], [None]))
        sequences.append(message.sequence)
        states.append(state)
        self.changes[corpus.part_of(message.id, self.parts)].append((message.sequence, message.id))

    def check_acknowledged(self, writes):
        """Compares the acknowledged writes with the stream. Call extend() with the messages of these writes first."""
        for one in writes:
            outcome, sequence = one.result
            what = f"{one.payload or 'delete'} of {one.id!r}, acknowledged with outcome {outcome}, sequence {sequence}"
            if one.payload:
                assert one.found, f"{what}, is not in the stream of {self.last} messages"
                wanted = self.outcomes[one.found][0]
                assert outcome == wanted, f"{what}, has the outcome {wanted} as message {one.found}"
                assert sequence == (one.found if outcome == exact.APPLIED else 0), f"{what}, is message {one.found}"
            elif outcome == exact.APPLIED:
                assert self.outcomes.get(sequence) == (outcome, one.id, True), f"{what}: {self.outcomes.get(sequence)}"
                assert sequence not in self.claimed, f"{what}, and so was another one"
                self.claimed.add(sequence)
                del self.unclaimed[sequence]
            else:
                assert self.deletes[one.id, one.version], f"{what}, is not in the stream"
            if outcome == exact.APPLIED:
                self.applied[one.id].append((one.begun, sequence))

    def check_not_undone(self):
        """Checks each write whose call failed. It must not have been applied after an acknowledged write of the same id
        that began after the failure."""
        with self.ledger.lock:
            failed = list(self.ledger.failed)
        for sequence, (id, version) in self.unclaimed.items():
            self._check_delete(sequence, id, version)
        for one in failed:
            if not one.found or self.outcomes[one.found][0] != exact.APPLIED:
                continue
            for begun, sequence in self.applied[one.id]:
                assert begun < one.failed or sequence > one.found, (
                    f"{one.payload} of {one.id!r} failed, and came as message {one.found}, after message {sequence}, "
                    f"which was sent {begun - one.failed:.3f} s later and acknowledged"
                )

    def _check_delete(self, sequence, id, version):
        """Checks an applied delete that was not acknowledged. Its message does not say which call sent it. So some
        delete call must exist that was still running when the last earlier write of the id began, or failed later than
        that."""
        with self.ledger.lock:
            tried = list(self.ledger.deletes[id, version])
        latest = max((begun for begun, earlier in self.applied[id] if earlier < sequence), default=-math.inf)
        ends = [
            math.inf if one.failed is None else one.failed
            for one in tried
            if one.result is None or one.result == (exact.APPLIED, sequence)
        ]
        assert any(latest < end for end in ends), (
            f"a delete of {id!r} came as message {sequence}, and all that may have sent it had failed before an "
            f"acknowledged write ahead of it was sent, the last one {latest - max(ends, default=latest):.3f} s before"
        )

    def state(self, id, sequence):
        """Returns the (payload, number, position) of a document at a sequence of the stream, or None if the document
        did not exist then."""
        known = self.states.get(id)
        return known[1][bisect.bisect_right(known[0], sequence) - 1] if known else None

    def moments(self, found, sequence):
        """Finds when the groups held the documents that a reader found. `found` maps ids to payloads, "" for a missing
        document. Returns for each part (group) a sequence, not less than `sequence`, at which the part held exactly
        these documents. Raises if there is no such sequence."""
        by_part = collections.defaultdict(dict)
        for id, payload in found.items():
            by_part[corpus.part_of(id, self.parts)][id] = payload
        return {part: self._moment(part, payloads, sequence) for part, payloads in by_part.items()}

    def _moment(self, part, found, sequence):
        def holds(id, moment):
            state = self.state(id, moment)
            return (state[0] if state else "") == found[id]

        wrong = at_first = {id for id in found if not holds(id, sequence)}
        moment, changes = sequence, self.changes[part]
        for index in range(bisect.bisect_right(changes, sequence, key=lambda one: one[0]), len(changes)):
            if not wrong:
                break
            later, id = changes[index]
            if id in found:
                moment = later
                wrong = wrong - {id} if holds(id, later) else wrong | {id}
        if wrong:
            lines = [
                f"{id!r}: {found[id] or 'nothing'}, at first {self.state(id, sequence)}" for id in sorted(at_first)[:5]
            ]
            raise AssertionError(f"group {part} never held this from sequence {sequence} on:\n" + "\n".join(lines))
        return moment

    def ids(self):
        return list(self.states)
