"""Makes random setups and operations for world.py, and shortens sequences of operations that fail."""

import copy
import random
import time

import server as client

NUM_IDS = 70  # few, so that documents are replaced, deleted and written again
BAD = ["dim", "nan", "id", "other_id", "long_id", "payload", "tokens", "none"]


def setup_of(seed, num_ids=NUM_IDS):
    chooser = random.Random(seed)
    flags = dict(chooser.choice([client.NEVER_COMPACTS, client.COMPACTS_OFTEN, {"live.segment_bytes": "1MiB"}]))
    return {
        "storage": chooser.choice(["f16", "i8", "f16", "i8", "f32"]),
        "dim": chooser.choice([8, 16, 16, 48, 100, 300]),  # the largest fills several segments
        "id_type": chooser.choice(["string", "int64"]),
        "num_base": chooser.choice([0, 1, num_ids // 2, num_ids // 2]),
        "seed": seed % 100_000,
        "flags": flags,
        "codes": chooser.choice([0, 4, 1, 4, 2]),
    }


class Generator:
    """Makes random operations. The ids and numbers in them depend only on the seed."""

    def __init__(self, seed, id_type):
        self.chooser = random.Random(seed)
        self.id_type = id_type
        self.fresh_id = 1000

    def _id(self):
        if self.chooser.random() < 0.15:
            self.fresh_id += 1
            return self.fresh_id
        return self.chooser.randrange(NUM_IDS)

    def _document(self):
        chooser = self.chooser
        # Every document gets one of 60 sets of vectors, so many documents have equal scores. A search by codes must rank
        # these in the same order as an exact search.
        version = chooser.randrange(1, 6) if chooser.random() < 0.35 else 0
        payload = chooser.randrange(1, 40) if chooser.random() < 0.5 else 0
        return [self._id(), chooser.randrange(60), version, payload, chooser.choice(["f32", "f32", "f16"])]

    def _documents(self, largest):
        made = [self._document() for _ in range(self.chooser.randint(1, largest))]
        if self.chooser.random() < 0.3:
            made.append([made[0][0], *self._document()[1:]])  # the same id twice in one call
        return made

    def next(self):
        chooser = self.chooser
        kinds = {
            self._upsert: 10, self._many: 1, self._stream: 2, self._delete: 6, self._bad: 1, self._plain("reload"): 1,
            self._plain("compact"): 3, self._plain("snapshot"): 1, self._plain("fresh"): 3, self._plain("kill"): 1,
            self._plain("restart"): 1, self._offline: 0.5,
        }  # fmt: skip
        operation = chooser.choices(list(kinds), list(kinds.values()))[0]()
        operation["check"] = chooser.randrange(1_000_000)
        return operation

    def _plain(self, name):
        return lambda: {"op": name}

    def _offline(self):
        return {"op": "restart", "offline": True}

    def _upsert(self):
        return {"op": "upsert", "docs": self._documents(6)}

    def _many(self):
        return {"op": "upsert", "docs": self._documents(200)}

    def _stream(self):
        return {"op": "stream", "calls": [self._documents(4) for _ in range(self.chooser.randint(1, 5))]}

    def _delete(self):
        ids = [self._id() for _ in range(self.chooser.choice([1, 1, 2, 5, 20]))]
        version = self.chooser.randrange(1, 6) if self.chooser.random() < 0.35 else 0
        return {"op": "delete", "ids": ids, "version": version}

    def _bad(self):
        kinds = [kind for kind in BAD if kind != "long_id" or self.id_type == "string"]
        return {"op": "bad", "kind": self.chooser.choice(kinds)}


def shrink(operations, fails, seconds):
    """Returns a shorter list of operations for which fails(operations) is still true. Uses delta debugging (Zeller &
    Hildebrandt 2002), first on the operations, then on their documents and ids. Stops after `seconds`."""
    until = time.monotonic() + seconds

    def minimize(items, still_fails):
        parts = 2
        while len(items) > 1 and time.monotonic() < until:
            size = -(-len(items) // parts)
            for begin in range(0, len(items), size):
                rest = items[:begin] + items[begin + size :]
                if rest and time.monotonic() < until and still_fails(rest):
                    items, parts = rest, max(2, parts - 1)
                    break
            else:
                if size == 1:
                    break
                parts = min(len(items), 2 * parts)
        return items

    operations = minimize(list(operations), fails)
    for index, operation in enumerate(operations):
        for field in ("docs", "ids", "calls"):
            if len(operation.get(field, [])) > 1:
                smaller = copy.deepcopy(operations)

                def with_items(items, smaller=smaller, index=index, field=field):
                    smaller[index][field] = items
                    return fails(smaller)

                operation[field] = minimize(operation[field], with_items)
    return operations
