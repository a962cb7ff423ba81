"""The demo's programs in two network namespaces, as on two machines: by each port, and over a bad link where that may be."""

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAMS, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(SOURCE, "tests/interop/driver"))
from icrc import checksum  # noqa: E402

EXAMPLE = os.path.join(SOURCE, "tests/interop/demo/status-example")
NEW_NETWORK = 0x40000000
PATIENCE = 60
LIBC = ctypes.CDLL(None, use_errno=True)
SERVER, CLIENT = "10.98.0.1", "10.98.0.2"


def into_new_network():
    if LIBC.unshare(NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "network namespace")


def done(command, **options):
    return subprocess.run(command.split(), capture_output=True, text=True, check=False, **options)


def received(capture):
    packets = []
    try:
        while True:
            packets.append(capture.recv(65536))
    except BlockingIOError:
        return packets


def is_roce(packet):
    """A datagram over IPv4 with the partition that is everybody's."""
    return len(packet) >= 44 and packet[0] == 0x45 and packet[9] == 17 and packet[30:32] == b"\xff\xff"


class Namespaces(unittest.TestCase):
    """This process is in the server's namespace; a sleeping child keeps the client's."""

    @classmethod
    def setUpClass(cls):
        cls.reason = None
        if shutil.which("ip") is None or shutil.which("nsenter") is None:
            cls.reason = "ip or nsenter is not installed"
            return
        try:
            into_new_network()
            keeper = subprocess.Popen(["sleep", "infinity"], preexec_fn=into_new_network)
        except (OSError, subprocess.SubprocessError) as error:
            cls.reason = f"no network namespaces: {error}"
            return
        cls.addClassCleanup(keeper.wait)
        cls.addClassCleanup(keeper.kill)
        cls.inside = ("nsenter", "-t", str(keeper.pid), "-n")
        inside = " ".join(cls.inside)
        for command in ("ip link set lo up", f"{inside} ip link set lo up",
                        f"ip link add near type veth peer name far netns {keeper.pid}",
                        f"ip addr add {SERVER}/24 dev near", "ip link set near up",
                        f"{inside} ip addr add {CLIENT}/24 dev far", f"{inside} ip link set far up"):
            result = done(command)
            if result.returncode != 0:
                cls.reason = f"{command}: {result.stderr.strip()}"
                return

    def setUp(self):
        if self.reason is not None:
            self.skipTest(self.reason)

    def transfer(self, port, expected):
        """The client's log says by which port."""
        with tempfile.TemporaryDirectory() as directory:
            config, port_file = os.path.join(directory, "config.toml"), os.path.join(directory, "port")
            with open(config, "w", encoding="utf-8") as file:
                file.write('[device]\nkind = "softnic"\n[connect]\nloopback_only = false\n')
            common = ("--config", config, "--port", port)
            server = subprocess.Popen([PROGRAMS + "/verbatim-demo-receive", "--listen", SERVER + ":0", "--port-file",
                                       port_file, *common], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(server.communicate)
            self.addCleanup(server.kill)
            deadline = time.monotonic() + PATIENCE
            while not os.path.exists(port_file):
                self.assertIsNone(server.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            with open(port_file, encoding="ascii") as file:
                address = f"{SERVER}:{file.read().strip()}"
            client = subprocess.run([*self.inside, PROGRAMS + "/verbatim-demo-send", "--connect", address, "--input",
                                     EXAMPLE, *common], capture_output=True, text=True, timeout=PATIENCE, check=False,
                                    env={**os.environ, "VERBATIM_LOG": "info"})
            out, _ = server.communicate(timeout=PATIENCE)
        self.assertEqual((client.returncode, server.returncode), (0, 0), client.stderr + out)
        self.assertIn(f"the port is {expected}: ", client.stderr)

    def test_a_graph_crosses_by_each_port(self):
        for port, expected in (("auto", "udp"), ("udp", "udp"), ("tcp", "tcp")):
            with self.subTest(port):
                self.transfer(port, expected)

    def test_checksums_cover_the_identifications_that_the_kernel_gives(self):
        """Of runs, which it cuts where they leave: a capture at the other end sees each packet's own."""
        far = " ".join(self.inside) + " ip link set far gso_max_segs "
        result = done(far + "1")
        if result.returncode != 0:
            self.skipTest(f"gso_max_segs: {result.stderr.strip()}")
        self.addCleanup(done, far + "65535")
        with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003)) as capture:
            capture.bind(("near", 0))
            capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            capture.setblocking(False)
            self.transfer("udp", "udp")
            packets = received(capture)
        roce = [packet for packet in packets if is_roce(packet)]
        self.assertGreater(len(roce), 20)
        for packet in roce:
            self.assertEqual(checksum(packet[:20], packet[20:28], packet[28:-4]), packet[-4:], packet[:40].hex())
        identifications = {int.from_bytes(packet[4:6], "big") for packet in roce}
        self.assertGreater(max(identifications), 1, "no run was sent")

    def test_a_graph_crosses_a_bad_link(self):
        result = done("tc qdisc add dev near root netem loss 2% delay 1ms 1ms reorder 10%")
        if result.returncode != 0:
            self.skipTest(f"tc netem: {result.stderr.strip()}")
        self.addCleanup(done, "tc qdisc del dev near root")
        for port in ("udp", "tcp"):
            with self.subTest(port):
                self.transfer(port, port)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
