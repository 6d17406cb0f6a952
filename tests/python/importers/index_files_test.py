"""Small files of index folders: python index_files_test.py [PROGRAMS]"""

import json
import unittest
import unittest.mock

from stores_fixture import ImportTest

from maxsim.importers.indexes import index_files
from maxsim.importers.source import SourceError


class TextsTest(ImportTest):
    def test_texts_longer_than_a_block_are_read(self):
        texts = ["", "é\n\"'" * 50_000, "\U0001f600" * 100_000, "a"]
        path = self.folder / "collection.json"
        for is_ascii in (True, False):
            path.write_text(json.dumps(texts, ensure_ascii=is_ascii), encoding="utf-8")
            found = [payload["content"] for payload in index_files.read_texts(str(path))]
            self.assertEqual(found, texts)

    def test_what_is_no_array_of_texts_is_refused_before_all_of_it_is_read(self):
        path = self.folder / "collection.json"
        size = 20 << 20
        for begin in ("[x", '["', "[[", "[" * 5000, "[nul"):
            path.write_text(begin + " " * size)
            opened = open(path, encoding="utf-8")
            self.addCleanup(opened.close)
            with (
                self.subTest(begin[:4]),
                unittest.mock.patch.object(index_files, "open", lambda *_, **__: opened, create=True),
            ):
                with self.assertRaisesRegex(
                    SourceError, r"collection\.json: is cut off, or is not a JSON array of texts"
                ):
                    # Records the size of each read, to check that much less than the whole file is read.
                    with unittest.mock.patch.object(opened, "read", wraps=opened.read) as read:
                        list(index_files.read_texts(str(path)))
                self.assertLess(sum(call.args[0] for call in read.call_args_list), size)


if __name__ == "__main__":
    unittest.main(verbosity=2)
