"""`verbatim softnic info`: what is told of running programs, and nothing of those that ended. Argument: the program."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from two_processes import free_port, listens

VERBATIM = os.path.abspath(sys.argv[1])
PATIENCE = 60


class Info(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(os.environ, TMPDIR=self.directory.name)

    def start(self, *command):
        process = subprocess.Popen((VERBATIM, "softnic", "run", "--") + command, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=self.environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def info(self, *options, **more):
        return subprocess.run((VERBATIM, "softnic", "info") + options, capture_output=True, text=True,
                              timeout=PATIENCE, check=True, **more).stdout

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.02)
        return self.fail(what)

    def mine(self, launchers):
        """What is told of the programs that these launchers have started."""
        parents = {launcher.pid for launcher in launchers}
        devices = json.loads(self.info("--json"))["devices"]
        return [device for device in devices if self.parent(device["process"]) in parents]

    @staticmethod
    def parent(process):
        try:
            with open("/proc/%d/stat" % process, encoding="ascii") as file:
                return int(file.read().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return 0

    def start_pingpong(self, program="ibv_rc_pingpong", size=4096):
        port = free_port()
        command = (program, "-p", port, "-g", "0", "-n", "1000000000", "-s", str(size))
        server = self.start(*command)
        self.until(lambda: listens(port), "the server does not listen")
        client = self.start(*command, "127.0.0.1")

        def both_run():
            devices = self.mine((server, client))
            counts = [pair["messages"] for device in devices for pair in device["queue_pairs"]]
            return devices if len(counts) == 2 and min(counts) > 100 else None
        return server, client, self.until(both_run, "no messages are counted")

    def test_a_pingpong_is_seen_with_its_peer_and_its_counters_move(self):
        server, client, devices = self.start_pingpong()
        pairs = [device["queue_pairs"][0] for device in devices]
        self.assertEqual([device["program"] for device in devices], ["ibv_rc_pingpong"] * 2)
        self.assertEqual([device["name"] for device in devices], ["mlx5_0"] * 2)
        self.assertEqual([pair["peer"] for pair in pairs], [pair["number"] for pair in reversed(pairs)])
        for pair in pairs:
            self.assertEqual((pair["transport"], pair["state"], pair["faults"]), ("RC", "RTS", {}))
            self.assertGreater(pair["requests"], 50)

        def moved():
            later = {pair["number"]: pair for device in self.mine((server, client)) for pair in device["queue_pairs"]}
            return all(later[pair["number"]]["requests"] > pair["requests"] for pair in pairs)
        self.until(moved, "the counters stand still")
        text = self.info()
        for device, pair in zip(devices, pairs):
            self.assertIn("mlx5_0 of process %d (ibv_rc_pingpong), 1 queue pair\n" % device["process"], text)
            self.assertRegex(text, r"(?m)^  %d +RC +RTS +%d " % (pair["number"], pair["peer"]))

    def assert_payload_is_counted(self, program, size):
        _, _, devices = self.start_pingpong(program, size)
        slack = 1000 * size  # counters are read one after the other
        for pair in (pair for device in devices for pair in device["queue_pairs"]):
            self.assertAlmostEqual(pair["bytes_received"], pair["messages"] * size, delta=slack)
            self.assertAlmostEqual(pair["bytes_sent"], pair["requests"] * size, delta=slack)
            self.assertEqual((pair["bytes_received"] % size, pair["bytes_sent"] % size), (0, 0))

    def test_payload_is_counted_on_both_sides(self):
        self.assert_payload_is_counted("ibv_rc_pingpong", 3000)

    def test_payload_of_datagrams_is_counted_without_their_headers(self):
        self.assert_payload_is_counted("ibv_ud_pingpong", 1000)

    def test_nothing_is_told_of_a_program_that_was_killed(self):
        _, client, devices = self.start_pingpong()
        (process,) = (d["process"] for d in devices if self.parent(d["process"]) == client.pid)
        os.kill(process, signal.SIGKILL)
        client.wait(PATIENCE)
        self.assertNotIn("process %d " % process, self.info())

    def test_a_stopped_program_is_told_as_one(self):
        server, client, devices = self.start_pingpong()
        process = devices[0]["process"]
        os.kill(process, signal.SIGSTOP)
        try:
            stopped = [d["answers"] for d in self.mine((server, client)) if d["process"] == process]
            self.assertEqual(stopped, [False])
            self.assertIn("does not answer", self.info())
        finally:
            os.kill(process, signal.SIGCONT)

    def test_other_users_see_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        _, _, devices = self.start_pingpong()
        # A copy, because the build may lie where that user may not go.
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            copy = os.path.join(directory, "verbatim")
            with open(VERBATIM, "rb") as source, open(copy, "wb") as target:
                target.write(source.read())
            os.chmod(copy, 0o755)
            told = subprocess.run((copy, "softnic", "info"), capture_output=True, text=True, timeout=PATIENCE,
                                  check=True, user=65534, cwd="/").stdout
        for device in devices:
            self.assertNotIn("process %d " % device["process"], told)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
