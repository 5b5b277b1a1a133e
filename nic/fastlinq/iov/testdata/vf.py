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


WAITING, SUCCESS, FAILURE, NOT_SUPPORTED, NO_RESOURCE, FORCED, MALICIOUS, ACQUIRED = range(8)
REPLY_ADDR, BULLETIN_ADDR = 0x5000, 0x9000
END = struct.pack("<HH4x", 13, 8)


def request(name, *values, more=b"", reply=REPLY_ADDR):
    typ, size, fmt = TLVS[name]
    want = len(list(fields(fmt))) - 1
    return build(typ, size, fmt, [reply] + list(values) + [0] * (want - len(values))) + more + END


def part(name, *values):
    typ, size, fmt = TLVS[name]
    return build(typ, size, fmt, list(values) + [0] * (len(list(fields(fmt))) - len(values)))


def acquire(caps=0, hsi=(3, 11), os=4, want=(1, 1, 1, 1, 2, 0, 32), bulletin=80, reply=REPLY_ADDR):
    return request("ACQUIRE", caps, 8, 59, 0, 0, 1, 0, os, *hsi, *want, BULLETIN_ADDR, bulletin, reply=reply)


class Gone(Exception):
    pass


class VF:
    """The driver's end of the channel's socket."""

    def __init__(self, path, vf):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(path)
        self.buf = b""
        self.mem = {}
        self.order = []
        if vf != "raw":
            self.http("/v1/version?control=1", "200")
            self.http("/v1/vf/%s/channel" % vf, "101", "Connection: Upgrade\r\nUpgrade: tapir-vf\r\n")

    def http(self, path, want, more=""):
        self.sock.sendall(("GET %s HTTP/1.1\r\nHost: nic\r\n%s\r\n" % (path, more)).encode())
        while b"\r\n\r\n" not in self.buf:
            self.read()
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        status = head.split()[1].decode()
        n = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                n = int(line.split(b":")[1])
        body = self.take(n)
        if status != want:
            raise Gone("%s: %s %s" % (path, status, body.decode()))

    def read(self):
        b = self.sock.recv(65536)
        if not b:
            raise Gone("the PF has closed the connection")
        self.buf += b

    def take(self, n):
        while len(self.buf) < n:
            self.read()
        b, self.buf = self.buf[:n], self.buf[n:]
        return b

    def next(self):
        """Takes a frame; returns the body of one that answers the trigger, else None."""
        n, kind = struct.unpack("<IB", self.take(5))
        body = self.take(n - 1)
        if kind == 2:
            (addr,) = struct.unpack_from("<Q", body)
            self.order.append(addr)
            self.write(addr, body[8:])
        elif kind == 3:
            return body.decode()
        else:
            raise Gone(body.decode())

    def trigger(self, msg):
        """Rings the trigger; returns why the PF does not take the message, or an empty text."""
        self.order = []
        self.sock.sendall(struct.pack("<IB", len(msg) + 1, 1) + msg)
        why = None
        while why is None:
            why = self.next()
        return why

    def write(self, addr, b):
        for i, octet in enumerate(b):
            self.mem[(addr + i) % (1 << 64)] = octet

    def at(self, addr, n):
        return bytes(self.mem.get(addr + i, 0) for i in range(n))

    def ask(self, msg):
        """Sends a request and returns the status, 0 without a reply."""
        self.write(REPLY_ADDR, bytes(8))
        why = self.trigger(msg)
        while not why and self.at(REPLY_ADDR, 5)[4] == WAITING:  # by the hardware's channel it comes later
            self.next()
        status = self.at(REPLY_ADDR, 5)[4]
        if status and self.order[-2:] != [REPLY_ADDR + 8, REPLY_ADDR]:
            raise Gone("the status is not written last: %s" % self.order)
        return status

    def resources(self):
        """What ACQUIRE has granted, or suggests."""
        b = self.at(REPLY_ADDR, 256)
        return {"hsi": tuple(b[78:80]), "sb": struct.unpack_from("<H", b, 80)[0], "num": tuple(b[240:247]),
                "bulletin": struct.unpack_from("<I", b, 248)[0]}

    def bulletin(self, size=80):
        b = self.at(BULLETIN_ADDR, size)
        if struct.unpack_from("<I", b)[0] != crc(b[4:]):
            raise Gone("the bulletin's CRC is wrong")
        return b


def check(what, got, want):
    if got != want:
        raise SystemExit("%s: %r, want %r" % (what, got, want))


def matrix(vf):
    """ACQUIRE with versions, capabilities, resources and bulletins, as drivers may differ."""
    n = 0
    for major in (2, 3, 4):
        for minor in (0, 5, 11, 99):
            for caps in (0, 1, 2, 4, 8, 15):
                for os in (0, 1, 4):
                    ok = major == 3 or caps & 1
                    check("HSI %d.%d, caps %d" % (major, minor, caps), vf.ask(acquire(caps, (major, minor), os)),
                          SUCCESS if ok else NOT_SUPPORTED)
                    r = vf.resources()
                    want = (3, (5 if major != 3 else min(minor, 11)) if ok else 11)
                    check("version of the PF", r["hsi"], want)
                    if ok:
                        check("again", vf.ask(acquire()), ACQUIRED)
                        check("RELEASE", vf.ask(request("RELEASE")), SUCCESS)
                    n += 1
    for i in range(7):  # one more of each resource than there is: the PF suggests what there is
        want = [0] * 7
        want[i] = 200
        check("want %s" % want, vf.ask(acquire(want=want)), NO_RESOURCE)
        want[i] = vf.resources()["num"][i]
        check("want %s" % want, vf.ask(acquire(want=want)), SUCCESS)
        check("RELEASE", vf.ask(request("RELEASE")), SUCCESS)
        n += 1
    for size in (0, 8, 16, 32, 79, 80, 81, 4000):
        check("bulletin of %d" % size, vf.ask(acquire(bulletin=size)), SUCCESS)
        agreed = vf.resources()["bulletin"]
        check("agreed size", agreed, min(size, 80))
        if agreed >= 16:
            vf.bulletin(agreed)
        check("SOFT_FLR", vf.ask(request("SOFT_FLR")), SUCCESS)
        n += 1
    return n


def up(vf):
    check("ACQUIRE", vf.ask(acquire()), SUCCESS)
    sb = vf.resources()["sb"]
    check("VPORT_START", vf.ask(request("VPORT_START", *[1] * 16, 0, 0, 1500)), SUCCESS)
    check("START_RXQ", vf.ask(request("START_RXQ", 1, 0, 2, 8, sb, 0, 0, 2048)), SUCCESS)
    check("START_TXQ", vf.ask(request("START_TXQ", 1, 8, 0, 0, sb, 0, 0, 1)), SUCCESS)
    check("VPORT_UPDATE", vf.ask(request("VPORT_UPDATE", more=part("ACTIVATE", 1, 1, 1, 1) +
                                         part("ACCEPT_PARAM", 1, 1, 0x2a, 0x2a))), SUCCESS)
    return sb


def messages(sb):
    return [
        acquire(), request("VPORT_START", *[1] * 16, 0, 0, 1500), request("START_RXQ", 1, 0, 2, 8, sb, 0, 0, 2048),
        request("START_TXQ", 1, 8, 0, 0, sb, 0, 0, 1),
        request("VPORT_UPDATE", more=part("ACTIVATE", 1, 1, 1, 1) + part("ACCEPT_PARAM", 1, 1, 0x3f, 0x3f) +
                part("RSS", 15, 1, 15, 7) + part("MCAST", 1, 2, 3, 4) + part("SGE_TPA", 3, 6, 0, 0, 9000, 700, 700, 8)),
        request("VPORT_UPDATE", more=part("TX_SWITCH", 1) + part("VLAN_STRIP", 1) + part("ACCEPT_ANY_VLAN", 1, 1)),
        request("UCAST_FILTER", 3, 0, 2, 0, 0, 0, 5, 5), request("UCAST_FILTER", 0, 1, 0, 0, 0, 0, 0, 0, 7),
        request("UPDATE_MTU", 1400), request("COALESCE_UPDATE", 20, 40), request("COALESCE_READ", 0, 1),
        request("UPDATE_RXQ", *[0] * 16, 0, 1), request("UPDATE_TUNN_PARAM", 31, 31, 1),
        request("BULLETIN_UPDATE_MAC", 2, 0, 0, 0, 5, 5), request("STOP_RXQS", 0, 1), request("STOP_TXQS", 0, 1),
        request("INT_CLEANUP"), request("CLOSE"), request("RELEASE"), request("VPORT_TEARDOWN"), request("SOFT_FLR"),
    ]


def mutate(rnd, b):
    b = bytearray(b)
    for _ in range(rnd.randrange(4)):
        at = rnd.randrange(len(b) or 1)
        how = rnd.randrange(5)
        if how == 0 and b:
            b[at] = rnd.randrange(256)
        elif how == 1 and b:
            b[at] ^= 1 << rnd.randrange(8)
        elif how == 2:
            del b[at:]
        elif how == 3:
            b[at:at] = bytes([rnd.randrange(256)])
        elif b:
            b += b[at:at + rnd.randrange(64)] * rnd.randrange(4)
    return bytes(b[:3000])


def drive(path, number, seed, n):
    rnd = random.Random(int(seed))
    vf = VF(path, number)
    tried = matrix(vf)
    base = messages(up(vf))
    answered, statuses, lives, refused = 0, set(), 1, 0
    for _ in range(int(n)):
        vf.write(REPLY_ADDR, bytes(8))
        if vf.trigger(mutate(rnd, rnd.choice(base))):
            refused += 1
        status = vf.at(REPLY_ADDR, 5)[4]
        if status:
            answered += 1
            statuses.add(status)
        if status == MALICIOUS:  # only a reset helps: end the life of this driver
            vf.sock.close()
            vf = VF(path, number)
            lives += 1
    vf.sock.close()
    vf = VF(path, number)
    up(vf)
    print("matrix %d, mutated %s, answered %d, statuses %s, lives %d, not taken %d" %
          (tried, n, answered, sorted(statuses), lives, refused))


if __name__ == "__main__":
    if sys.argv[1] == "golden":
        golden()
    else:
        drive(*sys.argv[2:])
