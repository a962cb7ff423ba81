"""`verbatim config`: the texts made from the table of keys, files, the environment. Arguments: the program, the root."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

VERBATIM, SOURCE = (os.path.abspath(argument) for argument in sys.argv[1:3])
CONFIGS = os.path.join(SOURCE, "configs")


class Config(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("VERBATIM_")}

    def write(self, text, name="verbatim.toml"):
        path = os.path.join(self.directory.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_it(self, *options, **variables):
        return subprocess.run((VERBATIM, "config") + options, capture_output=True, text=True, timeout=60, check=False,
                              cwd=self.directory.name, env=dict(self.environment, **variables))

    def said(self, *options, **variables):
        done = self.run_it(*options, **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refused(self, *options, **variables):
        done = self.run_it(*options, **variables)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def assert_stored(self, path, text):
        with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
            self.assertEqual(file.read(), text, "store what the command prints as %s" % path)

    def test_the_shipped_file_and_page_are_made_by_the_command(self):
        self.assert_stored("configs/verbatim.toml", self.said("--toml"))
        self.assert_stored("docs/configuration.md", self.said("--markdown"))

    def test_shipped_files_are_good(self):
        names = [name for name in sorted(os.listdir(CONFIGS)) if name != "softnic.toml"]  # of another program
        for name in ("laptop", "latency", "throughput", "many-connections", "server"):
            self.assertIn(name + ".toml", names)
        for name in names:
            path = os.path.join(CONFIGS, name)
            self.assertEqual(self.said("--check", path), path + ": ok\n")

    def test_every_key_is_in_the_page_the_help_and_the_explanations(self):
        page, overview = self.said("--markdown"), self.said("--help")
        keys = [line.split()[0] for line in overview.splitlines() if line.startswith("  ") and "." in line.split()[0]]
        self.assertGreater(len(keys), 40)
        for key in keys:
            section, name = key.rsplit(".", 1)
            part_of_page = re.split(r"\n## \[+%s\]+\n" % re.escape(section), page)[1].split("\n## ")[0]
            self.assertIn("\n| `%s` | " % name, part_of_page)
            explained = self.said(key)
            self.assertTrue(explained.startswith(key + "\n"), explained)
            for part in ("allowed", "default", "environment"):
                self.assertIn("\n  %s " % part, explained)
            self.assertIn(explained, self.said(section))

    def test_a_key_is_found_by_its_variable(self):
        self.assertEqual(self.said("VERBATIM_DEVICE_SOFTNIC_PORT"), self.said("device.softnic.port"))
        self.assertIn('"auto", "shm", "tcp", "udp" or "dpdk:<device>"', self.said("device.softnic.port"))
        self.assertIn("none: the section is one of a list", self.said("poller.core"))
        self.assertIn("none: it must be given", self.said("named_arena.name"))

    def test_unknown_names_get_the_nearest_one(self):
        self.assertIn("did you mean ring.bytes?", self.refused("ring.bites"))
        self.assertIn("did you mean VERBATIM_RING_BYTES?", self.refused("VERBATIM_RING_BITES"))
        self.assertIn("did you mean poller?", self.refused("pollr"))

    def test_the_configuration_in_effect_names_the_place_of_each_value(self):
        self.assertIn("# No configuration file; defaults and the environment.\n", self.said())
        self.write("[ring]\nbytes = '8K'\n[[poller]]\ncore = 1\n[[poller]]\nname = 'b'\n")
        text = self.said(VERBATIM_RING_SEND_BLOCKS="128")
        lines = [" ".join(line.split()) for line in text.splitlines()]
        for line in ("# verbatim.toml and the environment.", 'bytes = "8K" # verbatim.toml:2',
                     "send_blocks = 128 # VERBATIM_RING_SEND_BLOCKS", "core = 1 # verbatim.toml:4",
                     'name = "b" # verbatim.toml:6', "core = -1", 'longest_message = "16M"'):
            self.assertIn(line, lines)
        self.assertEqual(lines.count("[[poller]]"), 2)

    def test_what_it_prints_is_a_file_that_means_the_same(self):
        self.write("[device]\nname = 'a \"b\" \\'\n[arena]\npages = '4K'\n[[named_arena]]\nname = 'x'\n[[poller]]\ncore = 1\n"
                   "[[fault]]\naction = 'drop'\noperations = ['send', 'write']\nnth = 5\ntimes = 2\n"
                   "[[fault]]\naction = 'delay'\nrate = 0.01\nseed = 7\ndelay_us = 500\n")
        first = self.said(VERBATIM_LANE_SPIN="5us")
        self.assertIn('operations = "send,write"\n', first)
        second = self.said(VERBATIM_CONFIG=self.write(first, "again.toml"))
        without_places = [[line.split("  #")[0].rstrip() for line in text.splitlines()[1:]] for text in (first, second)]
        self.assertEqual(without_places[0], without_places[1])

    def test_a_check_is_of_the_file_alone(self):
        good, bad = self.write("[ring]\nbytes = '8K'\n", "good.toml"), self.write("[ring]\nbites = '8K'\n", "bad.toml")
        self.assertEqual(self.said("--check", good, VERBATIM_RING_BYTES="5", VERBATIM_LANE_X="1"), good + ": ok\n")
        self.assertIn(bad + ":2: unknown key bites in [ring]; did you mean bytes?", self.refused("--check", bad))
        self.assertIn("/nonexistent: cannot read", self.refused("--check", "/nonexistent"))
        self.assertIn("is taken, at", self.refused("--check", self.write("[[named_arena]]\nname = 'a'\n" * 2)))
        self.assertIn("it strikes", self.refused("--check", self.write("[[fault]]\naction = 'drop'\n")))

    def test_mistakes_of_the_environment_are_said(self):
        self.assertIn('VERBATIM_RING_BYTES: its value "5" is not allowed; it must be a size from 4K to 64M, a power of two',
                      self.refused(VERBATIM_RING_BYTES="5"))
        self.assertIn("did you mean VERBATIM_RING_BYTES?", self.refused(VERBATIM_RING_BITES="4K"))
        self.assertIn("VERBATIM_DEVICE_NAME: its value is no UTF-8", self.refused(VERBATIM_DEVICE_NAME=b"mlx5_\xff"))

    def test_one_question_at_a_time(self):
        done = self.run_it("ring.bytes", "--toml")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--help", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
