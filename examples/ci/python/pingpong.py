"""Messages over RDMA with pyverbs: a server that answers in upper case, and its client.

    python3 pingpong.py serve ADDRESS
    python3 pingpong.py ask ADDRESS TEXT...
"""
import sys

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.qp import QPCap, QPInitAttr

SERVICE = "7471"
SIZE = 256  # octets of a message


def endpoint(**where):
    """Returns a connection identifier for an address and its queue pair."""
    info = AddrInfo(port_space=ce.RDMA_PS_TCP, **where)
    cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
    return CMID(creator=info, qp_init_attr=QPInitAttr(cap=cap, qp_type=e.IBV_QPT_RC, sq_sig_all=1))


def send(conn, region, text):
    """Sends one message and waits until the peer has it."""
    data = text.encode()[: SIZE - 1]
    region.write(data + b"\0" * (SIZE - len(data)), SIZE)
    conn.post_send(region)
    conn.get_send_comp()


def received(conn, region):
    """Waits for a message in a region that was posted, and returns its text."""
    conn.get_recv_comp()
    return region.read(SIZE, 0).split(b"\0")[0].decode()


def serve(address):
    """Answers the messages of one client until it says nothing."""
    listener = endpoint(src=address, src_service=SERVICE, flags=ce.RAI_PASSIVE)
    listener.listen()
    conn = listener.get_request()
    inbox, outbox = conn.reg_msgs(SIZE), conn.reg_msgs(SIZE)
    conn.post_recv(inbox)
    conn.accept()
    while text := received(conn, inbox):
        conn.post_recv(inbox)
        send(conn, outbox, text.upper())
    conn.disconnect()


def ask(address, texts):
    """Returns the server's answer to each text."""
    conn = endpoint(dst=address, dst_service=SERVICE)
    inbox, outbox = conn.reg_msgs(SIZE), conn.reg_msgs(SIZE)
    conn.connect()
    answers = []
    for text in texts:
        conn.post_recv(inbox)
        send(conn, outbox, text)
        answers.append(received(conn, inbox))
    send(conn, outbox, "")
    conn.disconnect()
    return answers


if __name__ == "__main__":
    verb, address, *texts = sys.argv[1:]
    if verb == "serve":
        serve(address)
    else:
        print("\n".join(ask(address, texts)))
