"""Tests that the manylinux tag of a folder of programs follows from the symbol versions that its ELF files need.

python manylinux_test.py BUILD_FOLDER
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "packages"))
import manylinux  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()


class OldestGlibcTest(unittest.TestCase):
    def test_is_the_newest_version_of_glibc_that_a_file_asks_for(self):
        self.assertEqual(manylinux.oldest_glibc({"GLIBC": ((2, 34), "a")}), 34)
        self.assertEqual(manylinux.oldest_glibc({"GLIBC": ((2, 36), "a")}), 36)
        self.assertEqual(manylinux.oldest_glibc({"GLIBC": ((2, 2, 5), "a")}), 34)

    def test_goes_up_with_the_versions_of_gccs_libraries(self):
        for version, expected in ((29, 34), (30, 35), (31, 39), (33, 39)):
            newest = {"GLIBC": ((2, 34), "a"), "GLIBCXX": ((3, 4, version), "a")}
            self.assertEqual(manylinux.oldest_glibc(newest), expected, version)
        self.assertEqual(manylinux.oldest_glibc({"GCC": ((12, 0, 0), "a")}), 35)

    def test_is_none_for_a_version_that_no_known_platform_has(self):
        with self.assertRaisesRegex(manylinux.NotManylinux, "no known platform"):
            manylinux.oldest_glibc({"GLIBC": ((2, 34), "a"), "GLIBCXX": ((3, 4, 34), "a")})

    def test_knows_packed_relocations(self):
        self.assertEqual(manylinux.parse_version("GLIBC", "ABI_DT_RELR"), (2, 36))
        with self.assertRaisesRegex(manylinux.NotManylinux, "GLIBC_PRIVATE"):
            manylinux.parse_version("GLIBC", "PRIVATE")


class BundleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-manylinux-")
        cls.addClassCleanup(temporary.cleanup)
        cls.bundle = pathlib.Path(temporary.name) / "bundle"
        subprocess.run([ROOT / "scripts" / "bundle.sh", "--manylinux", BUILD, cls.bundle], check=True)

    def test_asks_for_no_newer_glibc_than_this_machine_has(self):
        here = subprocess.run(["getconf", "GNU_LIBC_VERSION"], check=True, capture_output=True, text=True).stdout
        version, name = manylinux.needed_versions(self.bundle)["GLIBC"]
        self.assertLessEqual(version, tuple(map(int, here.split()[1].split("."))), name)

    def test_is_refused_when_a_library_is_missing(self):
        library = next(path for path in (self.bundle / "lib").iterdir() if path.name.startswith("libprotobuf.so"))
        hidden = library.rename(self.bundle.parent / library.name)
        self.addCleanup(shutil.move, hidden, library)
        with self.assertRaisesRegex(manylinux.NotManylinux, f"needs {library.name}"):
            manylinux.platform_tag(self.bundle)

    def test_has_the_tag_of_the_machine_that_its_files_are_for(self):
        library = next(path for path in (self.bundle / "lib").iterdir() if path.name.startswith("libz.so"))
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "lib").mkdir()
            copies = [pathlib.Path(folder) / "lib" / name for name in ("a.so", "b.so")]

            def tag(*machines):
                for copy, machine in zip(copies, machines):
                    content = bytearray(library.read_bytes())
                    content[18:20] = machine.to_bytes(2, "little")
                    copy.write_bytes(content)
                return manylinux.platform_tag(folder)

            self.assertRegex(tag(62, 62), r"^manylinux_2_\d+_x86_64$")
            self.assertRegex(tag(183, 183), r"^manylinux_2_\d+_aarch64$")
            with self.assertRaisesRegex(manylinux.NotManylinux, "a.so and b.so are for different machines"):
                tag(62, 183)
            with self.assertRaisesRegex(manylinux.NotManylinux, "b.so is for the machine 243"):
                tag(62, 243)

    def test_is_refused_when_it_is_empty(self):
        with tempfile.TemporaryDirectory() as empty, self.assertRaisesRegex(manylinux.NotManylinux, "no programs"):
            manylinux.platform_tag(empty)


if __name__ == "__main__":
    unittest.main(verbosity=2)
