"""The messages between VFs and PF, built from the table of their fields alone.

    vf.py golden                 print each message with numbered fields, as hex
    vf.py drive SOCKET VF SEED N    try ACQUIRE in all ways, then N mutated messages

It shares no code with the Go packages it checks.
"""
import random
import socket
import struct
import sys

FIRST = "4xQ"
# type, size and fields behind the header, as in the tables of the channel's interface
TLVS = {
    "ACQUIRE": (1, 64, FIRST + "Q4BIHBBB3x" + "7Bx" + "QI4x"),
    "VPORT_START": (2, 160, FIRST + "16Q" + "IHH4B4x"),
    "VPORT_UPDATE": (3, 16, FIRST),
    "VPORT_TEARDOWN": (4, 16, FIRST),
    "START_RXQ": (5, 56, FIRST + "QQQ6HB3x"),
    "START_TXQ": (6, 48, FIRST + "QHHHHIHB9x"),
    "STOP_RXQS": (7, 24, FIRST + "HBB4x"),
    "STOP_TXQS": (8, 24, FIRST + "HB5x"),
    "UPDATE_RXQ": (9, 152, FIRST + "16QHBB4x"),
    "INT_CLEANUP": (10, 16, FIRST),
    "CLOSE": (11, 16, FIRST),
    "RELEASE": (12, 16, FIRST),
    "LIST_END": (13, 8, "4x"),
    "UCAST_FILTER": (14, 32, FIRST + "BB6BH6x"),
    "ACTIVATE": (15, 8, "4B"),
    "TX_SWITCH": (16, 8, "B3x"),
    "VLAN_STRIP": (17, 8, "B3x"),
    "MCAST": (18, 72, "4x8Q"),
    "ACCEPT_PARAM": (19, 8, "4B"),
    "RSS": (20, 304, "4B128H40B"),
    "ACCEPT_ANY_VLAN": (21, 8, "BB2x"),
    "SGE_TPA": (22, 24, "HBBHHHHB7x"),
    "UPDATE_TUNN_PARAM": (23, 32, FIRST + "10BHH2x"),
    "COALESCE_UPDATE": (24, 24, FIRST + "HHH2x"),
    "QID": (25, 8, "B3x"),
    "COALESCE_READ": (26, 24, FIRST + "HB5x"),
    "BULLETIN_UPDATE_MAC": (27, 24, FIRST + "6B2x"),
    "UPDATE_MTU": (28, 24, FIRST + "H6x"),
    "SOFT_FLR": (61, 24, FIRST + "II"),
}
REPLY = "B3x"
REPLIES = {
    "DEFAULT": (3, 8, REPLY),
    "ACQUIRE": (1, 256, REPLY + "II4HQHBBHBB8I6BBB" + "HB5x" * 16 + "16B16B7Bx" + "I4x"),
    "START_RXQ": (5, 16, REPLY + "I4x"),
    "UPDATE_TUNN_PARAM": (23, 24, REPLY + "H10BHH"),
    "COALESCE_READ": (26, 16, REPLY + "H6x"),
}
BULLETIN = "IIQ6BBx" + "4B4xIII4x" + "10B" + "HH2x" + "III" + "H2x"
SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8}


def fields(fmt):
    """The sizes of the fields of a format, pads left out."""
    count = ""
    for c in fmt:
        if c.isdigit():
            count += c
            continue
        if c != "x":
            yield from [SIZES[c]] * int(count or 1)
        count = ""


def numbered(fmt):
    """Field n of a format holds n times 0x0102..., as much of it as fits."""
    return [(n * 0x0102030405060708) % (1 << 8 * size) for n, size in enumerate(fields(fmt), 1)]


def build(typ, size, fmt, values):
    b = struct.pack("<HH" + fmt, typ, size, *values)
    assert len(b) == size, (typ, len(b), size)
    return b


def golden():
    for kind, table in (("request", TLVS), ("reply", REPLIES)):
        for name, (typ, size, fmt) in table.items():
            print(kind, name, build(typ, size, fmt, numbered(fmt)).hex())
    b = struct.pack("<" + BULLETIN, *numbered(BULLETIN))
    assert len(b) == 80
    print("bulletin", "-", b.hex())
    for size in (80, 64, 96):
        image = (b + bytes(96))[:size]
        print("crc", size, "%08x" % crc(image[4:]))
    print("crc", "check", "%08x" % crc(b"123456789"))


def crc(b):
    """CRC-32 reflected, seed 0, not inverted; bit by bit."""
    c = 0
    for octet in b:
        c ^= octet
        for _ in range(8):
            c = c >> 1 ^ (0xEDB88320 if c & 1 else 0)
    return c


if __name__ == "__main__":
    if sys.argv[1] == "golden":
        golden()
