package ucma

import (
	"strings"
	"syscall"
	"testing"

	"tapir/nic/verbs"
)

// What a program must not do is refused with the errno that the kernel has for
// it.
func TestRefused(t *testing.T) {
	p := newPair(t, nil)
	c, s, l := p.connected("0.0.0.0:7471", "10.0.0.2:7471")
	b, err := p.s.create(l.ch) // bound to no NIC
	must(t, err, b.bind("0.0.0.0:8000"))
	const none = 77
	join := func(i *cmid) body {
		return body{}.u64(0).u64(0).addr("224.0.0.1:1", 28).u32(i.num)
	}
	for _, r := range []struct {
		name string
		cmd  uint32
		body body
		out  int
		want error
	}{
		{"create for UDP", cmdCreateID, body{}.u64(1).u64(p.s.addr).u16(portSpaceUDP).zero(6), 4, syscall.EPROTONOSUPPORT},
		{"create for IPoIB", cmdCreateID, body{}.u64(1).u64(p.s.addr).u16(portSpaceIPoIB).zero(6), 4, syscall.EPROTONOSUPPORT},
		{"create for nothing", cmdCreateID, body{}.u64(1).u64(p.s.addr).u16(9).zero(6), 4, syscall.EINVAL},
		{"create without room", cmdCreateID, body{}.u64(1).u64(p.s.addr).u16(portSpaceTCP).zero(6), 3, syscall.ENOSPC},
		{"destroy no id", cmdDestroyID, body{}.u64(p.s.addr).u32(none).u32(0), 4, syscall.ENOENT},
		{"destroy without room", cmdDestroyID, body{}.u64(p.s.addr).u32(b.num).u32(0), 0, syscall.ENOSPC},
		{"event without room", cmdGetEvent, body{}.u64(p.s.addr), eventLenOld - 1, syscall.ENOSPC},
		{"get option", cmdGetOption, body{}, 0, syscall.ENOSYS},
		{"option of InfiniBand", cmdSetOption, body{}.u64(p.s.addr).u32(b.num).u32(1).u32(1).u32(72), 0, syscall.ENOSYS},
		{"option unknown", cmdSetOption, body{}.u64(p.s.addr).u32(b.num).u32(levelID).u32(9).u32(1), 0, syscall.ENOSYS},
		{"option too long", cmdSetOption, body{}.u64(p.s.addr).u32(b.num).u32(levelID).u32(optionTOS).u32(4), 0, syscall.EINVAL},
		{"option of family too late", cmdSetOption, body{}.u64(p.s.addr).u32(l.num).u32(levelID).u32(optionAFOnly).u32(4), 0, syscall.EINVAL},
		{"attributes without NIC", cmdInitQPAttr, body{}.u64(p.s.addr).u32(b.num).u32(1), qpAttrLen, syscall.EINVAL},
		{"attributes without room", cmdInitQPAttr, body{}.u64(p.s.addr).u32(s.num).u32(1), qpAttrLen - 1, syscall.ENOSPC},
		{"attributes for SQD", cmdInitQPAttr, body{}.u64(p.s.addr).u32(s.num).u32(uint32(verbs.SQD)), qpAttrLen, syscall.EINVAL},
		{"attributes for no state", cmdInitQPAttr, body{}.u64(p.s.addr).u32(s.num).u32(7), qpAttrLen, syscall.EINVAL},
		{"route without NIC", cmdResolveRoute, body{}.u32(b.num).u32(5), 0, syscall.EINVAL},
		{"listen twice", cmdListen, body{}.u32(l.num).u32(5), 0, syscall.EINVAL},
		{"listen connected", cmdListen, body{}.u32(s.num).u32(5), 0, syscall.EINVAL},
		{"disconnect without NIC", cmdDisconnect, body{}.u32(b.num), 0, syscall.EINVAL},
		{"notify", cmdNotify, body{}.u32(s.num).u32(4), 0, nil},
		{"notify without connection", cmdNotify, body{}.u32(b.num).u32(4), 0, syscall.EINVAL},
		{"join", cmdJoinIPMulticast, join(s), 4, syscall.ENOSYS},
		{"join without NIC", cmdJoinIPMulticast, join(b), 4, syscall.EINVAL},
		{"join, other form", cmdJoinMulticast, body{}.u64(0).u64(0).u32(s.num).zero(132), 4, syscall.ENOSYS},
		{"leave", cmdLeaveMulticast, body{}.u64(p.s.addr).u32(0).u32(0), 4, syscall.ENOENT},
		{"migrate no id", cmdMigrateID, body{}.u64(p.s.addr).u32(none).u32(0), 4, syscall.ENOENT},
		{"accept twice", cmdAccept, append(body{}.u64(1), s.param("", true)...).u32(s.num).zero(12), 0, syscall.EINVAL},
		{"establish what was not asked for", cmdAccept, body{}.zero(280).u32(s.num).zero(12), 0, syscall.EINVAL},
		{"connect connected", cmdConnect, append(s.param("", true), body{}.u32(s.num).zero(12)...), 0, syscall.EINVAL},
		{"reject accepted", cmdReject, body{}.u32(s.num).zero(260), 0, syscall.EINVAL},
		{"reject for no reason", cmdReject, append(body{}.u32(s.num), 0, 99).zero(258), 0, syscall.EINVAL},
		{"no command", numCommands, body{}.zero(300), 0, syscall.EINVAL},
		{"too short", cmdBindIP, body{}.zero(39), 0, syscall.EINVAL},
	} {
		if err := p.s.write(l.ch, r.cmd, r.body, r.out); err != r.want {
			t.Errorf("%s: %v, want %v", r.name, err, r.want)
		}
	}
	if err := l.ch.Command(p.s, []byte{1, 2}); err != syscall.EINVAL {
		t.Errorf("without a header: %v", err)
	}
	if err := l.ch.Command(p.s, body{}.u32(cmdListen).u16(9).u16(0).zero(8)); err != syscall.EINVAL {
		t.Errorf("longer than written: %v", err)
	}
	if l.ch.readable() || c.ch.readable() {
		t.Error("an event of what was refused")
	}
	must(t, c.disconnect())
	s.expect(Disconnected)
	p.checkEmpty(t, l.ch, c.ch)
}

// A queue pair that does not exist, or is another state's, connects nothing;
// the id may try again.
func TestConnectQP(t *testing.T) {
	p := newPair(t, nil)
	l, c := p.listener("0.0.0.0:7471"), p.resolved("10.0.0.2:7471")
	good := c.qpn
	for _, bad := range []uint32{0, 999} {
		if c.qpn = bad; c.connect("") != syscall.EINVAL {
			t.Errorf("connected QP %d", bad)
		}
	}
	c.qpn = good
	must(t, c.qp.Modify(verbs.Err))
	if err := c.connect(""); err != syscall.EINVAL {
		t.Errorf("connected a QP in error: %v", err)
	}
	must(t, c.qp.Modify(verbs.Reset), c.connect(""))
	s, _ := l.request()
	s.qpn = 999
	if err := s.accept(""); err != syscall.EINVAL {
		t.Errorf("accepted with no QP: %v", err)
	}
	c.expect(Rejected) // as the kernel does with what cannot be accepted
	p.checkEmpty(t, l.ch, c.ch)
}

// Private data of every length that fits arrives unchanged, all three ways.
func TestPrivateData(t *testing.T) {
	for _, n := range []int{0, 1, 56, 196, 255} {
		p := newPair(t, nil)
		l := p.listener("0.0.0.0:7471")
		data := strings.Repeat("\x00a\xff", 85)[:n]
		c, d := p.resolved("10.0.0.2:7471"), p.resolved("10.0.0.2:7471")
		must(t, c.connect(data))
		s, asked := l.request()
		must(t, s.createQP(p.server), s.accept(data))
		yes := c.expect(Established)
		s.expect(Established)
		must(t, d.connect(data))
		r, _ := l.request()
		must(t, r.reject(data))
		no := d.expect(Rejected)
		for _, ev := range []fetched{asked, yes, no} {
			if ev.private != data {
				t.Errorf("%d octets became %q with event %d", n, ev.private, ev.typ)
			}
		}
		p.checkEmpty(t, l.ch, c.ch, d.ch)
	}
}
