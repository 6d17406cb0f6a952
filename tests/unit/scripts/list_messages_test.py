"""Tests scripts/list-messages.py: it must list the texts of error and log messages, with inserted values in braces."""

import importlib.util
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "list-messages.py"


def load_script():
    spec = importlib.util.spec_from_file_location("list_messages", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LIST = load_script()

CPP = """\
// absl::InternalError("of a comment")
absl::Status FieldError(absl::StatusCode code, std::string_view reason, std::string_view field);
return absl::NotFoundError(Cat(path, ": no array \\"", name,  // why
                               "\\"; it "
                               "holds: ", Names(a, b)));
return InvalidField("dim", absl::StrCat("is ", dim), {kMaxDim, dim});
return client::FieldError(code, kReason, absl::StrCat("queries[", i, "]"), "the device is lost");
log::Write(spdlog::level::warn, "reload_failed", {{"name", name}, {"effect", "the old one stays (as it is)"}});
return Invalid(path, ": ", columns, " columns");
std::fprintf(stderr, "maxsimd: %s\\n", text);
spdlog::warn("{}", warning);
return absl::InternalError(status.message());
"""

PYTHON = """\
def f(x):
    if x:
        raise ValueError(
            f"x is {x!r}; "
            "at least one is expected"
        )
    raise errors.Lost("lost", 3) from None
    raise
    raise ValueError(x)
"""


class ListMessagesTest(unittest.TestCase):
    def test_cpp_messages_have_their_line_kind_and_text(self):
        self.assertEqual(
            [
                (3, "NotFoundError", '{path}: no array "{name}"; it holds: {Names(a, b)}'),
                (6, "InvalidField", "dim: is {dim}"),
                (7, "FieldError", "queries[{i}]: the device is lost"),
                (8, "log warn", "reload_failed name={name} effect=the old one stays (as it is)"),
                (9, "Invalid", "{path}: {columns} columns"),
                (10, "stderr", "maxsimd: %s "),
            ],
            list(LIST.cpp_messages(CPP)),
        )

    def test_python_messages_have_their_line_kind_and_text(self):
        self.assertEqual(
            [(3, "ValueError", "x is {x}; at least one is expected"), (7, "errors.Lost", "lost, {3}")],
            sorted(LIST.python_messages(PYTHON)),
        )

    def test_the_table_of_the_tree_has_one_message_per_line(self):
        done = subprocess.run([sys.executable, SCRIPT, "--by-text"], capture_output=True, text=True, check=True)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        self.assertGreater(len(rows), 1000)
        self.assertEqual({3}, {len(row) for row in rows})
        self.assertTrue({"log warn", "InvalidField", "SourceError"} <= {row[1] for row in rows})


if __name__ == "__main__":
    unittest.main(verbosity=2)
