"""What the preloaded library exports, and nothing besides. Argument: the library."""
import os
import re
import subprocess
import sys
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
OWN = ("verbatim::uverbs::sysfs_root()", "verbatim::uverbs::park_new_devices(bool)",
       "verbatim::uverbs::set_new_device_traits(verbatim::uverbs::DeviceTraits const&)")


def exported():
    out = subprocess.run(("nm", "-DC", "--defined-only", LIBRARY), capture_output=True, text=True, check=True).stdout
    return [line.split(maxsplit=2)[1:] for line in out.splitlines()]


class Symbols(unittest.TestCase):
    def test_only_functions_are_exported_and_none_that_could_be_another_librarys(self):
        for kind, name in exported():
            with self.subTest(name=name):
                self.assertEqual(kind, "T")
                self.assertTrue(name in OWN or re.fullmatch(r"\w+", name))

    def test_none_has_a_version_so_that_each_takes_the_place_of_any(self):
        self.assertEqual([name for _, name in exported() if "@" in name], [])

    def test_what_is_taken_over_is_there(self):
        names = {name for _, name in exported()}
        for name in ("open", "write", "ioctl", "close", "dup2", "close_range", "__realpath_chk", "verbs_set_ops") + OWN:
            self.assertIn(name, names)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
