package fabric

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/wire/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// await tries until ok: kernel and fabric take their time.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// bed is a fabric: a namespace whose bridge joins the fabric TAPs.
type bed struct {
	t   testing.TB
	ns  *netns.NS
	net *link.Net
}

const fabricBridge = "fabric"

// space is a namespace with what the test made in it.
type space struct {
	ns  *netns.NS
	net *link.Net
}

func newSpace(t testing.TB) space {
	t.Helper()
	ns, err := netns.New()
	must(t, err)
	n, err := link.In(ns)
	must(t, err, link.Quiet(ns), n.Up("lo"))
	t.Cleanup(func() { n.Close(); ns.Close() })
	return space{ns, n}
}

func newBed(t testing.TB) *bed {
	t.Helper()
	s := newSpace(t)
	must(t, s.net.AddBridge(fabricBridge))
	return &bed{t: t, ns: s.ns, net: s.net}
}

// station is an HFI with the namespace of its hosts.
type station struct {
	space
	node *Node
}

// start runs an HFI whose host TAPs lie in a namespace of their own.
func (b *bed) start(c Config) *station {
	b.t.Helper()
	return b.startIn(newSpace(b.t), c)
}

func (b *bed) startIn(s space, c Config) *station {
	b.t.Helper()
	n, err := b.launch(s, c)
	must(b.t, err)
	b.t.Cleanup(func() { must(b.t, n.Close()) })
	return &station{s, n}
}

// launch makes the fabric TAP a port of the bridge and starts the HFI.
func (b *bed) launch(s space, c Config) (*Node, error) {
	c.NS, c.HostNS = b.ns, s.ns
	c.TAP = "fab" + c.Name
	if !b.net.Exists(c.TAP) {
		if err := b.net.AddTAP(c.TAP, false); err != nil {
			return nil, err
		}
	}
	if err := b.net.SetMTU(c.TAP, 10300); err != nil {
		return nil, err
	}
	if err := b.net.Join(c.TAP, fabricBridge); err != nil {
		return nil, err
	}
	n, err := Start(b.t.Context(), c, func(n *Node) { n.Log, n.Version = b.t.Output(), "test" })
	return n, err
}

// number is an HFI of number i with one VNIC in each of the vESWs.
func number(i int, vnics ...VNIC) Config {
	return Config{Name: fmt.Sprint(i), GUID: 0x0011750101000000 + uint64(i), LID: lid(i), VNICs: vnics}
}

// run runs a program in the station's host namespace.
func (s space) run(t testing.TB, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := s.ns.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

// ping waits for three echo replies, of however many requests: those that come
// before the address is resolved may be lost, and without -w ping(8) waits for
// the last reply only twice as long as the longest so far took. What is lost
// shows by stream.
func (s space) ping(t testing.TB, to string, more ...string) {
	t.Helper()
	argv := append([]string{"ping", "-n", "-c", "3", "-i", "0.02", "-w", "60"}, more...)
	if out, err := s.run(t, append(argv, to)...); err != nil {
		t.Fatalf("ping %s: %v\n%s", to, err, out)
	}
}

// deaf wants no answer.
func (s space) deaf(t testing.TB, to string) {
	t.Helper()
	if out, err := s.run(t, "ping", "-n", "-c", "2", "-i", "0.02", "-W", "0.2", to); err == nil {
		t.Fatalf("ping %s: an answer across\n%s", to, out)
	}
}

// counter is a counter of `tapir ethtool -S`.
func (s *station) counter(t testing.TB, tap, name string) uint64 {
	t.Helper()
	var list []EthtoolInfo
	must(t, s.node.DoWait(func(frame.Time) { list = s.node.ethtool() }))
	for _, e := range list {
		for _, c := range e.Stats {
			if e.Netdev == tap && c.Name == name {
				return c.Value
			}
		}
	}
	t.Fatalf("%s has no counter %s", tap, name)
	return 0
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func ips(list ...string) (all []netip.Prefix) {
	for _, s := range list {
		all = append(all, prefix(s))
	}
	return all
}
