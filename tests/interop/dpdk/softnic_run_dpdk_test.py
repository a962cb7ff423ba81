"""`verbatim softnic run --port dpdk:...`: unmodified programs, one at each end of a memif, or refused with a remedy."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

VERBATIM = os.path.abspath(sys.argv[1])
PATIENCE = 60
GID = "3"  # the place of the address as RoCE v2
IPV4, IPV6 = ("10.9.0.1", "10.9.0.2"), ("2001:db8::1", "2001:db8::2")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    lines = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            with open(table, encoding="ascii") as file:
                lines += [line.split() for line in file.readlines()[1:]]
    return any(line[3] == "0A" and line[1].endswith(":%04X" % port) for line in lines)


def start(*arguments):
    return subprocess.Popen([VERBATIM, "softnic", "run", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


class OverMemif(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.socket = None  # of the present pair

    def begin(self, role, address, *command, options=()):
        device = f"dpdk:net_memif0,role={role},socket={self.socket},socket-abstract=no"
        process = start("--port", device, "--address", address, *options, "--", *command)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        return process

    def end(self, process):
        out, _ = process.communicate(timeout=PATIENCE)
        if "probe" in out and "librte-net-" in out:
            self.skipTest(f"DPDK has no memif here (package librte-net-memif23): {out.strip()}")
        self.assertEqual(process.returncode, 0, out)
        return out

    def both(self, addresses, *command, options=((), ())):
        """What the client prints. Both begin at a TCP port, the client when the server listens."""
        port = free_port()
        self.socket = os.path.join(self.directory, f"{port}.sock")
        server = self.begin("server", addresses[0], *command, "-p", str(port), options=options[0])
        deadline = time.monotonic() + PATIENCE
        while not listens(port) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        client = self.begin("client", addresses[1], *command, "-p", str(port), "127.0.0.1", options=options[1])
        out = self.end(client)
        self.end(server)
        return out

    def test_messages_go_between_addresses_that_are_found_by_asking(self):
        for addresses in (IPV4, IPV6):
            with self.subTest(addresses):
                out = self.both(addresses, "ibv_rc_pingpong", "-c", "-n", "100", "-s", "4096", "-g", GID)
                self.assertIn(addresses[0], out)

    def test_datagrams_writes_reads_and_atomics(self):
        for program, *options in (("ib_send_lat", "-c", "UD"), ("ib_write_lat",), ("ib_read_lat",), ("ib_atomic_lat",)):
            with self.subTest(program):
                self.both(IPV4, program, "-F", "-n", "50", "-x", GID, *options)

    # Frames of 1500 bytes carry messages in packets of 1024.
    def test_packets_are_as_long_as_frames_allow_and_captured(self):
        if shutil.which("tshark") is None:
            self.skipTest("tshark is not installed: the capture was not read")
        for frames, payload in (((), 1024), (("--frame-mtu", "576"), 256)):
            capture = os.path.join(self.directory, f"{payload}.pcapng")
            self.both(IPV4, "ib_write_bw", "-F", "-n", "5", "-s", "4096", "-x", GID,
                      options=(frames, ("--capture", capture, *frames)))
            read = subprocess.run(["tshark", "-r", capture, "-Y", "infiniband.bth.opcode == 7", "-T", "fields",
                                   "-e", "udp.length"], capture_output=True, text=True, check=True).stdout
            self.assertEqual({int(line) for line in read.split()}, {8 + 12 + payload + 4})


class Refused(unittest.TestCase):
    def refuse(self, *arguments):
        process = start(*arguments, "--", "ibv_devinfo")
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertNotEqual(process.returncode, 0, out)
        return out

    def test_without_an_address_a_device_or_a_driver(self):
        self.assertIn("--address", self.refuse("--port", "dpdk:net_memif0"))
        self.assertIn("shm, udp or dpdk:<device>", self.refuse("--port", "dpdk:", "--address", "10.0.0.1"))
        said = self.refuse("--port", "dpdk:net_nothing0", "--address", "10.0.0.1")
        self.assertRegex(said, re.escape("librte-net-*23"))

    def test_a_mac_address_that_is_none(self):
        said = self.refuse("--port", "dpdk:net_null0", "--address", "10.0.0.1", "--peer-mac", "02:00")
        self.assertIn("--peer-mac", said)

    def test_an_address_of_the_link_alone(self):
        for port in ("udp", "dpdk:net_null0"):
            self.assertIn("of the link alone", self.refuse("--port", port, "--address", "fe80::1"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
