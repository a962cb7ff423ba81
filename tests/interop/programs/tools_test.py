"""Unmodified programs of rdma-core, two processes each, on the software NIC. Arguments: the library to preload."""
import os
import sys
import unittest

from two_processes import TwoProcesses, forbid_attach, some

TwoProcesses.library = os.path.abspath(sys.argv[1])
# perftest's programs need GID and say nothing else about the machine; they look at the CPU's frequency.
PERFTEST = ("-x", "0", "-F")


class Tools(TwoProcesses):
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

    def test_rc_pingpong_with_device_memory(self):
        self.pingpong("ibv_rc_pingpong", "-c", "-j")
        self.pingpong("ibv_rc_pingpong", "-c", "-j", "-e", "-s", "65536", "-n", "200")

    def srq_pingpong(self, *options):
        # The program counts messages over all of its queue pairs, and may end before its peer's last have arrived. A card
        # still receives them while the program ends; here the peer finds it gone, in two to five runs of a hundred with
        # events, and on a busy machine without.
        for attempt in range(3):
            try:
                return self.pingpong("ibv_srq_pingpong", *options)
            except AssertionError as error:
                if attempt == 2 or "transport retry counter exceeded" not in str(error):
                    raise

    def test_srq_pingpong(self):
        self.srq_pingpong()

    def test_srq_pingpong_by_events(self):
        self.srq_pingpong("-e")

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
        for options in some((("ib_send_lat",), ("ib_send_lat", "-c", "UD"), ("ib_send_lat", "-c", "UC"), ("ib_read_lat",),
                        ("ib_atomic_lat",), ("ib_atomic_bw",))):
            with self.subTest(options=options):
                self.both(options[0], *PERFTEST, "-e", *options[1:])

    def test_bandwidths(self):
        for options in some((("ib_send_bw",), ("ib_write_bw",), ("ib_read_bw",), ("ib_atomic_bw",),
                        ("ib_write_bw", "-q", "8"), ("ib_send_bw", "-q", "4", "-b"), ("ib_write_bw", "-b"), ("ib_send_bw", "-r", "16", "-s", "1024"),
                        ("ib_send_bw", "-e", "-n", "500"))):
            with self.subTest(options=options):
                self.both(options[0], *PERFTEST, *options[1:])

    def test_unreliable_transports(self):
        for options in (("ib_send_lat", "-c", "UD"), ("ib_send_bw", "-c", "UD"), ("ib_send_lat", "-c", "UC"),
                        ("ib_write_bw", "-c", "UC")):
            with self.subTest(options=options):
                self.both(options[0], *PERFTEST, *options[1:])

    def test_xsrq_pingpong(self):
        for options in ((), ("-e",), ("-o",), ("-s", "65536", "-n", "50")):
            with self.subTest(options=options):
                self.assertIn("success", self.both("ibv_xsrq_pingpong", "-g", "0", *options))

    def test_xrc(self):
        for options in some((("ib_send_lat",), ("ib_send_lat", "-e"), ("ib_write_lat",), ("ib_read_lat",),
                        ("ib_read_lat", "-e"), ("ib_atomic_lat",), ("ib_send_bw",), ("ib_send_bw", "-e", "-n", "500"),
                        ("ib_send_bw", "--use-srq", "-n", "500"), ("ib_send_bw", "-q", "4", "-b", "-n", "300"),
                        ("ib_write_bw",), ("ib_write_bw", "-q", "4", "-b"), ("ib_read_bw",), ("ib_atomic_bw",))):
            with self.subTest(options=options):
                self.both(options[0], *PERFTEST, "-c", "XRC", *options[1:])


class SharedMemory(TwoProcesses):
    """The peer's memory is mapped, as --share-memory has it."""
    variables = {"VERBATIM_SOFTNIC_SHARE": "1"}

    def test_pingpong(self):
        self.assertIn("usec/iter", self.both("ibv_rc_pingpong", "-g", "0", "-c"))

    def test_perftest(self):
        for options in some((("ib_write_lat",), ("ib_read_lat",), ("ib_atomic_lat",), ("ib_write_bw",), ("ib_read_bw",),
                        ("ib_write_bw", "-q", "4", "-b"))):
            with self.subTest(options=options):
                self.both(options[0], *PERFTEST, *options[1:])


class WithoutAttach(TwoProcesses):
    """The peer's memory is reached by the peer's own threads."""
    prepare = staticmethod(forbid_attach)

    def test_pingpongs(self):
        for tool in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"):
            self.assertIn("usec/iter", self.both(tool, "-g", "0", "-c"))
        self.assertIn("usec/iter", self.both("ibv_rc_pingpong", "-g", "0", "-c", "-j"))
        self.assertIn("success", self.both("ibv_xsrq_pingpong", "-g", "0"))

    def test_perftest(self):
        for options in some((("ib_write_lat", "-n", "200"), ("ib_read_lat", "-n", "200"),
                        ("ib_write_bw", "-n", "200"), ("ib_read_bw", "-n", "200"), ("ib_write_bw", "-b", "-n", "100"),
                        ("ib_read_bw", "-q", "4", "-n", "100"), ("ib_write_bw", "-c", "UC", "-n", "100"),
                        ("ib_write_bw", "-c", "XRC", "-n", "100"), ("ib_read_lat", "-c", "XRC", "-n", "100"))):
            with self.subTest(options=options):
                out = self.both(options[0], *PERFTEST, *options[1:])
                self.assertIn("is refused (Operation not permitted)", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
