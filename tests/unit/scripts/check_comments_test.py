"""Tests scripts/check-comments.py: it must find the signs of unclear English in comments, and nowhere else."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "check-comments.py"


def load_script():
    spec = importlib.util.spec_from_file_location("check_comments", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = load_script()

PLANTED = """\
// Has the document's tokens.
// What the caller gets.
int a = 1;  // so
            // many of them
int b = 1'000;  /* Is one. */
/* The rows
 * behind it, of which two are null: none. */
const char* c = "// Is in a string, so many";
const char* d = R"(// wants)";
// The caller who wants tokens_a_document gets one that is made.
"""


class SignsTest(unittest.TestCase):
    def signs(self, name, text):
        return [(number, sign) for number, sign, _ in sorted(CHECK.signs_of(CHECK.reader_of(name, text)(text)))]

    def test_every_sign_is_found_where_it_stands(self):
        expected = [
            (1, "opens with Has, Is or Are"),
            (3, "so many"),
            (5, "opens with Has, Is or Are"),
            (7, "behind"),
            (7, "null:"),
            (7, "of which"),
            (10, "a for per"),
            (10, "that is made"),
            (10, "wants"),
            (10, "who, somebody, nobody"),
        ]
        self.assertEqual(expected, self.signs("planted.cc", PLANTED))
        self.assertEqual({sign for _, sign in expected} | {"opens with What"}, set(CHECK.SIGNS))

    def test_only_the_beginning_of_a_comment_opens_it(self):
        self.assertEqual([(1, "opens with What")], self.signs("a.h", "// What it is.\n// What it does.\nint x;\n"))
        self.assertEqual([(2, "opens with What")], self.signs("a.h", "int x;  // One.\n// What it is.\n"))

    def test_shell_comments_are_read_and_strings_are_not(self):
        self.assertEqual(
            [(2, "opens with What"), (4, "wants")],
            self.signs("run", "#!/bin/sh\n# What it does.\necho '# so many'\nx=$#  # it wants more\n"),
        )
        self.assertEqual([(1, "behind")], self.signs("CMakeLists.txt", "add(x)  # behind it\n"))

    def test_python_comments_and_first_lines_of_docstrings_are_read(self):
        text = '"""What it is.\n\nIt has so many.\n"""\nx = "# wants"  # wants\n\ndef f():\n    """Is one."""\n'
        self.assertEqual(
            [(1, "opens with What"), (5, "wants"), (8, "opens with Has, Is or Are")], self.signs("a.py", text)
        )

    def test_other_files_are_not_read(self):
        self.assertIsNone(CHECK.reader_of("page.md", "# What it is\n"))


class ProgramTest(unittest.TestCase):
    def run_script(self, text, *arguments):
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
            file.write(text)
            file.flush()
            return subprocess.run(
                [sys.executable, SCRIPT, *arguments, file.name], capture_output=True, text=True, check=False
            )

    def test_it_prints_the_sum_and_each_place_on_request(self):
        done = self.run_script(PLANTED, "--list")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("1 files, 10 signs of unclear English (opens with Has, Is or Are 2, behind 1", done.stdout)
        self.assertIn(".cc:3: so many: so\n", done.stdout)

    def test_it_fails_above_the_limit(self):
        self.assertEqual(0, self.run_script("// So many.\n" * CHECK.MAX_SIGNS).returncode)
        done = self.run_script("// So many.\n" * (CHECK.MAX_SIGNS + 1))
        self.assertEqual(1, done.returncode)
        self.assertIn("151 signs of unclear English (so many 151), more than the limit 150", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
