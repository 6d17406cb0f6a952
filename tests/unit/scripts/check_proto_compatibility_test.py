"""Tests scripts/check-proto-compatibility.py: it must refuse every change that breaks clients, and allow additions."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "check-proto-compatibility.py"


def load_script():
    spec = importlib.util.spec_from_file_location("check_proto_compatibility", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = load_script()

CMAKE = "project(maxsim VERSION 1.2.0 LANGUAGES CXX)\n"
PROTO = """\
syntax = "proto3";
package maxsim.v1;
option go_package = "maxsim/v1;maxsimv1";
enum Kind {
  KIND_UNSPECIFIED = 0;
  KIND_SHORT = 1;
  reserved 4 to 5;
}
message Request {
  reserved 9, 11 to 12;
  reserved "old_name";
  string name = 1;
  repeated uint32 sizes = 2;
  optional bool exact = 3;
  oneof ids {
    string text_id = 4;
    fixed64 int_id = 5;
  }
  Kind kind = 6;
  message Part { bytes data = 1; }
  map<string, Part> parts = 7;
}
message Response {}
service Search {
  rpc Ask(Request) returns (Response);
  rpc Many(stream Request) returns (stream Response);
}
"""

# Each change replaces the first text by the second. It must be refused with a message that contains the third.
BREAKS = {
    "a removed field": ("  string name = 1;\n", "", "maxsim.v1.Request 1: string name: is gone"),
    "a removed field whose number is reserved": (
        "  string name = 1;\n", "  reserved 1;\n", "maxsim.v1.Request 1: string name: is now reserved"),
    "a renamed field": ("string name = 1", "string title = 1", "Request 1: string name: is now string title"),
    "a renumbered field": ("string name = 1", "string name = 8", "Request 1: string name: is gone"),
    "a field of another type": ("string name", "bytes name", "Request 1: string name: is now bytes name"),
    "a field of another message": ("Kind kind = 6", "Response kind = 6",
                                   "6: maxsim.v1.Kind kind: is now maxsim.v1.Response kind"),
    "a field that is repeated no more": ("repeated uint32 sizes", "uint32 sizes",
                                         "Request 2: repeated uint32 sizes: is now uint32 sizes"),
    "a field that becomes repeated": ("string name", "repeated string name",
                                      "Request 1: string name: is now repeated string name"),
    "a field that loses its presence": ("optional bool", "bool", "3: optional bool exact: is now bool exact"),
    "a field in another oneof": ("oneof ids", "oneof other",
                                 "text_id in oneof ids: is now string text_id in oneof other"),
    "a field with another JSON name": ("string name = 1;", 'string name = 1 [json_name = "title"];',
                                       "1: string name: is now string name json title"),
    "a map with other values": ("map<string, Part>", "map<string, string>",
                                "PartsEntry 2: maxsim.v1.Request.Part value: is now string value"),
    "a removed nested message's field": ("bytes data = 1;", "", "maxsim.v1.Request.Part 1: bytes data: is gone"),
    "a renamed message": ("Response", "Answer", "message maxsim.v1.Response: in maxsim/v1/a.proto: is gone"),
    "a removed value": ("  KIND_SHORT = 1;\n", "", "maxsim.v1.Kind 1: KIND_SHORT: is gone"),
    "a renamed value": ("KIND_SHORT", "KIND_BRIEF", "Kind 1: KIND_SHORT: is now KIND_BRIEF"),
    "a renumbered value": ("KIND_SHORT = 1", "KIND_SHORT = 2", "Kind 1: KIND_SHORT: is gone"),
    "a reserved number of an enum that is used": (
        "reserved 4 to 5;", "KIND_LONG = 5; reserved 4;", "Kind 5: reserved: is now KIND_LONG"),
    "a reserved number that is used": (
        "reserved 9, 11 to 12;", "reserved 9, 11; string again = 12;", "Request 12: reserved: is now string again"),
    "a reserved number that is free again": ("reserved 9, 11 to 12", "reserved 9, 11", "Request 12: reserved: is gone"),
    "a reserved name that is free again": ('  reserved "old_name";\n', "", "Request old_name: reserved: is gone"),
    "a removed rpc": ("  rpc Ask(Request) returns (Response);\n", "",
                      "rpc maxsim.v1.Search.Ask: maxsim.v1.Request returns maxsim.v1.Response: is gone"),
    "a renamed rpc": ("rpc Ask", "rpc Question", "rpc maxsim.v1.Search.Ask"),
    "an rpc with another request": ("Ask(Request)", "Ask(Response)",
                                    "is now maxsim.v1.Response returns maxsim.v1.Response"),
    "an rpc with another response": ("Ask(Request) returns (Response)", "Ask(Request) returns (Request)",
                                     "is now maxsim.v1.Request returns maxsim.v1.Request"),
    "an rpc that streams": ("Ask(Request) returns (Response)", "Ask(Request) returns (stream Response)",
                            "is now maxsim.v1.Request returns stream maxsim.v1.Response"),
    "an rpc that streams no more": ("Many(stream Request)", "Many(Request)",
                                    "is now maxsim.v1.Request returns stream maxsim.v1.Response"),
    "a renamed service": ("service Search", "service Find", "service maxsim.v1.Search: in maxsim/v1/a.proto: is gone"),
    "another package": ("package maxsim.v1", "package maxsim.v2", "file maxsim/v1/a.proto: package maxsim.v1: is now"),
    "another Go package": ("maxsimv1", "maxsimv2", "option maxsim/v1/a.proto go_package: maxsim/v1;maxsimv1: is now"),
}

ADDITIONS = {
    "a field": ("Response {}", "Response { string text = 1; }", "maxsim.v1.Response 1: string text"),
    "a value": ("KIND_SHORT = 1;", "KIND_SHORT = 1; KIND_LONG = 2;", "maxsim.v1.Kind 2: KIND_LONG"),
    "a message": ("Response {}", "Response {} message More {}", "message maxsim.v1.More: in maxsim/v1/a.proto"),
    "an rpc": ("rpc Ask", "rpc More(Request) returns (Response);\n  rpc Ask", "rpc maxsim.v1.Search.More: "),
    "a reserved number": ("reserved 9,", "reserved 9, 20,", "maxsim.v1.Request 20: reserved"),
}


class CompatibilityTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.proto = self.root / "proto" / "maxsim" / "v1" / "a.proto"
        self.proto.parent.mkdir(parents=True)
        self.baseline = self.root / "proto" / "api-v1.txt"
        (self.root / "CMakeLists.txt").write_text(CMAKE)
        self.proto.write_text(PROTO)
        self.update()

    def check(self):
        """Returns the lines of a check that passes."""
        return CHECK.check(self.root, False)

    def update(self):
        CHECK.check(self.root, True)

    def failure(self, update=False):
        """Returns the error of a check that fails."""
        with self.assertRaises(CHECK.Failure) as raised:
            CHECK.check(self.root, update)
        return str(raised.exception)

    def change(self, old, new):
        self.assertIn(old, PROTO)
        self.proto.write_text(PROTO.replace(old, new))

    def test_unchanged_files_pass(self):
        self.assertRegex("\n".join(self.check()), r"^proto: \d+ declarations are as proto/api-v1\.txt has them$")

    def test_comments_and_the_order_of_declarations_do_not_matter(self):
        self.change("  string name = 1;\n  repeated uint32 sizes = 2;\n",
                    "  repeated uint32 sizes = 2;  // Sizes.\n  string name = 1;\n")
        self.assertEqual(1, len(self.check()))

    def test_every_break_is_refused_and_named(self):
        before = self.baseline.read_text()
        for kind, (old, new, message) in BREAKS.items():
            with self.subTest(kind):
                self.change(old, new)
                self.assertIn(message, self.failure())
                self.assertIn(message, self.failure(update=True))
                self.assertEqual(before, self.baseline.read_text(), "a break must not change the baseline")

    def test_a_removed_file_and_a_moved_message_are_refused(self):
        other = self.proto.with_name("b.proto")
        other.write_text('syntax = "proto3";\npackage maxsim.v1;\nmessage More {}\n')
        self.update()
        other.unlink()
        self.assertIn("file maxsim/v1/b.proto: package maxsim.v1: is gone", self.failure())
        other.write_text('syntax = "proto3";\npackage maxsim.v1;\n')
        self.change("message Response {}", "message Response {}\nmessage More {}")
        self.assertIn("message maxsim.v1.More: in maxsim/v1/b.proto: is now in maxsim/v1/a.proto", self.failure())

    def test_additions_pass_and_update_promises_them(self):
        for kind, (old, new, line) in ADDITIONS.items():
            with self.subTest(kind):
                self.baseline.unlink()
                self.proto.write_text(PROTO)
                self.update()
                self.change(old, new)
                self.assertIn(f"new: {line}", "\n".join(self.check()))
                self.proto.write_text(PROTO)
                self.assertEqual(1, len(self.check()), "an addition may be taken back before --update")
                self.change(old, new)
                self.update()
                self.assertEqual(1, len(self.check()))
                self.proto.write_text(PROTO)
                self.assertIn(line, self.failure())

    def test_a_release_must_promise_its_additions(self):
        (self.root / "CMakeLists.txt").write_text(CMAKE.replace("1.2.0", "1.3.0"))
        self.check()
        self.change("Response {}", "Response { string text = 1; }")
        self.assertIn("proto/api-v1.txt is of version 1.2.0, CMakeLists.txt of 1.3.0. Run", self.failure())
        self.update()
        self.check()
        self.assertTrue(self.baseline.read_text().startswith("# maxsim 1.3.0: "))

    def test_without_a_baseline_everything_is_unpromised(self):
        self.baseline.unlink()
        self.assertIn("there is no proto/api-v1.txt. Run", self.failure())

    def test_files_that_protoc_refuses_are_an_error(self):
        self.proto.write_text(PROTO + "message {")
        self.assertIn("a.proto:28:9: ", self.failure())

    def test_a_damaged_baseline_is_an_error(self):
        self.baseline.write_text(self.baseline.read_text() + "something\n")
        self.assertRegex(self.failure(), r"api-v1\.txt:\d+: not understood: something")


class ProgramTest(unittest.TestCase):
    def run_script(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, *arguments], capture_output=True, text=True, check=False)

    def test_the_api_of_this_tree_is_as_promised(self):
        done = self.run_script()
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_a_break_ends_the_program_with_1(self):
        with tempfile.TemporaryDirectory() as folder:
            proto = pathlib.Path(folder, "proto", "maxsim", "v1", "a.proto")
            proto.parent.mkdir(parents=True)
            pathlib.Path(folder, "CMakeLists.txt").write_text(CMAKE)
            proto.write_text(PROTO)
            self.assertEqual(0, self.run_script("--root", folder, "--update").returncode)
            proto.write_text(PROTO.replace("string name", "bytes name"))
            done = self.run_script("--root", folder)
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertIn("Request 1: string name: is now bytes name", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
