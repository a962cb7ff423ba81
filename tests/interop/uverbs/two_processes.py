"""Unmodified programs on the software NIC, server and client as two processes of this machine."""
import glob
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

PATIENCE = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def listens(port):
    """Whether somebody listens there, asked without connecting: the tools take one caller only."""
    wanted = ":%04X" % int(port)
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            if any(line.split()[1].endswith(wanted) and line.split()[3] == "0A" for line in lines.readlines()[1:]):
                return True
    return False


class TwoProcesses(unittest.TestCase):
    """Programs with the library preloaded, which leave nothing behind."""
    library = None  # set by the test's main part
    variables = {}  # more environment

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(os.environ, LD_PRELOAD=self.library, TMPDIR=self.directory.name,
                                **self.variables)

    def start(self, *command):
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=self.environment)

    def finish(self, process):
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            self.fail("no end: %s\n%s" % (process.args, out))
        self.assertEqual(process.returncode, 0, "%s\n%s" % (process.args, out))
        return out

    def both(self, tool, *options):
        """Server and client of one tool; both must end well and leave nothing behind."""
        if shutil.which(tool) is None:
            self.skipTest(tool + " is not installed")
        before = set(glob.glob("/dev/shm/*"))
        port = free_port()
        server = self.start(tool, "-p", port, *options)
        deadline = time.monotonic() + PATIENCE
        while not listens(port) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        client = self.start(tool, "-p", port, *options, "127.0.0.1")
        out = self.finish(client)
        self.finish(server)
        self.assertEqual(set(glob.glob("/dev/shm/*")) - before, set())
        self.assertEqual(os.listdir(self.directory.name), [])
        return out
