"""What a program can write into its queues, through the stock librxe: two
queue pairs of one program, connected over one NIC. queues.py ADDRESS PORT"""
import ctypes
import mmap
import struct
import sys
import time

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
from pyverbs.cq import CQ
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.qp import QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR

OPS = (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_INV | e.IBV_QP_EX_WITH_RDMA_WRITE |
       e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_READ |
       e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
       e.IBV_QP_EX_WITH_LOCAL_INV | e.IBV_QP_EX_WITH_BIND_MW)
SIGNALED = e.IBV_SEND_SIGNALED
MAP_NORESERVE = 0x4000  # of linux/mman.h; Python 3.11 has no name for it


class End:
    def __init__(self, cmid):
        self.pd = cmid.pd
        self.cq = CQ(cmid.context, 20, None, None, 0)
        cap = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=3, max_recv_sge=3, max_inline_data=64)
        self.qp = QPEx(cmid.context, QPInitAttrEx(
            qp_type=e.IBV_QPT_RC, cap=cap, scq=self.cq, rcq=self.cq, sq_sig_all=0, pd=self.pd, send_ops_flags=OPS,
            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
        self.mr = MR(self.pd, 1 << 16, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE |
                     e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC | e.IBV_ACCESS_MW_BIND)
        self.qp.modify(*cmid.init_qp_attr(e.IBV_QPS_INIT))

    def sge(self, off, n):
        return SGE(self.mr.buf + off, n, self.mr.lkey)

    def recv(self, wr_id, off=0, n=4096):
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[self.sge(off, n)]))

    def post(self, *steps, wr_id=0, flags=SIGNALED):
        self.qp.wr_id, self.qp.wr_flags = wr_id, flags
        self.qp.wr_start()
        for name, *args in steps:
            getattr(self.qp, name)(*args)
        self.qp.wr_complete()

    def poll(self, n=1):
        out, end = [], time.time() + 20
        while len(out) < n:
            out += self.cq.poll(n - len(out))[1]
            assert time.time() < end, f'{len(out)} completions of {n}'
        return out

    def done(self, opcode, **want):
        wc, = self.poll()
        got = {k: getattr(wc, k) for k in want}
        assert wc.status == 0 and wc.opcode == opcode and got == want, (wc.status, wc.opcode, got, want)
        return wc


def event(channel, want):
    ev = CMEvent(channel)
    assert ev.event_type == want, ev.event_str()
    return ev


def connect(ip, port):
    passive, active = CMEventChannel(), CMEventChannel()
    listener = CMID(creator=passive, port_space=ce.RDMA_PS_TCP)
    listener.bind_addr(AddrInfo(src=ip, src_service=port, port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE))
    listener.listen()
    cmid = CMID(creator=active, port_space=ce.RDMA_PS_TCP)
    cmid.resolve_addr(AddrInfo(src=ip, dst=ip, dst_service=port, port_space=ce.RDMA_PS_TCP))
    event(active, ce.RDMA_CM_EVENT_ADDR_RESOLVED).ack_cm_event()
    cmid.resolve_route()
    event(active, ce.RDMA_CM_EVENT_ROUTE_RESOLVED).ack_cm_event()
    c = End(cmid)
    cmid.connect(ConnParam(qp_num=c.qp.qp_num))
    request = event(passive, ce.RDMA_CM_EVENT_CONNECT_REQUEST)
    child = CMID(creator=request, listen_id=listener)
    request.ack_cm_event()
    s = End(child)
    child.accept(ConnParam(qp_num=s.qp.qp_num))
    event(passive, ce.RDMA_CM_EVENT_ESTABLISHED).ack_cm_event()
    event(active, ce.RDMA_CM_EVENT_ESTABLISHED).ack_cm_event()
    return c, s, (cmid, child, listener, active, passive)


def data(c, s):
    c.mr.write(b'inline data', 11, 0)
    s.recv(1)
    c.post(('wr_send',), ('wr_set_inline_data', c.mr.buf, 11), wr_id=11)
    c.done(e.IBV_WC_SEND, wr_id=11)
    s.done(e.IBV_WC_RECV, wr_id=1, byte_len=11, qp_num=s.qp.qp_num)
    assert s.mr.read(11, 0) == b'inline data'

    want = b'A' * 3000 + b'B' * 3000
    c.mr.write(want[:3000], 3000, 0)
    c.mr.write(want[3000:], 3000, 10000)
    s.recv(2)
    c.post(('wr_rdma_write_imm', s.mr.rkey, s.mr.buf + 20000, 0x12345678),
           ('wr_set_sge_list', 2, [c.sge(0, 3000), c.sge(10000, 3000)]))
    c.done(e.IBV_WC_RDMA_WRITE)
    wc = s.done(e.IBV_WC_RECV_RDMA_WITH_IMM, wr_id=2, byte_len=6000, wc_flags=e.IBV_WC_WITH_IMM)
    assert wc.imm_data == 0x78563412, hex(wc.imm_data)  # pyverbs swaps what it reads, not what it writes
    assert s.mr.read(6000, 20000) == want

    c.post(('wr_rdma_read', s.mr.rkey, s.mr.buf + 20000), ('wr_set_sge', c.sge(40000, 6000)))
    c.done(e.IBV_WC_RDMA_READ, byte_len=6000)
    assert c.mr.read(6000, 40000) == want

    s.mr.write(struct.pack('=Q', 5), 8, 64)
    c.post(('wr_atomic_fetch_add', s.mr.rkey, s.mr.buf + 64, 7), ('wr_set_sge', c.sge(128, 8)))
    c.done(e.IBV_WC_FETCH_ADD)
    c.post(('wr_atomic_cmp_swp', s.mr.rkey, s.mr.buf + 64, 12, 99), ('wr_set_sge', c.sge(136, 8)))
    c.done(e.IBV_WC_COMP_SWAP)
    assert struct.unpack('=QQ', c.mr.read(16, 128)) == (5, 12)
    assert struct.unpack('=Q', s.mr.read(8, 64)) == (99,)


def windows(c, s):
    w2 = MW(s.pd, e.IBV_MW_TYPE_2)
    key = w2.rkey & ~0xff | (w2.rkey + 1) & 0xff
    s.post(('wr_bind_mw', w2, key, MWBindInfo(s.mr, s.mr.buf + 30000, 1000, e.IBV_ACCESS_REMOTE_WRITE)), wr_id=77)
    s.done(e.IBV_WC_BIND_MW, wr_id=77)
    c.post(('wr_rdma_write', key, s.mr.buf + 30010), ('wr_set_sge', c.sge(0, 500)))
    c.done(e.IBV_WC_RDMA_WRITE)
    s.recv(3)
    c.post(('wr_send_inv', key), ('wr_set_sge', c.sge(0, 10)))
    c.done(e.IBV_WC_SEND)
    s.done(e.IBV_WC_RECV, wr_id=3, wc_flags=e.IBV_WC_WITH_INV)
    assert s.mr.read(500, 30010) == c.mr.read(500, 0)

    w1 = MW(s.pd, e.IBV_MW_TYPE_1)
    s.qp.bind_mw(w1, MWBind(MWBindInfo(s.mr, s.mr.buf + 50000, 100, e.IBV_ACCESS_REMOTE_WRITE), wr_id=5, send_flags=SIGNALED))
    s.done(e.IBV_WC_BIND_MW, wr_id=5)
    c.post(('wr_rdma_write', w1.rkey, s.mr.buf + 50000), ('wr_set_sge', c.sge(0, 100)))
    c.done(e.IBV_WC_RDMA_WRITE)
    s.recv(4)  # what comes behind the Write says that it is in place
    c.post(('wr_send',), ('wr_set_sge', c.sge(0, 10)))
    c.done(e.IBV_WC_SEND)
    s.done(e.IBV_WC_RECV, wr_id=4)
    assert s.mr.read(100, 50000) == c.mr.read(100, 0)
    w2.close()
    w1.close()


def rings(c, s):
    for i in range(10):  # a CQ is resized while completions wait
        s.recv(100 + i)
        c.post(('wr_send',), ('wr_set_sge', c.sge(0, 4)), wr_id=200 + i)
    time.sleep(0.2)
    c.cq.resize(400)
    s.cq.resize(200)
    assert [w.wr_id for w in c.poll(10)] == list(range(200, 210))
    assert [w.wr_id for w in s.poll(10)] == list(range(100, 110))
    for _ in range(40):  # the send queue goes round
        for i in range(8):
            c.post(('wr_rdma_write', s.mr.rkey, s.mr.buf + 1000 * i), ('wr_set_sge', c.sge(0, 1000)),
                   wr_id=i, flags=SIGNALED if i == 7 else 0)
        c.done(e.IBV_WC_RDMA_WRITE, wr_id=7)


def regions(c, s):
    """1, 2 and 5 GiB, sparse: what is written at the end of one is at the end of the other."""
    rights = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
    n = 4096
    for size in 1 << 30, 2 << 30, 5 << 30:
        maps = [mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE) for _ in range(2)]
        at = [ctypes.addressof(ctypes.c_char.from_buffer(m)) for m in maps]
        source, sink = MR(c.pd, size, rights, address=at[0]), MR(s.pd, size, rights, address=at[1])
        for off in 0, (1 << 30) - n, size - n:
            maps[0][off:off + n] = want = struct.pack('=Q', off + size) * (n // 8)
            c.post(('wr_rdma_write', sink.rkey, at[1] + off), ('wr_set_sge', SGE(at[0] + off, n, source.lkey)), wr_id=off)
            c.done(e.IBV_WC_RDMA_WRITE, wr_id=off)
            c.post(('wr_rdma_read', sink.rkey, at[1] + off), ('wr_set_sge', c.sge(0, n)))  # when the write is there
            c.done(e.IBV_WC_RDMA_READ)
            assert maps[1][off:off + n] == want, off
        source.close()
        sink.close()


def errors(c, s):
    s.recv(500)
    c.post(('wr_rdma_read', s.mr.rkey ^ 0x100, s.mr.buf), ('wr_set_sge', c.sge(0, 10)), wr_id=1)
    wc, = c.poll()
    assert (wc.wr_id, wc.status) == (1, e.IBV_WC_REM_ACCESS_ERR), (wc.wr_id, wc.status)
    wc, = s.poll()
    assert (wc.wr_id, wc.status) == (500, e.IBV_WC_WR_FLUSH_ERR), (wc.wr_id, wc.status)
    c.recv(9)
    c.post(('wr_send',), ('wr_set_sge', c.sge(0, 10)), wr_id=8)
    assert [(w.wr_id, w.status) for w in c.poll(2)] == [(8, e.IBV_WC_WR_FLUSH_ERR), (9, e.IBV_WC_WR_FLUSH_ERR)]
    c.recv(10)  # without a doorbell
    assert [(w.wr_id, w.status) for w in c.poll()] == [(10, e.IBV_WC_WR_FLUSH_ERR)]


c, s, ids = connect(sys.argv[1], sys.argv[2])
for part in data, windows, rings, regions, errors:
    part(c, s)
    print(part.__name__, 'ok', flush=True)
