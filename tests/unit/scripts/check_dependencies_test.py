"""scripts/check-dependencies.py: which trees have a circle of folders."""

import importlib.util
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def load_script():
    spec = importlib.util.spec_from_file_location("check_dependencies", ROOT / "scripts" / "check-dependencies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = load_script()


class IncludeCirclesTest(unittest.TestCase):
    def circles(self, includes):
        """Returns the errors about a tree of files {name: names that it includes}."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            names = {name for file, included in includes.items() for name in (file, *included)}
            for name in names:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("".join(f'#include "{other}"\n' for other in includes.get(name, ())))
            return list(CHECK.include_circles(sorted(names), root))

    def test_a_tree_of_layers_has_none(self):
        self.assertEqual([], self.circles({"a/top/x.cc": ["a/low/part/x.h", "a/x.h"], "a/low/y.cc": ["a/low/part/x.h"],
                                           "a/low/part/x.cc": ["a/low/part/x.h", "b/x.h"]}))

    def test_folders_that_include_each_other_are_one(self):
        self.assertEqual(["folders include each other in a circle: a/b/ -> a/c/ -> a/b/"],
                         self.circles({"a/b/x.h": ["a/c/x.h"], "a/c/y.h": ["a/b/y.h"]}))

    def test_subfolders_count_as_part_of_the_folders_that_hold_them(self):
        # As a graph of single folders this has no circle: a/b/one -> a/c/one, and a/c/two -> a/b/two.
        self.assertEqual(["folders include each other in a circle: a/b/ -> a/c/ -> a/b/"],
                         self.circles({"a/b/one/x.h": ["a/c/one/x.h"], "a/c/two/y.h": ["a/b/two/y.h"]}))

    def test_a_longer_circle_is_found_too(self):
        self.assertEqual(["folders include each other in a circle: a/b/ -> a/c/ -> a/d/ -> a/b/"],
                         self.circles({"a/b/x.h": ["a/c/x.h"], "a/c/e/y.h": ["a/d/y.h"], "a/d/z.h": ["a/b/f/z.h"]}))

    def test_the_files_of_a_folder_itself_are_one_of_its_parts(self):
        self.assertEqual(["folders include each other in a circle: a/* -> a/b/ -> a/*"],
                         self.circles({"a/x.h": ["a/b/x.h"], "a/b/c/y.h": ["a/y.h"]}))


if __name__ == "__main__":
    unittest.main(verbosity=2)
