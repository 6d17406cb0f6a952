"""Tests scripts/check-dependencies.py: it must find folders that include each other in a circle, and code that reads
the text of an error."""

import ast
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
        """Returns the errors for a tree of files. `includes` maps each file's name to the names that it includes."""
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
        # Single folders have no circle: a/b/one -> a/c/one, and a/c/two -> a/b/two. But a/b and a/c include each
        # other.
        self.assertEqual(["folders include each other in a circle: a/b/ -> a/c/ -> a/b/"],
                         self.circles({"a/b/one/x.h": ["a/c/one/x.h"], "a/c/two/y.h": ["a/b/two/y.h"]}))

    def test_a_longer_circle_is_found_too(self):
        self.assertEqual(["folders include each other in a circle: a/b/ -> a/c/ -> a/d/ -> a/b/"],
                         self.circles({"a/b/x.h": ["a/c/x.h"], "a/c/e/y.h": ["a/d/y.h"], "a/d/z.h": ["a/b/f/z.h"]}))

    def test_the_files_of_a_folder_itself_are_one_of_its_parts(self):
        self.assertEqual(["folders include each other in a circle: a/* -> a/b/ -> a/*"],
                         self.circles({"a/x.h": ["a/b/x.h"], "a/b/c/y.h": ["a/y.h"]}))


class MessageSearchesTest(unittest.TestCase):
    def lines(self, handled):
        """Returns the numbers of the lines that search a message, in code whose line 4 is `handled`."""
        return list(CHECK.message_searches(ast.parse(f"try:\n  f()\nexcept ValueError as wrong:\n  {handled}\n")))

    def test_searching_the_text_of_an_error_is_found(self):
        for search in ('str(wrong).startswith("a")', 'str(wrong).removeprefix("a")', '"a" in str(wrong)',
                       '"a" not in wrong.details()', 're.search("a", str(wrong))', "PATTERN.match(wrong.message)"):
            self.assertEqual([4], self.lines(f"use({search})"), search)

    def test_showing_it_is_not(self):
        for use in ("raise Other(str(wrong))", 'print(f"{wrong}")', '" ".join(str(wrong).split())', "wrong.field == 1",
                    '"a" in str(other)'):
            self.assertEqual([], self.lines(use), use)

    def test_a_message_that_a_function_is_given_is_one(self):
        self.assertEqual([2], list(CHECK.message_searches(ast.parse("def f(message: str):\n  return 'a' in message"))))
        self.assertEqual([], list(CHECK.message_searches(ast.parse("def f(message: dict):\n  return 'a' in message"))))

    def test_cxx_code_that_searches_a_message_is_found(self):
        for search in ('absl::StrContains(status.message(), "a")', 'EndsWith(status.ToString(), "a")',
                       'status.message().find("a")'):
            self.assertIsNotNone(CHECK.MESSAGE_SEARCH.search(search), search)
        self.assertIsNone(CHECK.MESSAGE_SEARCH.search('Cat(status.message(), "a")'))

    def test_the_files_that_may_do_so_are_there(self):
        for name in CHECK.READS_MESSAGES:
            self.assertTrue((ROOT / name).is_file(), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
