"""Tests scripts/check-pages.py: it must find the paths in backquotes that do not exist in the tree."""

import importlib.util
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILES = ["server/main.cc", "server/http/text.cc", "server/http/text.h", "docs/start.md", "Makefile"]


def load_script():
    spec = importlib.util.spec_from_file_location("check_pages", ROOT / "scripts" / "check-pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = load_script()


class MissingPathsTest(unittest.TestCase):
    def missing(self, line):
        return list(CHECK.missing_paths(line, CHECK.ends_of(FILES)))

    def test_files_and_folders_that_exist_are_not_missing(self):
        self.assertEqual([], self.missing("`server/main.cc`, `server/http/`, `server/http` and `docs/start.md`"))

    def test_the_end_of_a_path_names_a_file(self):
        self.assertEqual([], self.missing("`text.cc` and `http/text.h`"))

    def test_braces_and_stars_stand_for_several_files(self):
        self.assertEqual([], self.missing("`server/http/text.{h,cc}`, `server/http/*.h`"))
        self.assertEqual(["server/http/text.cu"], self.missing("`server/http/text.{h,cu}`"))
        self.assertEqual(["server/*.cu"], self.missing("`server/*.cu`"))

    def test_a_file_that_moved_is_missing(self):
        self.assertEqual(["server/text.cc"], self.missing("see `server/text.cc`"))
        self.assertEqual(["server/grpc"], self.missing("in `server/grpc/`"))
        self.assertEqual(["main.h"], self.missing("`main.h`"))

    def test_half_a_name_is_no_end_of_a_path(self):
        self.assertEqual(["ain.cc"], self.missing("`ain.cc`"))

    def test_placeholders_suffixes_and_what_is_no_path_are_left_alone(self):
        self.assertEqual([], self.missing("`server/NAME.cc`, `isa_NAME.cc`, `.cc`, `and/or`, `build/x.h`, `server/...`"))

    def test_the_tree_has_files(self):
        self.assertIn("scripts/check-pages.py", CHECK.tree_files())


if __name__ == "__main__":
    unittest.main(verbosity=2)
