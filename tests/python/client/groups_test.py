"""Tests grouped results of maxsim.Client with a real maxsimd. They must equal groups that the test makes from the
ranking of all documents. Most of the best documents are in one group, so the server needs several rounds to find
others.

python groups_test.py FOLDER_OF_THE_PROGRAMS
"""

import concurrent.futures
import json
import pathlib
import subprocess
import tempfile
import threading

import numpy as np

from client_fixture import DIM, Maxsimd, RealServerTest, main, use_package

use_package()
import maxsim  # noqa: E402

NUM_DOCUMENTS, NUM_BIG = 1500, 1200


class GroupsTest(RealServerTest):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-groups-")
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        rng = np.random.default_rng(5)
        cls.queries = rng.standard_normal((3, 4, DIM)).astype(np.float32)
        near = cls.queries.mean(axis=(0, 1))
        cls.books = {}
        tokens = rng.standard_normal((NUM_DOCUMENTS, 3, DIM)).astype(np.float32)
        with open(folder / "docs.jsonl", "w", encoding="utf-8") as lines:
            for place, number in enumerate(rng.permutation(NUM_DOCUMENTS).tolist()):
                document = {"id": f"d{number}"}
                if number < NUM_BIG:  # ranks before the others
                    tokens[place] += 4 * near
                    document["book"] = "big"
                elif number % 10:
                    document["book"] = f"small {number % 40}"
                cls.books[document["id"]] = document.get("book")
                lines.write(json.dumps(document) + "\n")
        np.save(folder / "tokens.npy", tokens.reshape(-1, DIM).astype(np.float16))
        np.save(folder / "lengths.npy", np.full(NUM_DOCUMENTS, 3, np.int32))
        command = [cls.programs / "maxsim-shard", "build", "--tokens", folder / "tokens.npy", "--ids"]
        command += [folder / "docs.jsonl", "--lengths", folder / "lengths.npy", "--output", folder / "docs"]
        command += ["--name", "docs", "--fields", "book:keyword", "--quiet"]
        subprocess.run(list(map(str, command)), check=True)
        cls.server = Maxsimd(cls.programs, folder / "server", {"docs": folder / "docs"})
        cls.addClassCleanup(cls.server.stop)
        cls.folder = folder
        cls.client = maxsim.Client(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def groups(self, ranking, top_k, group_size, offset=0):
        """Groups a ranking of all documents. Returns a list of each group's value and ids."""
        groups = {}
        for document in ranking:
            if self.books[document.id] is not None:
                groups.setdefault(self.books[document.id], []).append(document.id)
        chosen = [*groups.items()][offset : offset + top_k]
        return [(value, id) for value, ids in chosen for id in ids[:group_size]]

    def test_groups_are_those_of_the_ranking_of_all(self):
        for query in self.queries:
            ranking = self.client.rerank("docs", query, top_k=NUM_DOCUMENTS)
            self.assertEqual(self.books[ranking[0].id], "big")
            scores = dict(zip(ranking.ids, ranking.scores))
            for top_k, group_size, offset in ((1, 1, 0), (5, 1, 0), (5, 3, 0), (50, 4, 0), (3, 2, 7), (3, 5, 100)):
                found = self.client.rerank(
                    "docs", query, top_k=top_k, group_by="book", group_size=group_size, offset=offset
                )
                wanted = self.groups(ranking, top_k, group_size, offset)
                self.assertEqual([(document.group, document.id) for document in found], wanted)
                self.assertEqual([document.score for document in found], [scores[id] for _, id in wanted])

    def test_many_callers_get_their_own_groups(self):
        ids = sorted(self.books)[::2]
        rankings = self.client.rerank_many("docs", self.queries, ids, top_k=NUM_DOCUMENTS)
        wanted = [self.groups(ranking, 6, 3) for ranking in rankings]

        def ask(_):
            found = self.client.rerank_many(
                "docs", self.queries, ids, top_k=6, group_by="book", group_size=3, alignments=True
            )
            self.assertTrue(all(len(document.matches) == 4 for ranking in found for document in ranking))
            return [[(document.group, document.id) for document in ranking] for ranking in found]

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            for found in threads.map(ask, range(40)):
                self.assertEqual(found, wanted)

    def test_what_is_wrong_is_named(self):
        for arguments, field in (
            ({"group_by": "title"}, "group_by"),
            ({"group_by": "book", "group_size": 3000}, "group_size"),
            ({"group_by": "book", "top_k": 11_000}, "top_k"),
        ):
            with self.assertRaises(maxsim.errors.InvalidArgument) as raised:
                self.client.rerank("docs", self.queries[0], **arguments)
            self.assertEqual(raised.exception.field, field)

    def test_a_server_that_stops_answers_what_it_has_begun(self):
        server = Maxsimd(self.programs, self.folder / "stopping", {"docs": self.folder / "docs"})
        ranking = self.client.rerank("docs", self.queries[0], top_k=NUM_DOCUMENTS)
        wanted = self.groups(ranking, 20, 3)
        answered = threading.Semaphore(0)

        def ask():
            with maxsim.Client(server.address, retry=maxsim.Retry(max_attempts=1)) as client:
                while True:
                    try:
                        found = client.rerank("docs", self.queries[0], top_k=20, group_by="book", group_size=3)
                    except maxsim.errors.Unavailable as error:
                        return str(error)
                    self.assertEqual([(document.group, document.id) for document in found], wanted)
                    answered.release()

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(ask) for _ in range(4)]
            for _ in range(20):
                while not answered.acquire(timeout=0.2):
                    self.assertFalse(any(one.done() for one in asked), "a caller has ended")
            server.stop()
            for one in asked:
                one.result()

    def test_a_deadline_ends_the_rounds(self):
        with self.assertRaises(maxsim.errors.DeadlineExceeded):
            self.client.rerank("docs", self.queries[0], group_by="book", timeout=1e-5)


if __name__ == "__main__":
    main()
