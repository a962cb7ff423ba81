"""What the udp port puts on the wire, as others see it: packets are captured on the loopback while the driver's tests run.

The IP headers are the kernel's, and the checksum is computed with zlib. So this is what a RoCE device would check.
"""

import os
import select
import socket
import struct
import subprocess
import sys
import unittest

from icrc import checksum

PROGRAM = sys.argv.pop()
ALL_PACKETS = 3  # ETH_P_ALL
OUTGOING = 4
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_VNET_HDR = 263, 15
VNET, ETHERNET, IP, UDP, BASE, CHECKSUM = 10, 14, 20, 8, 12, 4
RELIABLE_CONNECTION = set(range(0x15)) | {0x16, 0x17, 0xC0, 0xC1}


def frames(sniffer, program):
    """All frames until the program has ended. They are looked at later: meanwhile the next ones would get lost."""
    result = []
    while True:
        if select.select([sniffer], [], [], 0.2)[0]:
            result.append(sniffer.recvfrom(70000))
        elif program.poll() is not None:
            return result


def cut(ip, udp, payload, each):
    """The packets of a run, as the kernel cuts it where it leaves the machine: test_checksums_... in namespaces_test.py."""
    for place in range((len(payload) + each - 1) // each):
        packet = payload[place * each : (place + 1) * each]
        own_ip, own_udp = bytearray(ip), bytearray(udp)
        struct.pack_into(">HH", own_ip, 2, IP + UDP + len(packet), struct.unpack_from(">H", ip, 4)[0] + place)
        struct.pack_into(">H", own_udp, 4, UDP + len(packet))
        yield bytes(own_ip), bytes(own_udp), packet


def captured(sniffer, program):
    """Yields (IP header, UDP header, packet) of what looks like RoCEv2."""
    for told, address in frames(sniffer, program):
        each, frame = struct.unpack_from("<H", told, 4)[0], told[VNET:]
        ip, rest = frame[ETHERNET : ETHERNET + IP], frame[ETHERNET + IP :]
        is_ipv4 = frame[12:14] == b"\x08\x00" and ip[0] == 0x45 and ip[9] == socket.IPPROTO_UDP
        if address[2] == OUTGOING or not is_ipv4 or len(rest) < UDP + BASE + CHECKSUM:
            continue
        if rest[UDP + 2 : UDP + 4] == b"\xff\xff" and rest[UDP] in RELIABLE_CONNECTION:
            udp, payload = rest[:UDP], rest[UDP:]
            yield from cut(ip, udp, payload, each) if each else [(ip, udp, payload)]


class Wire(unittest.TestCase):
    def test_packets_are_rocev2_with_right_checksums(self):
        try:
            sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PACKETS))
            self.addCleanup(sniffer.close)
            sniffer.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
            sniffer.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        except PermissionError:
            self.skipTest("may not capture packets")
        sniffer.bind(("lo", 0))
        program = subprocess.Popen(
            [PROGRAM, "--gtest_filter=*/software_nic_udp"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        opcodes, right, places = set(), 0, set()
        # Other programs' packets of the same look are no reason to fail; they have no right checksum, or another IP id.
        for ip, udp, packet in captured(sniffer, program):
            if checksum(ip, udp, packet[:-CHECKSUM]) != packet[-CHECKSUM:]:
                continue
            right += 1
            opcodes.add(packet[0])
            places.add(struct.unpack_from(">H", ip, 4)[0])
            self.assertEqual(ip[6:8], b"\x40\0", "no fragments")
            self.assertEqual(len(packet) % 4, 0)
        self.assertEqual(program.returncode, 0)
        self.assertGreater(right, 1000)
        self.assertEqual(places, set(range(max(places) + 1)), "identifications count from 0")
        sends, writes = {0x00, 0x01, 0x02, 0x04, 0x05, 0x17}, {0x06, 0x07, 0x08, 0x0A, 0x0B}
        wanted = sends | writes | {0x0C, 0x0D, 0x0F, 0x10, 0x11, 0x12, 0x13, 0x14}
        self.assertEqual(wanted - opcodes, set())


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"
    unittest.main()
