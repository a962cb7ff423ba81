"""`verbatim softnic run --config`: what the file says, programs see. Arguments: the program, the example file."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from two_processes import free_port, listens

VERBATIM, EXAMPLE = (os.path.abspath(argument) for argument in sys.argv[1:3])
PATIENCE = 60


class RunConfig(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        temporary = os.path.join(self.directory.name, "tmp")
        os.mkdir(temporary)
        self.environment = dict(os.environ, TMPDIR=temporary)

    def config(self, text, name="x.toml"):
        path = os.path.join(self.directory.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, config, *command):
        return subprocess.Popen((VERBATIM, "softnic", "run", "--config", config, "--") + command, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment)

    def run_it(self, text, *command):
        process = self.start(self.config(text), *command)
        out, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, out

    def finish(self, process, ends):
        if not ends:  # waits for what its peer will not send
            process.terminate()
        try:
            return process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            self.fail("no end: %s\n%s" % (process.args, process.communicate(timeout=PATIENCE)[0]))

    def both(self, config, tool, *options, server_ends=True):
        """Status and words of the client, which has the configuration, and of the server, which has none."""
        port = free_port()
        server = self.start(self.config("", "server.toml"), tool, "-p", port, "-g", "0", *options)
        deadline = time.monotonic() + PATIENCE
        while not listens(port) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        client = self.start(config, tool, "-p", port, "-g", "0", *options, "127.0.0.1")
        out = self.finish(client, True)
        return client.returncode, out, self.finish(server, server_ends)

    def test_the_example_runs_and_its_data_are_right(self):
        for tool in ("ibv_rc_pingpong", "ibv_srq_pingpong"):
            status, out, _ = self.both(EXAMPLE, tool, "-n", "200")
            self.assertEqual(status, 0, out)
            self.assertIn("usec/iter", out)

    def test_the_example_shows_every_key(self):
        with open(EXAMPLE, encoding="utf-8") as file:
            text = file.read()
        for section, key in (("devices", "count"), ("devices", "mtu"), ("engine", "ring_bytes"), ("engine", "doorbells"), ("memory", "share"),
                             ("connections", "timeout"), ("packets", "faults"), ("log", "level")):
            self.assertRegex(text, r"(?ms)^\[%s\].*^%s = " % (section, key))
        for key in ("action", "operations", "nth", "times", "rate", "seed", "delay_us", "syndrome", "payload"):
            self.assertRegex(text, r"(?m)^#.*\b%s\b" % key)

    def test_devices_are_as_many_as_the_file_says_but_the_option_counts_more(self):
        _, out = self.run_it("[devices]\ncount = 2\n", "ibv_devinfo", "-l")
        self.assertEqual(out.split()[:1], ["2"])
        out = subprocess.run((VERBATIM, "softnic", "run", "--devices", "3", "--config",
                              self.config("[devices]\ncount = 2\n"), "--", "ibv_devinfo", "-l"), text=True,
                             stdout=subprocess.PIPE, timeout=PATIENCE, env=self.environment, check=True).stdout
        self.assertEqual(out.split()[:1], ["3"])

    def test_settings_reach_the_program(self):
        status, out = self.run_it("[engine]\nring_bytes = '1M'\ndoorbells = 'nap'\n[connections]\ntimeout = '2s'\n"
                                  "[log]\nlevel = 'info'\n[memory]\nshare = true\n"
                                  "[packets]\nfaults = 'lose=0.1'\n[[fault]]\naction = 'kill'\nnth = 4\n",
                                  "sh", "-c", "env | grep VERBATIM")
        self.assertEqual(status, 0, out)
        for line in ("VERBATIM_SOFTNIC_RING_BYTES=1048576", "VERBATIM_SOFTNIC_DOORBELLS=nap",
                     "VERBATIM_SOFTNIC_CM_TIMEOUT_MS=2000", "VERBATIM_LOG=info", "VERBATIM_SOFTNIC_SHARE=1",
                     "VERBATIM_SOFTNIC_PACKET_FAULTS=lose=0.1",
                     "VERBATIM_SOFTNIC_FAULTS=kill operations=send,write,read,atomic nth=4 times=1"):
            self.assertIn(line + "\n", out)

    def test_the_smallest_ring_carries_datagrams_and_long_messages(self):
        small = self.config("[engine]\nring_bytes = '4K'\n")
        for tool, size in (("ibv_ud_pingpong", "2048"), ("ibv_rc_pingpong", "100000")):
            status, out, _ = self.both(small, tool, "-c", "-n", "200", "-s", size)
            self.assertEqual(status, 0, out)

    def test_mistakes_are_named_with_their_line(self):
        for text, said in (
                ("[devices]\ncuont = 1\n", "x.toml:2: unknown key cuont in [devices]; did you mean count?"),
                ("\n[engines]\n", "x.toml:2: unknown section [engines]; did you mean engine?"),
                ("[zzzzzzzzzzzz]\n", "known are: devices, engine, memory, connections, packets, log, fault"),
                ("[devices]\ncount = 17\n", "x.toml:2: count = 17 in [devices] is not allowed; it must be a number"),
                ("[devices]\nmtu = 1500\n", "it must be 256, 512, 1024, 2048 or 4096"),
                ("[engine]\nring_bytes = 5000\n", "it must be a size from 4K to 1G"),
                ("[engine]\ndoorbells = 'spin'\n", "it must be \"trap\" or \"nap\""),
                ("[connections]\ntimeout = '1500us'\n", "whole milliseconds"),
                ("[packets]\nfaults = 'lose=2'\n", "it must be a text such as"),
                ("[memory]\nshare = 1\n", "it must be true or false"),
                ("engine = 3\n", "x.toml:1: engine is a section, not a value; write [engine]"),
                ("[fault]\naction = 'drop'\n", "x.toml:1: fault is a list of sections; write [[fault]]"),
                ("[[fault]]\nnth = 1\n", "x.toml:1: [[fault]] has no action"),
                ("[[fault]]\naction = 'drop'\n\nnht = 1\n", "x.toml:4: unknown key of a fault, nht; did you mean nth?"),
                ("[[fault]]\naction = 'drop'\noperations = ['sned']\nnth = 1\n", "x.toml:3: unknown operation sned"),
                ("[[fault]]\naction = 'drop'\n", "x.toml:1: drop: when it strikes is not said"),
                ("[devices\n", "x.toml:1"),
        ):
            with self.subTest(text=text):
                status, out = self.run_it(text, "true")
                self.assertEqual(status, 1)
                self.assertIn(said, out)
        process = self.start("/nonexistent", "true")
        self.assertIn("/nonexistent: cannot read", process.communicate(timeout=PATIENCE)[0])

    def test_a_failure_is_the_programs_completion(self):
        status, out, _ = self.both(self.config("[[fault]]\naction = 'fail'\nnth = 5\nsyndrome = 'remote_access'\n"),
                                   "ibv_rc_pingpong", server_ends=False)
        self.assertNotEqual(status, 0)
        self.assertIn("remote access error", out)

    def test_a_loss_is_repaired_and_costs_time(self):
        # Timeout 14 of pingpong is 67 ms.
        status, out, _ = self.both(self.config("[[fault]]\naction = 'drop'\nnth = 5\ntimes = 4\n"), "ibv_rc_pingpong",
                                   "-n", "10", "-c")
        self.assertEqual(status, 0, out)
        seconds = float(re.search(r"iters in ([0-9.]+) seconds", out).group(1))
        self.assertGreater(seconds, 0.26)

    def test_programs_that_sleep_go_on_after_a_loss_and_a_delay(self):
        config = self.config("[[fault]]\naction = 'drop'\nnth = 3\n[[fault]]\naction = 'delay'\nnth = 5\ndelay_us = 20000\n")
        status, out, _ = self.both(config, "ibv_rc_pingpong", "-n", "10", "-c", "-e")
        self.assertEqual(status, 0, out)
        self.assertGreater(float(re.search(r"iters in ([0-9.]+) seconds", out).group(1)), 0.08)

    def test_what_is_always_lost_is_retry_exceeded(self):
        # Eight tries.
        status, out, _ = self.both(self.config("[[fault]]\naction = 'drop'\nrate = 1\n"), "ibv_rc_pingpong",
                                   server_ends=False)
        self.assertNotEqual(status, 0)
        self.assertIn("transport retry counter exceeded", out)

    def test_damage_that_arrives_is_seen_by_the_program(self):
        config = self.config("[[fault]]\naction = 'corrupt'\noperations = 'send'\nnth = 1\npayload = true\n")
        _, _, server = self.both(config, "ibv_rc_pingpong", "-n", "1", "-c")
        self.assertIn("invalid data in page", server)

    def test_a_kill_is_a_kill_and_leaves_nothing_behind(self):
        status, out, _ = self.both(self.config("[[fault]]\naction = 'kill'\nnth = 7\n"), "ibv_rc_pingpong",
                                   server_ends=False)
        self.assertEqual(status, 128 + signal.SIGKILL, out)
        self.assertIn("a fault policy kills this process", out)
        self.assertEqual(os.listdir(self.environment["TMPDIR"]), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
