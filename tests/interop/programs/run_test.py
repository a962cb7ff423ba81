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


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def ended(pid):
    try:
        return b"\nState:\tZ" in read_bytes("/proc/%d/status" % pid)
    except (FileNotFoundError, ProcessLookupError):
        return True


def uses_tree(pid, program):
    """Whether it runs this program, and has the tree's lock mapped."""
    maps = read_bytes("/proc/%d/maps" % pid)
    return b"verbatim-sysfs" in maps and b"/" + program in maps


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what the test waits for does not come")
        time.sleep(0.01)


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

    def test_memory_is_shared_where_it_is_asked_for(self):
        asks = ("--", "sh", "-c", "echo share=$VERBATIM_SOFTNIC_SHARE")
        self.environment.pop("VERBATIM_SOFTNIC_SHARE", None)
        self.assertEqual(self.run_it(*asks).stdout, "share=\n")
        self.assertEqual(self.run_it("--share-memory", *asks).stdout, "share=1\n")

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
        wait_until(lambda: ended(child))  # its lock is closed after its output
        self.age_tree()
        self.assertEqual(self.run_it("--", "true").returncode, 0)

    def age_tree(self):
        """The one that is there, as if it were an hour old."""
        (tree,) = self.left_behind()
        hour_ago = time.time() - 3600
        os.utime(os.path.join(self.directory.name, tree), (hour_ago, hour_ago))
        return tree

    def assert_next_run_leaves(self, trees):
        subprocess.run(self.command("--", "true"), timeout=PATIENCE, env=self.environment, check=True)
        self.assertEqual(self.left_behind(), trees)

    def test_a_tree_in_use_stays(self):
        process = self.start_sleeper()
        self.assert_next_run_leaves([self.age_tree()])
        process.terminate()
        process.communicate(timeout=PATIENCE)

    def test_a_tree_stays_while_a_program_uses_it_whose_launcher_was_killed(self):
        closes_all = "import os, time; os.closerange(3, 65536); print(os.getpid(), flush=True); time.sleep(60)"
        for program in (("sh", "-c", "echo $$; exec sleep 60"), ("python3", "-c", closes_all)):
            with self.subTest(program=program[0]):
                with subprocess.Popen(self.command("--", *program), text=True, stdout=subprocess.PIPE,
                                      env=self.environment) as process:
                    user = int(process.stdout.readline())
                    # Once it has become the other program, it is preloaded again.
                    last = b"sleep" if program[0] == "sh" else b"python3"
                    wait_until(lambda pid=user, name=last: uses_tree(pid, name))
                    process.kill()
                    process.wait(timeout=PATIENCE)
                    self.assert_next_run_leaves([self.age_tree()])
                    os.kill(user, signal.SIGKILL)
                    wait_until(lambda pid=user: ended(pid))
                self.assert_next_run_leaves([])

    def test_a_tree_stays_for_what_a_program_leaves_running(self):
        result = subprocess.run(self.command("--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & "
                                             "while ! grep -q verbatim-sysfs /proc/$!/maps; do :; done; echo $!"),
                                text=True, stdout=subprocess.PIPE, timeout=PATIENCE, env=self.environment,
                                check=True)
        user = int(result.stdout)
        self.assert_next_run_leaves([self.age_tree()])
        os.kill(user, signal.SIGKILL)
        wait_until(lambda: ended(user))
        self.assert_next_run_leaves([])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
