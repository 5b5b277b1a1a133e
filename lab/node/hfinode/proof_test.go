package hfinode_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tapir/lab/check/opabed"
	"tapir/lab/conf/hficonf"
	"tapir/lab/host/process"
	"tapir/lab/tool/tshark"
	"tapir/lab/tool/wireshark"
	"tapir/opa"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// dump runs stock tcpdump on a fabric TAP. end stops it and returns the file.
func dump(b *opabed.Bed, tap string) (end func() string) {
	b.T.Helper()
	if _, err := exec.LookPath("tcpdump"); err != nil {
		b.T.Skip("tcpdump: not installed: apt-get install tcpdump")
	}
	file := filepath.Join(b.T.TempDir(), tap+".pcap")
	d, err := process.Tcpdump(b.T.Context(), b.NS, tap, file, "-U", "-B", "65536")
	must(b.T, err)
	return func() string {
		must(b.T, d.Stop())
		return file
	}
}

// judge lets stock tcpdump, stock tshark and our dissector read a capture.
func judge(t *testing.T, file string) {
	t.Helper()
	if err := tshark.Available(); err != nil {
		t.Skip(err)
	}
	v, err := wireshark.Judge(t.Context(), file)
	must(t, err)
	if v.Packets16B == 0 || v.Inner != v.Packets16B || v.GoodICRC != v.Packets16B+v.Packets9B || v.Frames != v.Packets16B+v.Packets9B ||
		len(v.Malformed)+len(v.BadICRC)+len(v.Complaints) > 0 {
		t.Errorf("%s: %+v", filepath.Base(file), v)
	}
	out, err := exec.Command("tcpdump", "-n", "-r", file).Output()
	must(t, err)
	if n := bytes.Count(out, []byte("NSH, flags [none], service-path-id")); n != v.Packets16B {
		t.Errorf("%s: tcpdump decodes %d of %d packets", filepath.Base(file), n, v.Packets16B)
	}
}

// transfer sends size octets over TCP and compares what arrives.
func transfer(t *testing.T, from, to opabed.Space, addr string, size int) {
	t.Helper()
	var l net.Listener
	must(t, to.NS.Do(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(addr, "0"))
		return err
	}))
	defer l.Close()
	got := make(chan [32]byte, 1)
	go func() {
		sum := sha256.New()
		if c, err := l.Accept(); err == nil {
			io.Copy(sum, c)
			c.Close()
		}
		got <- [32]byte(sum.Sum(nil))
	}()
	var c net.Conn
	must(t, from.NS.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", l.Addr().String(), time.Minute)
		return err
	}))
	data := bytes.Repeat([]byte("Omni-Path carries Ethernet. "), size/28+1)[:size]
	must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err := c.Write(data)
	must(t, err, c.Close())
	if sum := <-got; sum != sha256.Sum256(data) {
		t.Errorf("%d octets to %s: other ones arrived", size, addr)
	}
}

// vm is a namespace behind a bridge with the host TAP in it: a random MAC.
func vm(s *opabed.Station, t *testing.T, tap, addr string) (opabed.Space, ether.Addr) {
	t.Helper()
	v := opabed.NewSpace(t)
	br := "br" + tap[len(tap)-1:]
	must(t, s.Net.AddBridge(br), s.Net.AddVeth("vm"+br, v.Net, "eth0"), s.Net.Join(tap, br), s.Net.Join("vm"+br, br),
		s.Net.Up("vm"+br), v.Net.AddAddr("eth0", prefix(addr)), v.Net.Up("eth0"))
	d, err := v.Net.Netdev("eth0")
	must(t, err)
	return v, ether.Addr(d.MAC)
}

// stations are what a vport has seen.
func stations(s *opabed.Station, t *testing.T, vesw uint16) (list []vnic.Station) {
	t.Helper()
	must(t, s.Node.DoWait(func(frame.Time) { list = s.Node.HFI().VPorts().VESW(vesw).Stations() }))
	return list
}

func TestTwoVESWsOverFourHFIs(t *testing.T) {
	b := opabed.New(t)
	var all [5]*opabed.Station
	for i := 1; i <= 4; i++ {
		// vESWs 2 and 258 are equal modulo 256; they share P_Key, multicast LID
		// and IP network, so that nothing but their ids keeps them apart.
		ids := []uint16{0, 2, 2, 258, 258}
		keys := []uint16{0, 0x8003, 0x0003, 0x0003, 0x8004}
		policy := vnic.DefaultPolicy()
		policy.TxStorm = frame.Rate{PerSecond: 1, Burst: 10}
		all[i] = b.Start(opabed.Number(i,
			hficonf.VNIC{VESW: ids[i], TAP: "blue", Mcast: 0xf00002, IP: ips(fmt.Sprintf("10.0.0.%d/24", i), fmt.Sprintf("fd00::%d/64", i))},
			hficonf.VNIC{VESW: 3, TAP: "keys", PKey: keys[i], IP: ips(fmt.Sprintf("10.3.0.%d/24", i))},
			hficonf.VNIC{VESW: 4, TAP: "vms4"},
			hficonf.VNIC{VESW: 5, TAP: "storm", Policy: policy, IP: ips(fmt.Sprintf("10.5.0.%d/24", i))},
		))
	}
	one, two, three, four := all[1], all[2], all[3], all[4]
	end1, end3 := dump(b, "fab1"), dump(b, "fab3")

	one.Ping(t, "10.0.0.2")
	three.Ping(t, "10.0.0.4")
	four.Ping(t, "fd00::3")
	one.Deaf(t, "10.0.0.3")
	four.Deaf(t, "10.0.0.2")
	await(t, "a packet of vESW 2 is refused by HFI 3", func() bool { return drops(t, three, opa.DropVESW) > 0 })

	one.Ping(t, "10.3.0.2") // full and limited
	three.Ping(t, "10.3.0.1")
	two.Deaf(t, "10.3.0.3") // limited both
	one.Deaf(t, "10.3.0.4") // another partition
	await(t, "a packet is refused for its P_Key", func() bool {
		return drops(t, four, opa.DropPKey)+vportDrops(t, four, 3, opa.DropPKey) > 0
	})

	transfer(t, one.Space, two.Space, "10.0.0.2", 1<<20)
	transfer(t, four.Space, three.Space, "10.0.0.3", 1<<20)
	tagged(t, one, two)

	vm1, mac1 := vm(one, t, "vms4", "10.4.0.1/24")
	vm2, mac2 := vm(four, t, "vms4", "10.4.0.2/24")
	vm1.Ping(t, "10.4.0.2")
	transfer(t, vm2, vm1, "10.4.0.1", 1<<18)
	learned(t, one, 4, mac2, 4)
	learned(t, four, 4, mac1, 1)
	learned(t, one, 4, mac1, 0)

	storm(t, one, two)
	judge(t, end1())
	judge(t, end3())
}

func drops(t *testing.T, s *opabed.Station, r frame.DropReason) (n uint64) {
	t.Helper()
	must(t, s.Node.DoWait(func(frame.Time) { n = s.Node.HFI().Port().Counts().RxDrops[r] }))
	return n
}

func vportDrops(t *testing.T, s *opabed.Station, vesw uint16, r frame.DropReason) (n uint64) {
	t.Helper()
	must(t, s.Node.DoWait(func(frame.Time) { n = s.Node.HFI().VPorts().VESW(vesw).Stats().RxDrops[r] }))
	return n
}

func learned(t *testing.T, s *opabed.Station, vesw uint16, mac ether.Addr, at int) {
	t.Helper()
	list := stations(s, t, vesw)
	for _, x := range list {
		if x.MAC == mac {
			if x.LID != opa.LID(at) {
				t.Errorf("%v was learned at %v, want LID %d", mac, x.LID, at)
			}
			return
		}
	}
	t.Errorf("%v was not learned: %+v", mac, list)
}

// tagged sends frames with a VLAN tag, as a VLAN interface on top of the VNIC
// does.
func tagged(t *testing.T, a, b *opabed.Station) {
	t.Helper()
	d, err := a.Net.Netdev("blue")
	must(t, err)
	to, err := b.Net.Netdev("blue")
	must(t, err)
	f := ether.Header{Dst: ether.Addr(to.MAC), Src: ether.Addr(d.MAC), NTags: 1, Tags: [2]ether.Tag{{TPID: ether.TypeVLAN, TCI: 5<<13 | 7}},
		Type: ether.TypeARP}.AppendTo(nil)
	f = append(f, 0, 1, 8, 0, 6, 4, 0, 1)
	f = append(append(f, d.MAC...), 10, 7, 0, 1)
	f = append(append(f, 0, 0, 0, 0, 0, 0), 10, 7, 0, 2)
	must(t, a.NS.Do(func() error {
		fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		for range 3 {
			if err := syscall.Sendto(fd, f, 0, &syscall.SockaddrLinklayer{Ifindex: d.Index}); err != nil {
				return err
			}
		}
		return nil
	}))
	await(t, "tagged frames arrive", func() bool { return b.Counter(t, "blue", "rx_vlan") == 3 })
}

// storm sends many broadcasts, of which few may pass.
func storm(t *testing.T, a, b *opabed.Station) {
	t.Helper()
	const sent = 300
	before := b.Counter(t, "storm", "rx_mcastbcast")
	must(t, a.NS.Do(func() error {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.5.0.1:0")))
		if err != nil {
			return err
		}
		defer c.Close()
		for range sent {
			if _, err := c.WriteToUDPAddrPort([]byte("storm"), netip.MustParseAddrPort("10.5.0.255:9")); err != nil {
				return err
			}
		}
		return nil
	}))
	await(t, "the storm is over", func() bool {
		return a.Counter(t, "storm", "tx_drop_storm_limit")+a.Counter(t, "storm", "tx_mcastbcast") >= sent
	})
	if n := b.Counter(t, "storm", "rx_mcastbcast") - before; n > sent/3 {
		t.Errorf("%d of %d broadcasts passed", n, sent)
	}
}
