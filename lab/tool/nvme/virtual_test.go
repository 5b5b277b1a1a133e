package nvme

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv/vpair"
	"tapir/lab/host/link"
	"tapir/lab/tool/disk"
	"tapir/nic"
	"tapir/nic/al"
	"tapir/nic/nvme"
	"tapir/nic/scsi"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

const nqn = "nqn.2026-11.tapir:test"

// world is two NICs in virtual time: the first serves, the second uses.
type world struct {
	*vpair.Pair
	t      *testing.T
	cas    [2]*al.CA
	layers [2]*al.Layer
	target *nvme.Target
}

func newWorld(t *testing.T, p verbs.Personality, faults link.Impairment, change func(*nvme.Config)) *world {
	t.Helper()
	var cfg [2]nic.Config
	for i, addr := range []string{"10.0.0.1/24", "10.0.0.2/24"} {
		cfg[i] = nic.Config{Name: fmt.Sprintf("nic%d", i), Addrs: []netip.Prefix{netip.MustParsePrefix(addr)},
			Frames: nic.GSO, Seed: 7, RDMA: nic.RDMA{Personality: p}}
	}
	w := &world{Pair: vpair.New(t, cfg, faults), t: t}
	for i, d := range w.NICs {
		w.layers[i] = al.New(nil)
		var err error
		if w.cas[i], err = w.layers[i].RegisterCI(d.CI(nil, func() frame.Time { return w.Now })); err != nil {
			t.Fatal(err)
		}
	}
	c := nvme.Config{GUID: w.NICs[0].Verbs.Identity().GUID, Port: wire.Port, NQN: nqn, Serial: "1",
		Namespaces: []*nvme.Namespace{memory(16 << 20)}, Failed: func(err error) { t.Error(err) }}
	if change != nil {
		change(&c)
	}
	w.target = nvme.NewTarget(c)
	w.layers[0].RegisterClient(w.target)
	return w
}

func memory(size int64) *nvme.Namespace {
	return &nvme.Namespace{Store: scsi.NewMemory(size), Size: size, Block: 512, Thin: true, NGUID: [16]byte{1}}
}

func (w *world) until(stop func() bool) {
	w.t.Helper()
	w.Until(w.t, stop)
}

// user is the client of the second NIC, and one association of it.
type user struct {
	w     *world
	dev   *al.Device
	ctx   *al.Context
	h     *nvme.Host
	ready bool
	lost  bool
	err   error
}

// Add implements al.Client.
func (u *user) Add(d *al.Device, _ frame.Time) {
	var err error
	if u.ctx, err = d.Open(nil, nil); err != nil {
		u.w.t.Fatal(err)
	}
	u.dev = d
}

// Remove implements al.Client.
func (u *user) Remove(*al.Device, frame.Time) {
	if err := u.ctx.Reclaim(u.w.Now); err != nil {
		u.w.t.Error(err)
	}
}

// connect connects to the target, and waits for the end of that.
func (w *world) connect(change func(*nvme.HostConfig)) *user {
	w.t.Helper()
	u := &user{w: w}
	w.layers[1].RegisterClient(u)
	u.again(change)
	return u
}

func (u *user) again(change func(*nvme.HostConfig)) {
	u.w.t.Helper()
	u.ready, u.lost, u.err = false, false, nil
	cfg := nvme.HostConfig{Device: u.dev, Context: u.ctx, Remote: netip.MustParseAddrPort("10.0.0.1:4420"), NQN: nqn,
		Name: "nqn.2026-11.tapir:host", ID: [16]byte{9}, Depth: 16, KeepAlive: 5 * time.Second,
		Ready: func(frame.Time) { u.ready = true },
		Lost:  func(err error, _ frame.Time) { u.lost, u.err = true, err }}
	if change != nil {
		change(&cfg)
	}
	var err error
	if u.h, err = nvme.Connect(cfg, u.w.Now); err != nil {
		u.w.t.Fatal(err)
	}
	u.w.until(func() bool { return u.ready || u.lost })
}

// do does one command and returns its status.
func (u *user) do(admin bool, data []byte, write bool, set func(*wire.Command)) (uint64, error) {
	u.w.t.Helper()
	var status error
	done := false
	r := &nvme.Request{Data: data, Write: write, Done: func(_ *nvme.Request, err error, _ frame.Time) {
		status, done = err, true
	}}
	set(&r.Cmd)
	if admin {
		u.h.SubmitAdmin(r, u.w.Now)
	} else {
		u.h.Submit(r, u.w.Now)
	}
	u.w.until(func() bool { return done })
	return r.Result, status
}

// with makes a command with a namespace and double words from 10 on.
func with(op wire.Opcode, nsid uint32, dwords ...uint32) func(*wire.Command) {
	return func(c *wire.Command) {
		c.Set(op, 0)
		c.SetNSID(nsid)
		for i, v := range dwords {
			c.SetDWord(10+i, v)
		}
	}
}

func at(op wire.Opcode, lba uint64, blocks int) func(*wire.Command) {
	return func(c *wire.Command) {
		c.Set(op, 0)
		c.SetNSID(1)
		c.SetLBA(lba, blocks)
	}
}

// work runs a workload to its end.
func (u *user) work(k disk.Work) (out disk.Outcome, err error) {
	u.w.t.Helper()
	var n wire.NamespaceInfo
	done := false
	u.h.Namespace(1, func(i wire.NamespaceInfo, e error, _ frame.Time) { n, err, done = i, e, true }, u.w.Now)
	u.w.until(func() bool { return done })
	if err != nil {
		return out, err
	}
	done = false
	var r *disk.Runner
	r, err = disk.NewRunner(k, int64(n.Blocks)*512, 512, func(t *disk.IO, now frame.Time) {
		q := &nvme.Request{Data: t.Data, Write: t.Write, Done: func(_ *nvme.Request, err error, now frame.Time) {
			r.Done(t, err, now)
		}}
		op := wire.Read
		if t.Write {
			op = wire.Write
		}
		at(op, uint64(t.Off)/512, len(t.Data)/512)(&q.Cmd)
		u.h.Submit(q, now)
	}, func(e error, _ frame.Time) { err, done = e, true })
	if err != nil {
		return out, err
	}
	r.Start(u.w.Now)
	u.w.until(func() bool { return done })
	return r.Outcome, err
}

// close ends an association and checks that nothing is left of it on either NIC.
func (u *user) close() {
	w := u.w
	w.t.Helper()
	u.h.Close(w.Now)
	w.until(func() bool { return u.lost && len(w.target.Controllers()) == 0 && len(w.NICs[0].Verbs.QPs()) == 0 })
	if u.err != nil {
		w.t.Error(u.err)
	}
	if list := w.NICs[1].Verbs.QPs(); len(list) > 0 {
		w.t.Errorf("%d queue pairs are left", len(list))
	}
	if n := len(w.NICs[1].Verbs.MRs()); n > 0 {
		w.t.Errorf("%d regions are left at the host", n)
	}
	if n := len(w.NICs[0].CM.IDs()) + len(w.NICs[1].CM.IDs()); n > 0 {
		w.t.Errorf("%d connection ids are left", n)
	}
}

var personalities = []verbs.Personality{verbs.IWARP, verbs.RoCE}

// each runs a test over both transports.
func each(t *testing.T, test func(t *testing.T, p verbs.Personality)) {
	for _, p := range personalities {
		t.Run(p.String(), func(t *testing.T) { test(t, p) })
	}
}

// TestWriteVerify writes 16 MiB with commands of several sizes and compares.
func TestWriteVerify(t *testing.T) {
	each(t, func(t *testing.T, p verbs.Personality) {
		w := newWorld(t, p, link.Impairment{}, nil)
		u := w.connect(nil)
		if !u.ready {
			t.Fatal(u.err)
		}
		for _, size := range []int{4096, 64 << 10, 1 << 20} {
			k := disk.Work{Verb: disk.Write, Size: size, Depth: 16, Seed: uint64(size), Length: 16 << 20}
			if size == 4096 {
				k.Length = 1 << 20
			}
			out, err := u.work(k)
			if err != nil || out.Octets != k.Length {
				t.Fatalf("write of %d: %+v, %v", size, out, err)
			}
			if k.Verb = disk.Verify; size == 4096 {
				k.Size = 512
			}
			if out, err = u.work(k); err != nil || out.Octets != k.Length {
				t.Fatalf("verify of %d: %+v, %v", size, out, err)
			}
		}
		s := w.target.Stats()
		if s[nvme.InCapsule] < 256 || s[nvme.Invalidations] < 100 || s[nvme.OctetsWritten] != 33<<20 {
			t.Errorf("counters: %v", s)
		}
		u.close()
	})
}

// broken is a store that fails now and then.
type broken struct {
	scsi.Store
	rand *rand.Rand
}

var errBroken = errors.New("broken")

func (b *broken) WriteAt(p []byte, off int64) error {
	if b.rand.IntN(50) == 0 {
		return errBroken
	}
	return b.Store.WriteAt(p, off)
}

// refusing is a store that never writes.
type refusing struct{ scsi.Store }

func (refusing) WriteAt([]byte, int64) error { return errBroken }

// TestModelDisk compares a namespace under 10,000 random commands, over a wire that loses
// frames and a store that fails, with an array of octets.
func TestModelDisk(t *testing.T) {
	each(t, func(t *testing.T, p verbs.Personality) {
		const size, blocks = 1 << 20, 1 << 11
		r := rand.New(rand.NewPCG(1, 2))
		w := newWorld(t, p, link.Impairment{Loss: 2000}, func(c *nvme.Config) {
			c.Namespaces[0] = memory(size)
			c.Namespaces[0].Store = &broken{c.Namespaces[0].Store, r}
		})
		u := w.connect(func(c *nvme.HostConfig) { c.KeepAlive = time.Minute })
		if !u.ready {
			t.Fatal(u.err)
		}
		m := &model{u: u, r: r, data: make([]byte, size)}
		for i := range 5000 { // and as many over the other transport
			lba := r.IntN(blocks)
			m.step(i, lba, 1+r.IntN(min(24, blocks-lba)))
		}
		if s := w.target.Stats(); s[nvme.MediaErrors] == 0 || s[nvme.Miscompares] == 0 || s[nvme.RemoteAccess] != 0 {
			t.Errorf("counters: %v", s)
		}
		u.close()
	})
}

// model is a disk of ten lines.
type model struct {
	u    *user
	r    *rand.Rand
	data []byte
}

// step does one random command on k blocks from lba.
func (m *model) step(i, lba, k int) {
	t := m.u.w.t
	is := m.data[lba*512 : (lba+k)*512]
	data := make([]byte, len(is))
	for j := range data {
		data[j] = byte(m.r.Uint32() & 3)
	}
	var err error
	switch op := m.r.IntN(6); op {
	case 0, 1:
		if _, err = m.u.do(false, data, true, at(wire.Write, uint64(lba), k)); err == nil {
			copy(is, data)
		}
	case 2:
		if _, err = m.u.do(false, nil, false, at(wire.WriteZeroes, uint64(lba), k)); err == nil {
			clear(is)
		}
	case 3:
		list := wire.Range{LBA: uint64(lba), Blocks: uint32(k)}.Append(nil)
		list = append(list, make([]byte, 16*m.r.IntN(300))...) // more memory than ranges, as Linux has it
		if _, err = m.u.do(false, list, true, with(wire.DSM, 1, 0, 4)); err == nil {
			clear(is)
		}
	case 4:
		same := append([]byte(nil), is...)
		wrong := m.r.IntN(2) == 0
		if wrong {
			same[m.r.IntN(len(same))] ^= 1
		}
		_, err = m.u.do(false, same, true, at(wire.Compare, uint64(lba), k))
		if wrong != (err == wire.CompareFailure|wire.DNR) || !wrong && err != nil {
			t.Fatalf("operation %d: compare: %v", i, err)
		}
		err = nil
	default:
		if _, err = m.u.do(false, data, false, at(wire.Read, uint64(lba), k)); err != nil || string(data) != string(is) {
			t.Fatalf("operation %d: read of %d blocks from %d is wrong: %v", i, k, lba, err)
		}
	}
	if err == nil {
		return
	}
	if err != wire.WriteFault {
		t.Fatalf("operation %d: %v", i, err)
	}
	// Its blocks are what they were, or what was to be written.
	if _, err = m.u.do(false, is, false, at(wire.Read, uint64(lba), k)); err != nil {
		t.Fatalf("operation %d: %v", i, err)
	}
}

// TestDiscovery lists the subsystem, and a host that may not connect is refused.
func TestDiscovery(t *testing.T) {
	each(t, func(t *testing.T, p verbs.Personality) {
		w := newWorld(t, p, link.Impairment{}, func(c *nvme.Config) { c.Hosts = []string{"nqn.x"} })
		u := w.connect(func(c *nvme.HostConfig) { c.NQN = wire.DiscoveryNQN })
		var list []wire.Entry
		u.h.Discover(func(l []wire.Entry, err error, _ frame.Time) {
			if err != nil {
				t.Error(err)
			}
			list = l
		}, w.Now)
		w.until(func() bool { return list != nil })
		if len(list) != 1 || list[0].NQN != nqn || list[0].Addr.String() != "10.0.0.1:4420" {
			t.Errorf("%+v", list)
		}
		u.close()
		for name, change := range map[string]func(*nvme.HostConfig){
			"connect: invalid host":       func(*nvme.HostConfig) {},
			"connect: invalid parameters": func(c *nvme.HostConfig) { c.NQN = "nqn.nobody" },
		} {
			u.again(change)
			if !u.lost || u.err == nil || !strings.Contains(u.err.Error(), name) {
				t.Errorf("%s: %v", name, u.err)
			}
		}
		w.until(func() bool { return len(w.NICs[0].Verbs.QPs()) == 0 })
	})
}
