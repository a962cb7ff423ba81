"""Unmodified programs of rdma-core, two processes each, on the software NIC. Arguments: the library to preload."""
import glob
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
PATIENCE = 60
# perftest's programs need GID and say nothing else about the machine; they look at the CPU's frequency.
PERFTEST = ("-x", "0", "-F")


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


class Tools(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(os.environ, LD_PRELOAD=LIBRARY, TMPDIR=self.directory.name)

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

    def pingpong(self, tool, *options):
        self.assertIn("usec/iter", self.both(tool, "-g", "0", *options))

    def test_devinfo(self):
        out = self.finish(self.start("ibv_devinfo", "-v"))
        for text in ("mlx5_0", "PORT_ACTIVE", "Ethernet", "GID[  0]"):
            self.assertIn(text, out)

    def test_rc_pingpong(self):
        self.pingpong("ibv_rc_pingpong", "-c")

    def test_rc_pingpong_by_events(self):
        self.pingpong("ibv_rc_pingpong", "-c", "-e")

    def test_rc_pingpong_by_request_builder(self):
        self.pingpong("ibv_rc_pingpong", "-c", "-N")

    def test_rc_pingpong_with_timestamps(self):
        self.pingpong("ibv_rc_pingpong", "-c", "-t")

    def test_rc_pingpong_with_timestamps_by_events(self):
        self.pingpong("ibv_rc_pingpong", "-c", "-t", "-e")

    def test_rc_pingpong_of_a_megabyte(self):
        self.pingpong("ibv_rc_pingpong", "-c", "-s", "1048576", "-n", "100")

    def test_rc_pingpong_with_memory_on_demand(self):
        self.pingpong("ibv_rc_pingpong", "-c", "-o")
        self.pingpong("ibv_rc_pingpong", "-c", "-O")

    def test_srq_pingpong(self):
        self.pingpong("ibv_srq_pingpong")

    def test_srq_pingpong_by_events(self):
        self.pingpong("ibv_srq_pingpong", "-e")

    def test_uc_pingpong(self):
        self.pingpong("ibv_uc_pingpong", "-c")
        self.pingpong("ibv_uc_pingpong", "-c", "-e")

    def test_ud_pingpong(self):
        self.pingpong("ibv_ud_pingpong", "-c")
        self.pingpong("ibv_ud_pingpong", "-c", "-e")

    def test_latencies(self):
        for tool in ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_atomic_lat"):
            with self.subTest(tool=tool):
                self.both(tool, *PERFTEST)

    def test_latencies_by_events(self):
        for options in (("ib_send_lat",), ("ib_send_lat", "-c", "UD"), ("ib_send_lat", "-c", "UC"), ("ib_read_lat",),
                        ("ib_atomic_bw",)):
            with self.subTest(options=options):
                self.both(options[0], *PERFTEST, "-e", *options[1:])

    def test_bandwidths(self):
        for options in (("ib_send_bw",), ("ib_write_bw",), ("ib_read_bw",), ("ib_atomic_bw",),
                        ("ib_write_bw", "-q", "8"), ("ib_send_bw", "-q", "4", "-b"), ("ib_write_bw", "-b"), ("ib_send_bw", "-r", "16", "-s", "1024"),
                        ("ib_send_bw", "-e", "-n", "500")):
            with self.subTest(options=options):
                self.both(options[0], *PERFTEST, *options[1:])

    def test_unreliable_transports(self):
        for options in (("ib_send_lat", "-c", "UD"), ("ib_send_bw", "-c", "UD"), ("ib_send_lat", "-c", "UC"),
                        ("ib_write_bw", "-c", "UC")):
            with self.subTest(options=options):
                self.both(options[0], *PERFTEST, *options[1:])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
