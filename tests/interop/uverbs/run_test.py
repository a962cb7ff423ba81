"""`verbatim softnic run`: programs find their devices, and nothing is left behind. Argument: the program."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

VERBATIM = os.path.abspath(sys.argv[1])
PATIENCE = 60


class Run(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(os.environ, TMPDIR=self.directory.name)

    def left_behind(self):
        return os.listdir(self.directory.name)

    def command(self, *arguments):
        return (VERBATIM, "softnic", "run") + arguments

    def run_it(self, *arguments):
        result = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=PATIENCE,
                                env=self.environment, check=False)
        self.assertEqual(self.left_behind(), [])
        return result

    def start_sleeper(self, hangup=signal.SIG_DFL):
        """A program that says when it runs, and then sleeps; whatever this one's caller ignores (nohup, a shell's &),
        it does not, but for SIGHUP where asked for."""
        def dispositions():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, hangup)

        # No thread of this process runs: preexec_fn is safe.
        process = subprocess.Popen(self.command("--", "sh", "-c", "echo up; exec sleep 60"), text=True,
                                   stdout=subprocess.PIPE, env=self.environment, preexec_fn=dispositions)
        self.assertEqual(process.stdout.readline(), "up\n")
        self.assertEqual(len(self.left_behind()), 1)
        return process

    def test_as_many_devices_as_asked_for(self):
        result = self.run_it("--devices", "3", "--", "ibv_devinfo", "-l")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), ["3", "HCAs", "found:", "mlx5_0", "mlx5_1", "mlx5_2"])

    def test_each_device_says_who_it_is(self):
        result = self.run_it("--devices", "2", "--", "ibv_devinfo", "-d", "mlx5_1")
        self.assertIn("0276:62ff:fe6d:0002", result.stdout)
        self.assertIn("PORT_ACTIVE", result.stdout)

    def test_exit_status_is_the_programs(self):
        self.assertEqual(self.run_it("--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.run_it("--", "sh", "-c", "kill -9 $$").returncode, 128 + signal.SIGKILL)

    def test_a_program_that_becomes_another_user_has_its_devices(self):
        if os.geteuid() != 0:
            self.skipTest("only root may become another user")
        os.chmod(self.directory.name, 0o755)
        result = self.run_it("--", "setpriv", "--reuid=65534", "--clear-groups", "ibv_devinfo", "-l")
        self.assertEqual(result.stdout.split(), ["1", "HCA", "found:", "mlx5_0"], result.stderr)

    def test_what_cannot_be_run_is_told(self):
        result = self.run_it("--", "no-such-program")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no-such-program: No such file", result.stderr)
        self.assertNotEqual(self.run_it("--devices", "17", "--", "true").returncode, 0)
        self.assertNotEqual(self.run_it().returncode, 0)

    def test_both_end_on_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number):
                process = self.start_sleeper()
                process.send_signal(number)
                process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 128 + number)
                self.assertEqual(self.left_behind(), [])

    def test_a_hangup_that_the_caller_ignores_ends_neither(self):
        process = self.start_sleeper(hangup=signal.SIG_IGN)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)  # the signals are taken in turn, SIGHUP first
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_what_a_killed_run_leaves_the_next_one_removes(self):
        process = self.start_sleeper()
        child = int(subprocess.run(("ps", "--ppid", str(process.pid), "-o", "pid="), capture_output=True, text=True,
                                   check=True).stdout)
        process.kill()
        os.kill(child, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
        (tree,) = self.left_behind()
        hour_ago = time.time() - 3600
        os.utime(os.path.join(self.directory.name, tree), (hour_ago, hour_ago))
        self.assertEqual(self.run_it("--", "true").returncode, 0)

    def test_a_tree_in_use_stays(self):
        process = self.start_sleeper()
        (tree,) = self.left_behind()
        hour_ago = time.time() - 3600
        os.utime(os.path.join(self.directory.name, tree), (hour_ago, hour_ago))
        subprocess.run(self.command("--", "true"), timeout=PATIENCE, env=self.environment, check=True)
        self.assertEqual(self.left_behind(), [tree])
        process.terminate()
        process.communicate(timeout=PATIENCE)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
