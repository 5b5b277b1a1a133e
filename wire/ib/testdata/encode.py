"""Builds RoCEv2 packets with scapy's layers, as an independent encoder.

Standard input has one packet a line: the fields of BTH in decimal (opcode,
solicited, migreq, pad, pkey, fecn, becn, destination QP, ackreq, PSN), source
and destination address, source port, IP identification, and in hexadecimal
what follows the BTH ("-" for nothing). The output has the packet, from the IP
header on, in hexadecimal.
"""
import sys

from scapy.contrib.roce import AETH, BTH, cnp
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

for line in sys.stdin:
    op, se, mig, pad, pkey, fecn, becn, qp, ack, psn, src, dst, port, ident, rest = line.split()
    bth = BTH(opcode=int(op), solicited=int(se), migreq=int(mig), padcount=int(pad), pkey=int(pkey), fecn=int(fecn),
              becn=int(becn), dqpn=int(qp), ackreq=int(ack), psn=int(psn))
    if int(op) == 0x11:
        bth /= AETH(bytes.fromhex(rest))
    elif int(op) == 0x81:
        bth /= cnp(0).payload
    elif rest != "-":
        bth /= Raw(bytes.fromhex(rest))
    print(bytes(IP(src=src, dst=dst, id=int(ident), flags="DF", ttl=64) / UDP(sport=int(port), dport=4791, chksum=0) / bth).hex())
