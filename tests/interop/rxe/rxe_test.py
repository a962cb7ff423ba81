"""The udp and dpdk ports beside Linux' rdma_rxe: unmodified programs here on the software NIC, the same ones on rxe in a
guest."""

import ctypes
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import rxe_guest

VERBATIM, OPERATIONS, DATAGRAMS, WINDOWS, SENDER, RECEIVER, CACHE = map(os.path.abspath, sys.argv[1:8])
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
OWN_INDEX, RXE_INDEX = "3", "1"  # of the GID that is the IPv4 address
# Of programs with frames of their own; the guest asks for their MAC addresses.
OWN_FRAMES_ADDRESS, OWN_FRAMES_IPV6, IPV6_OF_GUEST, IPV6_IN_GID = "10.99.0.3", "fd99::3", ("fd99::2", 64), "fd99:0000"
ROUNDS = 50  # both sides poll, and QEMU needs the cores too
PINGPONG = ("ibv_rc_pingpong", "-c", "-n", str(ROUNDS))
PERFTEST_OPTIONS = ("-F", "-n", "20")
ONE_AT_A_TIME = ("-o", "1")  # rxe offers more reads than the device here has
PATIENCE = 60
# Of the library's own programs: its devices are RDMA devices on both sides, and the guest has little memory.
CONFIG = """[device]
kind = "rdma"
data_path = "{path}"
assume_in_order = true
[connect]
loopback_only = false
[telemetry]
enabled = false
[arena]
segment_bytes = "4M"
[receive_arena]
segment_bytes = "4M"
"""
PACKAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "demo", "status-example")
CHECKED = ("objects", "longest_chain", "checksum", "transfer.objects", "transfer.back_pointers")
# Of RoCE packets alone, each way: what is delayed is overtaken by what is not.
FAULTS = "netem loss 2% duplicate 2% delay 500us reorder 5%"
UDP = "protocol ip u32 match ip protocol 17 0xff"
BEGIN_FAULTS = f"""set -e
ip link set ifb0 up
tc qdisc add dev eth0 root handle 1: prio bands 4
tc filter add dev eth0 parent 1: {UDP} flowid 1:4
tc qdisc add dev eth0 parent 1:4 {FAULTS}
tc qdisc add dev ifb0 root {FAULTS}
tc qdisc add dev eth0 handle ffff: ingress
tc filter add dev eth0 parent ffff: {UDP} action mirred egress redirect dev ifb0"""
END_FAULTS = "tc qdisc del dev eth0 ingress; tc qdisc del dev eth0 root; tc qdisc del dev ifb0 root"


def enter_network():
    """This process is alone in a network of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NETWORK) == 0:
        return
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEW_USER | NEW_NETWORK) != 0:
        raise rxe_guest.Unavailable(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def start_here(*command, address=rxe_guest.HOST, options=(), port="udp"):
    return subprocess.Popen([VERBATIM, "softnic", "run", "--port", port, "--address", address, *options, "--", *command],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def listens_here(port):
    with open("/proc/net/tcp", encoding="ascii") as table:
        lines = [line.split() for line in table.readlines()[1:]]
    with open("/proc/net/tcp6", encoding="ascii") as table:
        lines += [line.split() for line in table.readlines()[1:]]
    return any(line[3] == "0A" and line[1].endswith(":%04X" % port) for line in lines)


def wait_until_it_listens(process, port):
    deadline = time.monotonic() + PATIENCE
    while not listens_here(port):
        if process.poll() is not None:
            raise AssertionError(f"it ended: {process.stdout.read()}")
        if time.monotonic() > deadline:
            raise AssertionError("it does not listen")
        time.sleep(0.02)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TwoAddresses(unittest.TestCase):
    """Programs of one machine, at two addresses of its loopback. Each takes the other for any RoCE device."""

    def start(self, address, *command, options=()):
        process = start_here(*command, address=address, options=options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)  # which the launcher passes on
        return process

    def assert_ends_well(self, process):
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, out)
        return out

    def test_a_pingpong_is_captured_at_the_port_of_roce(self):
        port = free_port()
        command = (*PINGPONG, "-s", "4096", "-g", OWN_INDEX, "-p", str(port))
        with tempfile.TemporaryDirectory() as directory:
            capture = os.path.join(directory, "packets.pcapng")
            server = self.start("127.0.0.2", *command)
            wait_until_it_listens(server, port)
            client = self.start("127.0.0.3", *command, "127.0.0.1", options=("--capture", capture))
            self.assert_ends_well(client)
            self.assert_ends_well(server)
            if shutil.which("tshark") is None:
                self.skipTest("tshark is not installed: the capture was not read")
            fields = ("-e", "ip.src", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn")
            read = subprocess.run(["tshark", "-r", capture, "-T", "fields", *fields], capture_output=True, text=True,
                                  check=True).stdout
        sent = [int(line.split("\t")[2]) for line in read.splitlines() if line.split("\t")[:2] in
                (["127.0.0.3", str(opcode)] for opcode in (0, 1, 2))]
        # 4096 bytes are four packets: first, two middle ones, last; what is sent again is captured again.
        self.assertEqual(len(set(sent)), 4 * ROUNDS)

    def test_datagrams_are_captured_like_others(self):
        port = free_port()
        command = ("ibv_ud_pingpong", "-n", "20", "-s", "512", "-g", OWN_INDEX, "-p", str(port))
        with tempfile.TemporaryDirectory() as directory:
            capture = os.path.join(directory, "packets.pcapng")
            server = self.start("127.0.0.2", *command)
            wait_until_it_listens(server, port)
            client = self.start("127.0.0.3", *command, "127.0.0.1", options=("--capture", capture))
            self.assert_ends_well(client)
            self.assert_ends_well(server)
            if shutil.which("tshark") is None:
                self.skipTest("tshark is not installed: the capture was not read")
            fields = ("-e", "ip.src", "-e", "infiniband.bth.opcode", "-e", "infiniband.deth.srcqp", "-e", "frame.len")
            read = subprocess.run(["tshark", "-r", capture, "-T", "fields", *fields], capture_output=True, text=True,
                                  check=True).stdout
        lines = [line.split("\t") for line in read.splitlines()]
        for source in ("127.0.0.2", "127.0.0.3"):
            packets = [line for line in lines if line[0] == source]
            self.assertEqual(len(packets), 20)
            self.assertEqual({line[1] for line in packets}, {"100"})
            self.assertEqual(len({line[2] for line in packets}), 1)
            self.assertEqual({line[3] for line in packets}, {str(20 + 8 + 12 + 8 + 512 + 4)})

    def test_one_process_has_the_port_of_an_address(self):
        port = free_port()
        command = ("ibv_rc_pingpong", "-g", OWN_INDEX, "-p", str(port))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.4", 4791))
            server = self.start("127.0.0.2", *command)
            wait_until_it_listens(server, port)
            client = self.start("127.0.0.4", *command, "127.0.0.1")
            out, _ = client.communicate(timeout=PATIENCE)
            server.terminate()
        self.assertNotEqual(client.returncode, 0)
        self.assertIn("Address already in use; let no other process of this machine have the port", out)


class Rxe(unittest.TestCase):
    guest = None
    port, receiver_port = 18600, 18700
    rxe_index = RXE_INDEX

    @classmethod
    def setUpClass(cls):
        os.makedirs(CACHE, exist_ok=True)
        cls.reason = None
        try:
            cls.guest = rxe_guest.Guest(CACHE)  # which may fetch the kernel
            enter_network()
            cls.addClassCleanup(cls.guest.__exit__)
            cls.guest.__enter__()
        except rxe_guest.Unavailable as reason:
            cls.reason = str(reason)

    def setUp(self):
        if self.reason is not None:
            self.skipTest(self.reason)
        self.way = {}  # by UDP, at this machine's address

    def use_dpdk(self, address):
        """The programs of this side have the address, of which the kernel does not know, and a socket of whole frames."""
        if not os.environ.get("VERBATIM_DPDK_LIBRARY"):
            self.skipTest("libverbatim-dpdk.so was not built: no libdpdk-dev")
        self.way = {"port": "dpdk:net_af_packet0,iface=" + rxe_guest.TAP, "address": address}

    def start_here(self, *command):
        return start_here(*command, **self.way)

    def finish(self, here, there):
        try:
            out, _ = here.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            here.terminate()
            out, _ = here.communicate()
        code, text = there.end()
        self.assertEqual((here.returncode, code), (0, 0), f"here:\n{out}\nthere:\n{text}")

    def both_directions(self, program, *options, index):
        port = ("-p", str(self.port))
        # The guest calls.
        here = self.start_here(program, *options, *port, index, OWN_INDEX)
        wait_until_it_listens(here, self.port)
        self.finish(here, self.guest.start(program, *options, *port, index, self.rxe_index, rxe_guest.HOST))
        # This side calls.
        there = self.guest.start(program, *options, *port, index, self.rxe_index, listens_at=self.port)
        self.finish(self.start_here(program, *options, *port, index, OWN_INDEX, rxe_guest.GUEST), there)

    def run_both(self, program):
        """A program of this test, here and there. It checks data and completions."""
        if os.path.commonpath(["/tmp", program]) == "/tmp":
            self.skipTest("the guest has a /tmp of its own")
        port = str(self.port)
        here = self.start_here(program, OWN_INDEX, port)
        wait_until_it_listens(here, self.port)
        self.finish(here, self.guest.start(program, self.rxe_index, port, rxe_guest.HOST))

    def config(self, path):
        """A configuration file that the guest sees, too: of the data path."""
        name = os.path.join(CACHE, f"{path}.toml")
        with open(name, "w", encoding="ascii") as file:
            file.write(CONFIG.format(path=path))
        return name

    def checked(self, text):
        """What a demonstration program says of the graph that it has sent or received."""
        said = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and " " not in line)
        self.assertLessEqual(set(CHECKED), set(said), text)
        return {name: said[name] for name in CHECKED}

    def send_objects(self, path, rounds):
        """Graphs between programs of this library, by its connections, both ways; `path` is that of this side."""
        if os.path.commonpath(["/tmp", SENDER]) == "/tmp":
            self.skipTest("the guest has a /tmp of its own")
        patience = ("--timeout", str(PATIENCE), "--rounds", str(rounds))
        graph = ("--input", PACKAGES, "--replicate", "100")
        mine, others = ("--config", self.config(path)), ("--config", self.config("verbs"))
        place = f"{rxe_guest.HOST}:{self.port}"
        here = self.start_here(RECEIVER, *mine, "--listen", place, *patience)
        wait_until_it_listens(here, self.port)
        code, text = self.guest.start(SENDER, *graph, *others, "--connect", place, *patience).end()
        out, _ = here.communicate(timeout=PATIENCE)
        self.assertEqual((here.returncode, code), (0, 0), f"here:\n{out}\nthere:\n{text}")
        self.assertEqual(self.checked(out), self.checked(text))
        # When its peer ends first, Linux 6.1 takes 50 s to destroy the queue pair, and warns of a reference to it that
        # is not given back. The program has said everything before, and keeps its port.
        Rxe.receiver_port += 1
        place = f"{rxe_guest.GUEST}:{self.receiver_port}"
        command = " ".join((RECEIVER, *others, "--listen", place, *patience))
        script = (f"{command} > /tmp/said 2>&1 & until grep -q best_us /tmp/said || ! kill -0 $!; do sleep 0.05; done; "
                  "cat /tmp/said; grep -q best_us /tmp/said")
        there = self.guest.start("/bin/sh", "-c", shlex.quote(script), listens_at=self.receiver_port)
        here = self.start_here(SENDER, *graph, *mine, "--connect", place, *patience)
        out, _ = here.communicate(timeout=PATIENCE)
        code, text = there.end()
        self.assertEqual((here.returncode, code), (0, 0), f"here:\n{out}\nthere:\n{text}")
        self.assertEqual(self.checked(out), self.checked(text))

    def packets_lost(self, device):
        _, text = self.guest.run(f"tc -s qdisc show dev {device}")
        return int(re.search(r"qdisc netem .*?\(dropped (\d+)", text, re.DOTALL).group(1))

    def test_all_operations_of_both_ends(self):
        self.run_both(OPERATIONS)

    def test_datagrams_are_asked_and_answered_by_both_ends(self):
        self.run_both(DATAGRAMS)

    def test_windows_are_written_to_and_invalidated_by_messages(self):
        self.run_both(WINDOWS)
        there = self.guest.start(WINDOWS, self.rxe_index, str(self.port), listens_at=self.port)
        self.finish(self.start_here(WINDOWS, OWN_INDEX, str(self.port), rxe_guest.GUEST), there)

    def test_objects_go_both_ways_by_the_connections_of_the_library(self):
        for path in ("mlx5", "verbs"):
            with self.subTest(path):
                self.send_objects(path, 20)

    def test_the_end_of_a_program_in_the_guest_is_noticed(self):
        place = f"{rxe_guest.HOST}:{self.port}"
        here = self.start_here(RECEIVER, "--config", self.config("mlx5"), "--listen", place, "--rounds", "1000000")
        self.addCleanup(here.kill)
        wait_until_it_listens(here, self.port)
        script = (f"{SENDER} --config {self.config('verbs')} --connect {place} --rounds 1000000 & "
                  "until grep -q ':{0:04X} 01 ' /proc/net/tcp; do :; done; sleep 1; kill -9 $!")
        self.guest.start("/bin/sh", "-c", shlex.quote(script.format(self.port))).end()
        out, _ = here.communicate(timeout=PATIENCE)
        self.assertNotIn(here.returncode, (0, None), out)
        self.assertIn("peer", out)

    def test_everything_goes_where_packets_are_lost_doubled_and_swapped(self):
        code, text = self.guest.run(BEGIN_FAULTS)
        self.addCleanup(self.guest.run, END_FAULTS)
        self.assertEqual(code, 0, text)
        self.run_both(OPERATIONS)
        self.run_both(DATAGRAMS)
        self.run_both(WINDOWS)
        self.send_objects("mlx5", 2)
        for device in ("eth0", "ifb0"):
            self.assertGreater(self.packets_lost(device), 0, device)

    def test_everything_goes_by_the_frames_of_a_dpdk_device(self):
        self.use_dpdk(OWN_FRAMES_ADDRESS)
        self.run_both(OPERATIONS)
        self.run_both(DATAGRAMS)
        self.both_directions(*PINGPONG, "-s", "4096", index="-g")
        self.send_objects("mlx5", 2)

    def test_ipv6_goes_by_frames_between_neighbours_that_are_asked_for(self):
        address, prefix = IPV6_OF_GUEST
        code, text = self.guest.run(f"ip -6 addr add {address}/{prefix} dev eth0 nodad; "
                                    f"timeout {PATIENCE} sh -c 'until grep -il {IPV6_IN_GID} "
                                    "/sys/class/infiniband/rxe0/ports/1/gids/*; do :; done'")
        self.assertEqual(code, 0, text)
        self.rxe_index = re.search(r"/gids/(\d+)", text).group(1)
        self.use_dpdk(OWN_FRAMES_IPV6)
        self.run_both(OPERATIONS)
        self.both_directions("ib_send_lat", *PERFTEST_OPTIONS, "-c", "UD", index="-x")

    def test_pingpong_checks_its_data(self):
        self.both_directions(*PINGPONG, "-s", "4096", index="-g")

    def test_writes_reads_sends_and_atomics(self):
        for program, *options in (("ib_send_lat",), ("ib_send_lat", "-c", "UD"), ("ib_write_lat",), ("ib_read_lat", *ONE_AT_A_TIME),
                                  ("ib_atomic_lat", *ONE_AT_A_TIME)):
            with self.subTest(program):
                self.both_directions(program, *PERFTEST_OPTIONS, *options, index="-x")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
