"""The demo's two programs as two processes on real files: the totals against an independent count, and what they say
about bad input. Arguments: the directory of the programs, the source root."""
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

PROGRAMS, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SEND = os.path.join(PROGRAMS, "verbatim-demo-send")
RECEIVE = os.path.join(PROGRAMS, "verbatim-demo-receive")
EXAMPLE = os.path.join(SOURCE, "tests/interop/demo/status-example")
PATIENCE = 30  # seconds until a test is considered hung
RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances", "Breaks", "Conflicts", "Replaces")


def stanzas(path):
    """The database as a list of dicts, by a parser that shares nothing with the program's."""
    found = []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for block in re.split(r"\n[ \t]*\n", file.read()):
            fields, last = {}, None
            for line in block.split("\n"):
                if line[:1] in (" ", "\t") and last:
                    fields[last] += "\n" + line
                elif ":" in line:
                    last, value = line.split(":", 1)
                    fields[last] = value.strip()
            if "Package" in fields:
                found.append(fields)
    return found


def names_in(text):
    """(package, ...) of every alternative of a relationship field."""
    for clause in text.replace("\n", " ").split(","):
        for alternative in clause.split("|"):
            match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9+.\-]*)", alternative)
            if match:
                yield match.group(1)


def count(path):
    """What the programs must find."""
    packages, mentioned, provided, targets, maintainers = set(), set(), set(), [], set()
    versions = 0
    for fields in stanzas(path):
        mentioned.add(fields["Package"])
        if not fields.get("Version"):
            continue
        versions += 1
        packages.add(fields["Package"])
        if fields.get("Maintainer"):
            maintainers.add(fields["Maintainer"])
        for relation in RELATIONS:
            targets += names_in(fields.get(relation, ""))
        provided |= set(names_in(fields.get("Provides", "")))
    mentioned |= set(targets) | provided
    return {
        "packages": len(packages), "versions": versions, "maintainers": len(maintainers),
        "other_names": len(mentioned - packages), "reverse_edges": len(targets),
        "edges": sum(target in packages or target in provided for target in targets),
    }


def packets_of(capture):
    """IP packets of a pcapng file of ours."""
    with open(capture, "rb") as file:
        blocks = file.read()
    result = []
    while blocks:
        kind, size = struct.unpack_from("<II", blocks)
        if kind == 6:
            length = struct.unpack_from("<I", blocks, 20)[0]
            result.append(blocks[28 : 28 + length])
        blocks = blocks[size:]
    return result


def icrc(packet):
    """Annex A17.3.3 of the InfiniBand Architecture Specification, of an IPv4 packet without its checksum."""
    changed = bytearray(packet)
    for field in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, both checksums, congestion
        changed[field] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + changed))


def fields_of(packet):
    """Source port, opcode, PSN, queue pair."""
    return (struct.unpack_from(">H", packet, 20)[0], packet[28], int.from_bytes(packet[37:40], "big"),
            int.from_bytes(packet[33:36], "big"))


def tshark_reads(capture, packets):
    ports = {struct.unpack_from(">H", packet, 22)[0] for packet in packets}
    decode = [word for port in ports for word in ("-d", f"udp.port=={port},infiniband")]
    names = ("udp.srcport", "infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.destqp")
    fields = [word for name in names for word in ("-e", name)]
    out = run("tshark", "-r", capture, *decode, "-T", "fields", *fields).stdout
    return [tuple(int(word, 0) for word in line.split("\t")) for line in out.splitlines()]


def values(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


class Receiver:
    """A running receiver, and the port it listens on."""

    def __init__(self, *options, **variables):
        self.directory = tempfile.mkdtemp(prefix="verbatim-demo-test.")
        port_file = os.path.join(self.directory, "port")
        self.process = subprocess.Popen([RECEIVE, "--listen", "127.0.0.1:0", "--port-file", port_file, *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **variables})
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(port_file):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the receiver does not listen: {self.process.communicate()[1]}")
            time.sleep(0.01)
        with open(port_file, encoding="ascii") as file:
            self.address = f"127.0.0.1:{int(file.read())}"

    def end(self):
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        shutil.rmtree(self.directory)


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                          errors="replace", check=False, **options)


class GoodRuns(unittest.TestCase):
    def transfer(self, path, *options, both=()):
        with Receiver(*both) as receiver:
            sent = run(SEND, "--connect", receiver.address, "--input", path, *options, *both)
            code, out, err = receiver.end()
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.assertEqual(code, 0, err)
        ours, theirs = values(sent.stdout), values(out)
        for name in ("packages", "edges", "longest_chain", "objects", "checksum", "transfer.object_bytes"):
            self.assertEqual(ours[name], theirs[name], name)
        for side in (ours, theirs):
            self.assertGreater(float(side["transfer.best_ns_per_object"]), 0)
        self.assertGreater(int(ours["transfer.wire_bytes"]), int(ours["transfer.object_bytes"]))
        return ours, theirs

    def test_totals_are_those_of_an_independent_count(self):
        expected = count(EXAMPLE)
        self.assertEqual(expected["packages"], 5)  # the count itself is sane
        for side in self.transfer(EXAMPLE):
            for name, value in expected.items():
                self.assertEqual(int(side[name]), value, name)
            self.assertEqual(int(side["longest_chain"]), 2)  # the circle of three, and libgamma1

    @unittest.skipUnless(os.path.exists("/var/lib/dpkg/status"), "no package database here")
    def test_this_machines_database_is_counted_right(self):
        expected = count("/var/lib/dpkg/status")
        for side in self.transfer("/var/lib/dpkg/status"):
            for name, value in expected.items():
                self.assertEqual(int(side[name]), value, name)

    def test_replicating_multiplies_packages_and_shares_maintainers(self):
        once, twelve = self.transfer(EXAMPLE)[1], self.transfer(EXAMPLE, "--replicate", "60")[1]
        self.assertEqual(int(twelve["packages"]), 60)
        self.assertEqual(int(twelve["edges"]), 12 * int(once["edges"]))
        self.assertEqual(twelve["maintainers"], once["maintainers"])
        self.assertEqual(twelve["longest_chain"], once["longest_chain"])

    def test_heap_and_arena_arrive_as_the_same_graph(self):
        arena, heap = self.transfer(EXAMPLE)[1], self.transfer(EXAMPLE, "--heap")[1]
        self.assertEqual(arena["checksum"], heap["checksum"])

    def test_rounds_and_configuration_are_taken(self):
        with tempfile.TemporaryDirectory() as directory:
            config = os.path.join(directory, "my settings.toml")
            with open(config, "w", encoding="utf-8") as file:
                file.write('[device]\nkind = "softnic"\nstrict_doorbells = true\n[objects]\nhostile = true\n')
            ours, theirs = self.transfer(EXAMPLE, both=("--rounds", "4", "--config", config))
        self.assertEqual((ours["transfer.rounds"], theirs["transfer.rounds"]), ("4", "4"))

    def test_a_graph_arrives_though_the_configuration_loses_doubles_and_swaps_packets(self):
        with tempfile.TemporaryDirectory() as directory:
            config, capture = os.path.join(directory, "bad.toml"), os.path.join(directory, "packets.pcapng")
            with open(config, "w", encoding="ascii") as file:
                file.write('[device.softnic]\nport = "udp"\n'
                           'packet_faults = "lose=0.05 duplicate=0.2 swap=0.05 corrupt=0.05 seed=3"\n')
            self.transfer(EXAMPLE, "--replicate", "2000", "--capture", capture, both=("--config", config))
            packets = packets_of(capture)
        self.assertGreater(len(packets) - len(set(packets)), len(packets) // 20)
        self.assertTrue(any(packet[-4:] != icrc(packet[:-4]) for packet in packets))

    def capture(self, port):
        """What a sender by this port leaves in its capture."""
        with tempfile.TemporaryDirectory() as directory:
            capture = os.path.join(directory, "packets.pcapng")
            both = ("--port", port, "--rounds", "3")
            with Receiver(*both) as receiver:
                sent = run(SEND, "--connect", receiver.address, "--input", EXAMPLE, *both, "--capture", capture)
                self.assertEqual(receiver.end()[0], 0)
            self.assertEqual(sent.returncode, 0, sent.stderr)
            packets = packets_of(capture)
            self.assertGreater(len(packets), 5)
            for packet in packets:
                self.assertEqual(packet[-4:], icrc(packet[:-4]))
            read = tshark_reads(capture, packets) if shutil.which("tshark") is not None else None
        if read is None:
            self.skipTest("tshark is not installed: its reading of the capture was not compared")
        self.assertEqual(read, [fields_of(packet) for packet in packets])
        return packets

    def test_packets_are_captured_as_rocev2(self):
        self.capture("udp")

    def test_requests_of_ports_without_packets_are_captured_as_rocev2(self):
        write_only, read_request = 10, 12
        for port in ("shm", "tcp"):
            with self.subTest(port):
                packets = self.capture(port)
                opcodes = [packet[28] for packet in packets]
                self.assertIn(write_only, opcodes)
                self.assertEqual({struct.unpack_from(">H", packet, 22)[0] for packet in packets}, {4791})
                asked = [fields_of(packet)[2] for packet in packets if packet[28] <= read_request]
                self.assertEqual(asked, sorted(asked))


@unittest.skipUnless(os.environ.get("VERBATIM_DPDK_LIBRARY"), "libverbatim-dpdk.so was not built: no libdpdk-dev, or a sanitizer")
class OverMemif(unittest.TestCase):
    """The dpdk port: two processes, each with its end of a memif; the settings are those of configs/dpdk.toml."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        with open(os.path.join(SOURCE, "configs/dpdk.toml"), encoding="ascii") as file:
            shipped = file.read().replace("/run/verbatim/memif.sock", os.path.join(directory.name, "memif.sock"))
        self.client = os.path.join(directory.name, "client.toml")
        self.server = os.path.join(directory.name, "server.toml")
        for path, text in ((self.client, shipped), (self.server, shipped.replace("role=client", "role=server"))):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)

    def transfer(self, *, client=(), server=()):
        with Receiver("--config", self.server, "--rounds", "2", **dict(server)) as receiver:
            sent = run(SEND, "--config", self.client, "--connect", receiver.address, "--input", EXAMPLE, "--replicate", "2000",
                       "--rounds", "2", env={**os.environ, **dict(client)})
            code, out, err = receiver.end()
        if "librte_net_memif" in sent.stderr + err or "probe" in sent.stderr + err:
            self.skipTest("DPDK has no memif here (package librte-net-memif23): " + (sent.stderr + err).strip())
        self.assertEqual((sent.returncode, code), (0, 0), sent.stderr + err)
        ours, theirs = values(sent.stdout), values(out)
        for name in ("packages", "objects", "checksum", "transfer.object_bytes"):
            self.assertEqual(ours[name], theirs[name], name)

    def test_the_graph_arrives(self):
        self.transfer()

    def test_addresses_of_ipv4_are_found_by_asking(self):
        self.transfer(client={"VERBATIM_DEVICE_SOFTNIC_DPDK_ADDRESS": "10.9.0.1"},
                      server={"VERBATIM_DEVICE_SOFTNIC_DPDK_ADDRESS": "10.9.0.2"})

    def test_missing_parts_are_named(self):
        command = (SEND, "--connect", "127.0.0.1:1", "--input", EXAMPLE)
        for variables, said in (
                ({"VERBATIM_DPDK_LIBRARY": "/nowhere.so"}, "/nowhere.so"),
                ({"VERBATIM_DEVICE_SOFTNIC_PORT": "dpdk:net_nothing0"}, "librte-net-*23"),
                ({"VERBATIM_DEVICE_SOFTNIC_EAL": "host"}, "rte_eal_init()")):
            result = run(*command, env={**os.environ, "VERBATIM_CONFIG": self.client, **variables})
            self.assertEqual(result.returncode, 1)
            self.assertIn(said, result.stderr)


class BadFaults(unittest.TestCase):
    def test_they_are_refused_by_their_name(self):
        result = run(SEND, "--connect", "127.0.0.1:1", "--input", EXAMPLE,
                     env={**os.environ, "VERBATIM_DEVICE_SOFTNIC_PACKET_FAULTS": "loose=0.1"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("VERBATIM_DEVICE_SOFTNIC_PACKET_FAULTS", result.stderr)
        self.assertIn("lose=0.01", result.stderr)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="verbatim-demo-test.")
        self.addCleanup(shutil.rmtree, self.directory)

    def file(self, name, content):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def assert_one_line(self, program, result, *parts):
        """Ended by itself with one line that says all of `parts`; a warning of missing hugepages may precede it."""
        self.assertGreater(result.returncode, 0, f"{result.returncode}: {result.stderr}")
        lines = [line for line in result.stderr.splitlines() if not line.startswith("verbatim: warning: arena")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith(program + ": "), lines[0])
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertEqual(result.stdout, "")

    def assert_refused_file(self, path, *parts):
        # The input is read before anybody is called: no receiver is needed.
        self.assert_one_line("verbatim-demo-send", run(SEND, "--connect", "127.0.0.1:9", "--input", path), path, *parts)

    def test_missing_file(self):
        self.assert_refused_file(os.path.join(self.directory, "nothing"), "No such file")

    def test_directory(self):
        self.assert_refused_file(self.directory)

    def test_empty_file(self):
        self.assert_refused_file(self.file("empty", b""))

    def test_garbage(self):
        self.assert_refused_file(self.file("garbage", os.urandom(50000)))

    def test_nul_bytes(self):
        self.assert_refused_file(self.file("nul", b"Package: a\nVersion: 1\n\x00\x00\n"))

    def test_text_that_is_no_database(self):
        self.assert_refused_file(self.file("prose", b"It was a dark night.\nIt rained.\n"))

    def test_truncated_stanza_is_taken_as_far_as_it_makes_sense_or_refused(self):
        with open(EXAMPLE, "rb") as file:
            whole = file.read()
        for end in (len(whole) // 3, len(whole) // 2 + 7, len(whole) - 3):
            path = self.file("cut", whole[:end])
            with Receiver() as receiver:
                sent = run(SEND, "--connect", receiver.address, "--input", path)
                if sent.returncode != 0:
                    self.assert_one_line("verbatim-demo-send", sent, path)
                    continue
                code, out, err = receiver.end()
            self.assertEqual(code, 0, err)
            self.assertEqual(values(sent.stdout)["checksum"], values(out)["checksum"])

    def test_nobody_listens(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # bound, not listening: refused
            address = f"127.0.0.1:{unused.getsockname()[1]}"
            result = run(SEND, "--connect", address, "--input", EXAMPLE)
        self.assert_one_line("verbatim-demo-send", result, address, "start the receiver first")

    def test_another_service_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                caller, _ = server.accept()
                with caller:
                    caller.sendall(b"220 mail.example.org ESMTP\r\n")
                    caller.recv(1 << 16)
            server.settimeout(PATIENCE)
            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            result = run(SEND, "--connect", f"127.0.0.1:{server.getsockname()[1]}", "--input", EXAMPLE)
            thread.join()
        self.assert_one_line("verbatim-demo-send", result, "not Verbatim")

    def test_malformed_address(self):
        self.assert_one_line("verbatim-demo-send", run(SEND, "--connect", "nowhere", "--input", EXAMPLE),
                             "nowhere", "host:port")

    def test_configuration_files(self):
        for content, part in ((b"[device]\nkint = 'softnic'\n", "kint"), (b"[ring]\nbytes = 'many'\n", "bytes"),
                              (b"[ring\n", ":1:"), (b"\xff\xfe", "")):
            path = self.file("verbatim.toml", content)
            result = run(SEND, "--connect", "127.0.0.1:9", "--input", EXAMPLE, "--config", path)
            self.assert_one_line("verbatim-demo-send", result, path, part)
        missing = os.path.join(self.directory, "none.toml")
        result = run(RECEIVE, "--listen", "127.0.0.1:0", "--config", missing)
        self.assert_one_line("verbatim-demo-receive", result, missing)

    def test_options(self):
        for command in ((SEND,), (SEND, "--connect"), (SEND, "--nonsense"), (RECEIVE,),
                        (RECEIVE, "--listen", "127.0.0.1:0", "--rounds", "0")):
            result = run(*command)
            self.assertGreater(result.returncode, 0, command)
            self.assertIn("--help", result.stderr, command)

    def test_nobody_comes(self):
        result = run(RECEIVE, "--listen", "127.0.0.1:0", "--timeout", "0.3")
        self.assert_one_line("verbatim-demo-receive", result, "no peer")

    def test_receiver_is_killed_in_mid_transfer(self):
        with Receiver("--rounds", "100000") as receiver:
            sender = subprocess.Popen([SEND, "--connect", receiver.address, "--input", EXAMPLE, "--rounds", "100000",
                                       "--replicate", "5000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(sender.kill)
            self.wait_for_use(receiver.process.pid)
            receiver.process.send_signal(signal.SIGKILL)
            out, err = sender.communicate(timeout=PATIENCE)
        self.assert_one_line("verbatim-demo-send", subprocess.CompletedProcess([], sender.returncode, out, err),
                             receiver.address)

    def test_sender_is_killed_in_mid_transfer(self):
        with Receiver("--rounds", "100000") as receiver:
            sender = subprocess.Popen([SEND, "--connect", receiver.address, "--input", EXAMPLE, "--rounds", "100000",
                                       "--replicate", "5000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(sender.kill)
            self.wait_for_use(receiver.process.pid)
            sender.kill()
            sender.wait()
            code, out, err = receiver.end()
        self.assert_one_line("verbatim-demo-receive", subprocess.CompletedProcess([], code, out, err), "127.0.0.1:")

    def wait_for_use(self, pid):
        """Until a process has worked for a while: it is in the middle of its rounds."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                ticks = int(file.read().rsplit(")", 1)[1].split()[11])
            if ticks >= 0.2 * os.sysconf("SC_CLK_TCK"):
                return
            time.sleep(0.01)
        self.fail("the receiver does nothing")


class Script(unittest.TestCase):
    """scripts/demo, with the programs built already."""

    def demo(self, *options, **more):
        return run(os.path.join(SOURCE, "scripts/demo"), "--programs", PROGRAMS, *options, **more)

    def test_agreement_is_told_from_any_directory_with_a_relative_path(self):
        with tempfile.TemporaryDirectory(prefix="with space ") as directory:
            shutil.copy(EXAMPLE, os.path.join(directory, "my status"))
            result = self.demo("--input", "my status", "--rounds", "2", cwd=directory)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("sender and receiver agree", result.stdout)
        self.assertIn("ns_per_object", result.stdout)

    def test_disagreement_fails(self):
        for total in ("edges", "checksum", "longest_chain", "transfer.object_bytes"):
            with tempfile.TemporaryDirectory() as directory:
                os.symlink(SEND, os.path.join(directory, "verbatim-demo-send"))
                liar = os.path.join(directory, "verbatim-demo-receive")
                with open(liar, "w", encoding="ascii") as file:
                    file.write(f'#!/bin/bash\nset -o pipefail\n"{RECEIVE}" "$@" | sed "s/^{total}=.*/{total}=1/"\n')
                os.chmod(liar, 0o755)
                result = run(os.path.join(SOURCE, "scripts/demo"), "--programs", directory, "--input", EXAMPLE)
            self.assertEqual(result.returncode, 1, total)
            self.assertIn("disagree", result.stderr)

    def test_receiver_that_dies_fails(self):
        with tempfile.TemporaryDirectory() as directory:
            os.symlink(SEND, os.path.join(directory, "verbatim-demo-send"))
            os.symlink("/bin/false", os.path.join(directory, "verbatim-demo-receive"))
            result = run(os.path.join(SOURCE, "scripts/demo"), "--programs", directory, "--input", EXAMPLE)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the receiver ended before it listened", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
