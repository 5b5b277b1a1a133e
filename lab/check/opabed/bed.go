// Package opabed is a test bed of Omni-Path HFIs in namespaces, whose fabric is
// a bridge.
package opabed

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/hficonf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/hfinode"
	"tapir/nic/view"
	"tapir/opa"
)

// Bed is a fabric: a namespace whose bridge joins the fabric TAPs.
type Bed struct {
	*link.Space
	T   testing.TB
	Log io.Writer // of the HFIs; nil: the test's
}

// Bridge is the name of the fabric's bridge.
const Bridge = "fabric"

const fabricMTU = 10300 // octets

// Space is a namespace with what the test made in it.
type Space struct{ *link.Space }

// NewSpace returns a namespace until the test ends.
func NewSpace(t testing.TB) Space {
	t.Helper()
	s := testenv.Space(t, link.Quiet)
	testenv.Must(t, s.Net.Up("lo"))
	return Space{s}
}

// New returns a fabric without HFIs.
func New(t testing.TB) *Bed {
	t.Helper()
	s, err := link.NewBridge(Bridge, fabricMTU)
	testenv.Must(t, err)
	t.Cleanup(s.Close)
	return &Bed{Space: s, T: t}
}

// Station is an HFI with the namespace of its hosts.
type Station struct {
	Space
	Node *hfinode.Node
}

// Start runs an HFI whose host TAPs lie in a namespace of their own.
func (b *Bed) Start(c hficonf.Config) *Station {
	b.T.Helper()
	return b.StartIn(NewSpace(b.T), c)
}

// StartIn runs an HFI whose host TAPs lie in s.
func (b *Bed) StartIn(s Space, c hficonf.Config) *Station {
	b.T.Helper()
	n, err := b.Launch(s, c)
	testenv.Must(b.T, err)
	b.T.Cleanup(func() { testenv.Must(b.T, n.Close()) })
	return &Station{s, n}
}

// Launch makes the fabric TAP a port of the bridge and starts the HFI.
func (b *Bed) Launch(s Space, c hficonf.Config) (*hfinode.Node, error) {
	c.TAP = "fab" + c.Name
	add := b.AddPort
	if !b.Net.Exists(c.TAP) {
		add = func(name, bridge string, mtu int) error { return b.AddTAP(name, bridge, false, mtu) }
	}
	if err := add(c.TAP, Bridge, fabricMTU); err != nil {
		return nil, err
	}
	env := node.Env{NS: b.NS, HostNS: s.NS, Log: b.Log, Version: "test"}
	if env.Log == nil {
		env.Log = b.T.Output()
	}
	return hfinode.Start(b.T.Context(), c, env)
}

// Number is an HFI of number i with one VNIC in each of the vESWs.
func Number(i int, vnics ...hficonf.VNIC) hficonf.Config {
	return hficonf.Config{Name: fmt.Sprint(i), GUID: 0x0011750101000000 + uint64(i), LID: opa.LID(i), VNICs: vnics}
}

// Run runs a program in the namespace.
func (s Space) Run(t testing.TB, argv ...string) (string, error) {
	t.Helper()
	return testenv.Run(t, s.NS, argv...)
}

// Ping waits for three echo replies, of however many requests: those that come
// before the address is resolved may be lost, and without -w ping(8) waits for
// the last reply only twice as long as the longest so far took. What is lost
// shows by stream.
func (s Space) Ping(t testing.TB, to string, more ...string) {
	t.Helper()
	argv := append([]string{"ping", "-n", "-c", "3", "-i", "0.02", "-w", "60"}, more...)
	if out, err := s.Run(t, append(argv, to)...); err != nil {
		t.Fatalf("ping %s: %v\n%s", to, err, out)
	}
}

// Deaf wants no answer.
func (s Space) Deaf(t testing.TB, to string) {
	t.Helper()
	if out, err := s.Run(t, "ping", "-n", "-c", "2", "-i", "0.02", "-W", "0.2", to); err == nil {
		t.Fatalf("ping %s: an answer across\n%s", to, out)
	}
}

// Counter is a counter of `tapir ethtool -S`.
func (s *Station) Counter(t testing.TB, tap, name string) uint64 {
	t.Helper()
	list, err := s.Node.Served(nil).Show("ethtool")
	testenv.Must(t, err)
	for _, e := range list.([]view.EthtoolInfo) {
		for _, c := range slices.Concat(e.Stats, e.Own) {
			if e.Netdev == tap && c.Name == name {
				return c.Value
			}
		}
	}
	t.Fatalf("%s has no counter %s", tap, name)
	return 0
}

// Stream sends numbered datagrams from one station to another until stop,
// which returns how many were sent, how many arrived, and the numbers of those
// after which some are missing.
func Stream(t *testing.T, from, to *Station, addr string) (stop func() (sent, arrived int, gaps []string)) {
	t.Helper()
	var in, out *net.UDPConn
	testenv.Must(t, to.NS.Do(func() (err error) {
		in, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(addr)})
		return err
	}))
	testenv.Must(t, from.NS.Do(func() (err error) {
		out, err = net.DialUDP("udp4", nil, in.LocalAddr().(*net.UDPAddr))
		return err
	}))
	var sent, arrived atomic.Int64
	var gaps []string
	done, received := make(chan bool), make(chan bool)
	go func() {
		defer close(received)
		next := uint64(0)
		for b := make([]byte, 64); ; {
			if _, err := in.Read(b); err != nil {
				return
			}
			got := binary.BigEndian.Uint64(b)
			if got != next {
				gaps = append(gaps, fmt.Sprintf("%d for %d", got, next))
			}
			next = got + 1
			arrived.Add(1)
		}
	}()
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		var b [8]byte
		for range tick.C {
			binary.BigEndian.PutUint64(b[:], uint64(sent.Load()))
			if _, err := out.Write(b[:]); err != nil {
				return
			}
			sent.Add(1)
		}
	}()
	return func() (int, int, []string) {
		out.Close()
		<-done
		for range 3000 {
			if arrived.Load() == sent.Load() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		in.Close()
		<-received
		return int(sent.Load()), int(arrived.Load()), gaps
	}
}

// Counted is what a station counted, as JSON.
func (s *Station) Counted(t *testing.T) (all string) {
	for _, kind := range []string{"nic", "vport", "counters", "ethtool"} {
		v, err := s.Node.Served(nil).Show(kind)
		testenv.Must(t, err)
		b, err := json.Marshal(v)
		testenv.Must(t, err)
		all += kind + string(b)
	}
	return all
}
