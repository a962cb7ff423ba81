"""Unmodified programs of librdmacm, two processes each, on the software NIC. Arguments: the library to preload."""
import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
PATIENCE = 60
LONG = "VERBATIM_LONG" in os.environ
TCP, UDP, IB = "106", "111", "13f"  # port spaces
RSOCKETS = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"


def own_address():
    """One that other hosts would use, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("198.51.100.1", 9))
        return probe.getsockname()[0]
    return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def listens(port, space):
    """Whether an identifier listens there: its socket takes connections."""
    wanted = "@verbatim-rdmacm-%d-%s-%s-" % (os.geteuid(), space, port)
    with open("/proc/net/unix", encoding="ascii") as lines:
        return any(wanted in line and line.split()[3] == "00010000" for line in lines)


def tcp_listens(port):
    wanted = ":%04X" % int(port)
    with open("/proc/net/tcp6", encoding="ascii") as six, open("/proc/net/tcp", encoding="ascii") as four:
        lines = six.readlines()[1:] + four.readlines()[1:]
    return any(line.split()[1].endswith(wanted) and line.split()[3] == "0A" for line in lines)


class CmTools(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(os.environ, LD_PRELOAD=LIBRARY, TMPDIR=self.directory.name)

    def start(self, *command):
        if shutil.which(command[0]) is None:
            self.skipTest(command[0] + " is not installed")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=self.environment)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_server(self, is_up, *command):
        server = self.start(*command)
        deadline = time.monotonic() + PATIENCE
        while not is_up() and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertTrue(is_up(), command)
        return server

    def finish(self, process, status=0):
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            self.fail("no end: %s\n%s" % (process.args, out))
        self.assertEqual(process.returncode, status, "%s\n%s" % (process.args, out))
        return out

    def both(self, server, client):
        """Both must end well and leave nothing behind; what both said."""
        port = free_port()
        return self.both_at(port, TCP, server + ("-p", port), client + ("-p", port))

    def both_at(self, port, space, server, client):
        serving = self.start_server(lambda: listens(port, space), *server)
        out = self.finish(self.start(*client))
        out += self.finish(serving)
        self.assertEqual(os.listdir(self.directory.name), [])
        return out

    def addresses(self):
        """Of this host, each with what a server binds for it."""
        yield "127.0.0.1", ()
        yield "::1", ("::",)
        if own_address():
            yield own_address(), ()

    def test_rping(self):
        for address, bound in self.addresses():
            with self.subTest(address=address):
                wildcard = ("-a",) + bound if bound else ()
                out = self.both(("rping", "-s", "-V", "-v", "-C", "10", *wildcard),
                                ("rping", "-c", "-V", "-v", "-C", "10", "-a", address))
                self.assertEqual(out.count("ping data: rdma-ping-9"), 2)

    def test_ucmatose(self):
        for address, bound in self.addresses():
            with self.subTest(address=address):
                wildcard = ("-b",) + bound if bound else ()
                out = self.both(("ucmatose", "-c", "8", *wildcard), ("ucmatose", "-c", "8", "-s", address))
                self.assertEqual(out.count("return status 0"), 2)

    def test_udaddy(self):
        port = "7174"  # it has no option for that
        for address, bound in self.addresses():
            with self.subTest(address=address):
                wildcard = ("-b",) + bound if bound else ()
                out = self.both_at(port, UDP, ("udaddy", "-c", "2", *wildcard), ("udaddy", "-c", "2", "-s", address))
                self.assertEqual(out.count("return status 0"), 2)

    def test_rdma_client(self):
        out = self.both(("rdma_server",), ("rdma_client", "-s", "127.0.0.1"))
        self.assertIn("rdma_client: end 0", out)
        self.assertIn("rdma_server: end 0", out)

    def test_rdma_xclient(self):
        self.assertIn("end 0", self.both(("rdma_xserver",), ("rdma_xclient", "-s", "127.0.0.1")))

    def test_rdma_xclient_over_xrc(self):
        port = free_port()
        out = self.both_at(port, IB, ("rdma_xserver", "-c", "x", "-p", port),
                           ("rdma_xclient", "-c", "x", "-p", port, "-s", "127.0.0.1"))
        self.assertIn("rdma_xclient: end 0", out)
        self.assertIn("rdma_xserver: end 0", out)

    def test_rstream(self):
        for options in (("-S", "64"), ("-S", "4096", "-T", "v"), ("-S", "65536", "-T", "b", "-T", "v"),
                        ("-S", "65536", "-T", "n"), ("-S", "1048576", "-C", "100", "-T", "v"),
                        ("-S", "4096", "-T", "r")):
            with self.subTest(options=options):
                self.both(("rstream", *options), ("rstream", *options, "-s", "127.0.0.1"))
        self.both(("rstream", "-S", "4096", "-b", "::"), ("rstream", "-S", "4096", "-s", "::1"))

    @unittest.skipUnless(LONG, "takes a minute")
    def test_rstream_of_all_sizes(self):
        self.both(("rstream", "-S", "all"), ("rstream", "-S", "all", "-s", "127.0.0.1"))

    def test_riostream(self):
        self.both(("riostream", "-S", "65536"), ("riostream", "-S", "65536", "-s", "127.0.0.1"))

    def test_rcopy(self):
        port = free_port()
        source, copy = (os.path.join(self.directory.name, name) for name in ("source", "copy"))
        with open(source, "wb") as out:
            out.write(os.urandom(3000000))
        server = self.start_server(lambda: listens(port, TCP), "rcopy", "-p", port)
        self.finish(self.start("rcopy", source, "127.0.0.1:" + copy, "-p", port))
        server.terminate()  # it serves for ever
        self.finish(server, -signal.SIGTERM)
        with open(source, "rb") as one, open(copy, "rb") as other:
            self.assertEqual(hashlib.sha1(one.read()).digest(), hashlib.sha1(other.read()).digest())

    def test_cmtime(self):
        port = free_port()
        server = self.start_server(lambda: listens(port, TCP), "cmtime", "-c", "50", "-p", port)
        out = self.finish(self.start("cmtime", "-c", "50", "-s", "127.0.0.1", "-p", port))
        server.terminate()  # it serves for ever
        self.finish(server, -signal.SIGTERM)
        self.assertRegex(out, "disconnect *:")

    def test_netcat_over_rsockets(self):
        self.environment["LD_PRELOAD"] = LIBRARY + ":" + RSOCKETS
        port = free_port()
        source = os.path.join(self.directory.name, "source")
        with open(source, "wb") as out:
            out.write(os.urandom(300000))
        server = self.start_server(lambda: listens(port, TCP), "sh", "-c",
                                   "exec nc.traditional -l -p %s | sha1sum" % port)
        self.assertFalse(tcp_listens(port))
        self.finish(self.start("sh", "-c", "exec nc.traditional -q 1 127.0.0.1 %s <%s" % (port, source)))
        with open(source, "rb") as sent:
            self.assertIn(hashlib.sha1(sent.read()).hexdigest(), self.finish(server))

    def test_iperf_over_rsockets(self):
        self.environment["LD_PRELOAD"] = LIBRARY + ":" + RSOCKETS
        port = free_port()
        server = self.start_server(lambda: listens(port, TCP), "iperf", "-s", "-P", "1", "-p", port)
        self.assertFalse(tcp_listens(port))
        self.assertIn("bits/sec", self.finish(self.start("iperf", "-c", "127.0.0.1", "-p", port, "-n", "20M")))
        self.assertIn("20.0 MBytes", self.finish(server))

    def test_perftest(self):
        for tool in (("ib_send_lat",), ("ib_write_bw",), ("ib_read_lat",),
                     ("ib_write_bw", "-q", "4")):
            with self.subTest(tool=tool):
                port = free_port()
                command = tool + ("-R", "-F", "-n", "500", "-p", port)
                # They tell each other over TCP when to meet.
                server = self.start_server(lambda: tcp_listens(port) or listens(port, TCP), *command)
                self.assertIn("#bytes", self.finish(self.start(*command, "127.0.0.1")))
                self.finish(server)

    def test_a_killed_client_is_noticed_by_the_server(self):
        port = free_port()
        server = self.start_server(lambda: listens(port, TCP), "rping", "-s", "-v", "-p", port)
        client = self.start("rping", "-c", "-v", "-a", "127.0.0.1", "-p", port)
        while "rdma-ping" not in client.stdout.readline():
            self.assertIsNone(client.poll())
        client.kill()
        # Its event or the error of a request under way, whichever rping sees first.
        self.assertRegex(server.communicate(timeout=PATIENCE)[0], "DISCONNECT EVENT|completion failed status 12")

    def test_nobody_listens(self):
        client = self.start("rping", "-c", "-C", "1", "-a", "127.0.0.1", "-p", free_port())
        out, _ = client.communicate(timeout=PATIENCE)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error 8", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
