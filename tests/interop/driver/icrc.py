"""The checksum of RoCEv2 packets over IPv4, by zlib: what a RoCE device would check."""

import struct
import zlib


def checksum(ip, udp, packet):
    """The ICRC: annex A17.3.3 of the InfiniBand Architecture Specification. `packet` is without it."""
    ip, udp, packet = bytearray(ip), bytearray(udp), bytearray(packet)
    for changes in (1, 8, 10, 11):
        ip[changes] = 0xFF
    udp[6] = udp[7] = 0xFF
    packet[4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + packet))
