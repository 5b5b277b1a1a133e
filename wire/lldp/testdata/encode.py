"""Builds an LLDPDU with scapy's layers, as an independent encoder. Of DCBX scapy has only
the frame of a TLV; the contents are packed here as IEEE 802.1Q-2018 annex D draws them."""
from scapy.layers.l2 import Ether
from scapy.contrib.lldp import (LLDPDUChassisID, LLDPDUEndOfLLDPDU, LLDPDUGenericOrganisationSpecific,
                                LLDPDUPortDescription, LLDPDUPortID, LLDPDUSystemCapabilities, LLDPDUSystemDescription,
                                LLDPDUSystemName, LLDPDUTimeToLive)


def fields(*list):
    """Packs (value, bits) pairs, the first in the highest bits."""
    n, length = 0, 0
    for value, bits in list:
        n, length = n << bits | value, length + bits
    return n.to_bytes(length // 8, "big")


def octets(*values):
    return [(v, 8) for v in values]


def org(subtype, data, code=0x0080C2):
    return LLDPDUGenericOrganisationSpecific(org_code=code, subtype=subtype, data=data)


prio_tc = [(tc, 4) for tc in (0, 1, 2, 3, 0, 0, 0, 7)]
tables = prio_tc + octets(30, 30, 40, 0, 0, 0, 0, 0) + octets(2, 2, 2, 0, 0, 0, 0, 0)
pdu = (Ether() / LLDPDUChassisID(subtype=4, id="02:00:00:00:00:01") / LLDPDUPortID(subtype=5, id="eth0") / LLDPDUTimeToLive(ttl=121)
       / LLDPDUPortDescription(description="wire") / LLDPDUSystemName(system_name="nic0") /
       LLDPDUSystemDescription(description="a NIC") /
       LLDPDUSystemCapabilities(station_only_available=1, station_only_enabled=1) /
       org(1, fields((0, 6), (1, 1), (1, 1), (0x6C01, 16), (0x1E, 16)), code=0x00120F) /
       org(9, fields((1, 1), (0, 1), (0, 3), (4, 3), *tables)) / org(10, fields((0, 8), *tables)) /
       org(11, fields((0, 1), (1, 1), (0, 2), (8, 4), (0x08, 8))) /
       org(12, fields((0, 8), (3, 3), (0, 2), (3, 3), (4791, 16), (4, 3), (0, 2), (2, 3), (3260, 16))) /
       LLDPDUEndOfLLDPDU())
print(bytes(pdu)[14:].hex())
