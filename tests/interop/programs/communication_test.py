"""Unmodified UCX and libfabric, and programs that look into /sys by themselves, on the software NIC. Arguments: the
library to preload."""
import os
import shutil
import subprocess
import sys
import unittest

from two_processes import TwoProcesses, forbid_attach, some

TwoProcesses.library = os.path.abspath(sys.argv[1])


class Listings(TwoProcesses):
    def listing(self, *command):
        if shutil.which(command[0]) is None:
            self.skipTest(command[0] + " is not installed")
        return self.finish(self.start(*command))

    def test_ibv_devices(self):
        self.assertIn("027662fffe6d0001", self.listing("ibv_devices"))

    def test_ibstat(self):
        out = self.listing("ibstat")
        for text in ("CA 'mlx5_0'", "State: Active", "Rate: 100", "Link layer: Ethernet"):
            self.assertIn(text, out)

    def test_ls(self):
        self.assertEqual(self.listing("ls", "/sys/class/infiniband"), "mlx5_0\n")
        out = self.listing("ls", "-lL", "/sys/class/infiniband/mlx5_0/")
        self.assertIn("node_guid", out)
        self.assertNotIn("No such file", out)

    def test_ucx_finds_the_transports_it_knows_for_the_device(self):
        out = self.listing("ucx_info", "-d")
        for transport in ("rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5"):
            self.assertRegex(out, r"Transport: %s\n#\s+Device: mlx5_0:1\n" % transport)
        self.assertNotIn("Transport: dc", out)
        self.assertNotIn("ERROR", out)

    def test_libfabric_finds_the_device(self):
        out = self.listing("fi_info", "-p", "verbs")
        self.assertIn("domain: mlx5_0\n", out)
        self.assertIn("domain: mlx5_0-dgram\n", out)

    def test_devices_of_the_kernel_are_not_shown(self):
        """A /sys with another device, as on a machine with a card, in a name space of its own."""
        real = os.path.join(self.directory.name, "sys")
        os.makedirs(os.path.join(real, "class/infiniband/other0/ports/1"))
        os.makedirs(os.path.join(real, "class/infiniband_verbs"))
        alone = ("unshare", "-m", "sh", "-c", "mount --bind %s /sys && ls /sys/class/infiniband && $0 \"$@\"" % real)
        without = subprocess.run(alone + ("true",), capture_output=True, text=True, check=False)
        if without.returncode != 0:
            self.skipTest("needs the right to mount")
        self.assertEqual(without.stdout, "other0\n")
        for command in (("ibstat", "-l"), ("ls", "/sys/class/infiniband")):
            out = self.listing(*alone, *command)
            self.assertEqual(out, "mlx5_0\nmlx5_0\n")


class UcxTests(TwoProcesses):
    """ucx_perftest: tagged messages with their rendezvous, active messages, and what goes to memory."""
    variables = {"UCX_NET_DEVICES": "mlx5_0:1", "UCX_WARN_UNUSED_ENV_VARS": "n"}

    def run_tests(self, transports, tests, *options):
        self.environment["UCX_TLS"] = transports
        for test in tests:
            with self.subTest(test=test):
                out = self.both("ucx_perftest", "-t", *test.split(), *options)
                self.assertIn("Final:", out)
                self.assertNotIn("ERROR", out)

    LATENCY = ("tag_lat", "tag_lat -s 4096", "ucp_am_lat", "ucp_am_lat -s 32768", "ucp_put_lat", "ucp_put_lat -s 8192")
    ONE_SIDED = ("ucp_get", "ucp_get -s 65536", "ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap", "stream_lat")
    RENDEZVOUS = ("tag_lat -s 262144", "tag_bw -s 1048576", "ucp_put_bw -s 262144", "ucp_am_bw -s 262144")

    def run_all(self, transports):
        self.run_tests(transports, self.LATENCY + self.ONE_SIDED, "-n", "300", "-w", "10")
        self.run_tests(transports, self.RENDEZVOUS, "-n", "50", "-w", "5")

    def run_some(self, transports):
        """Of transports that others use as well."""
        self.run_tests(transports, some(self.LATENCY + self.ONE_SIDED), "-n", "300", "-w", "10")
        self.run_tests(transports, some(self.RENDEZVOUS), "-n", "50", "-w", "5")


class Ucx(UcxTests):
    def test_verbs(self):
        self.run_all("rc_verbs,ud_verbs")

    def test_rc_verbs_alone(self):
        self.run_some("rc_v")

    def test_ud_verbs_alone(self):
        self.run_some("ud_verbs")

    def test_queues_that_ucx_writes_itself(self):
        self.run_all("rc_mlx5,ud_mlx5")

    def test_rc_mlx5_alone(self):
        self.run_some("rc_x")

    def test_ud_mlx5_alone(self):
        self.run_some("ud_mlx5")


class UcxWithoutAttach(UcxTests):
    """Where the peer's memory is reached by the peer's own threads."""
    prepare = staticmethod(forbid_attach)

    def test_verbs(self):
        self.run_some("rc_v")

    def test_queues_that_ucx_writes_itself(self):
        self.run_some("rc_x")


class Libfabric(TwoProcesses):
    """fi_pingpong with checked data; datagrams need the connection manager too, for its event queue."""
    port_options = ("-B", "-P")

    def run_kind(self, *options):
        out = self.both("fi_pingpong", "-p", "verbs", "-c", *options)
        self.assertIn("usec/xfer", out)

    def test_connections(self):
        self.run_kind("-e", "msg")

    def test_messages_without_connections(self):
        self.run_kind("-e", "rdm")

    def test_datagrams(self):
        self.run_kind("-e", "dgram")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
