package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/al"
	"tapir/nic/iscsi"
	"tapir/nic/iser"
	"tapir/nic/scsi"
	"tapir/wire/frame"
	wireiscsi "tapir/wire/iscsi"
)

// Sizes of the random load.
const (
	areas    = 32       // places of the disk, each with at most one command at a time
	areaLen  = 64 << 10 // octets
	diskSize = areas * areaLen
)

// load is an initiator that reads and writes at random, and checks what it reads. It is a
// client of the access layer: it works whenever its device and the target are there, and does
// again what was under way when they went.
type load struct {
	device string
	portal netip.AddrPort
	random *rand.Rand
	model  []byte // what the disk has

	dev     *al.Device
	conn    *iser.Conn
	session *iscsi.Initiator
	area    [areas]*operation

	done, sessions atomic.Int64
	stop           atomic.Bool
	fault          atomic.Pointer[error]
}

// operation is a command that is outstanding.
type operation struct {
	iscsi.Request
	off  int
	data []byte // that a write has
}

func (l *load) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.fault.CompareAndSwap(nil, &err)
}

// Add implements al.Client.
func (l *load) Add(d *al.Device, now frame.Time) {
	if d.Name() == l.device {
		l.dev = d
		l.connect(now)
	}
}

// Remove implements al.Client.
func (l *load) Remove(d *al.Device, _ frame.Time) {
	if d == l.dev {
		if l.dev = nil; l.conn != nil {
			l.conn.Abort()
		}
	}
}

func (l *load) connect(now frame.Time) {
	if l.dev == nil || l.stop.Load() {
		return
	}
	ctx, err := l.dev.Open(nil, nil)
	if err != nil {
		l.fail("open: %w", err)
		return
	}
	if l.conn, err = iser.Dial(ctx, l.dev.CM(), l.portal, l, now); err != nil {
		l.again(now)
	}
}

func (l *load) again(now frame.Time) {
	if l.dev != nil {
		l.dev.Schedule(now.Add(20*time.Millisecond), l.connect)
	}
}

// Established implements iser.Handler.
func (l *load) Established(c *iser.Conn, _ frame.Time) {
	l.session = iscsi.NewInitiator(iscsi.InitiatorConfig{Name: "iqn.2026-11.test:load", Target: target, Random: l.random,
		Ready: l.ready, Failed: func(error, frame.Time) {}}, c)
}

// Control implements iser.Handler.
func (l *load) Control(m *wireiscsi.Message, now frame.Time) { l.session.Control(m, now) }

// Hello implements iser.Handler.
func (l *load) Hello() bool { return false }

// Malformed implements iser.Handler.
func (l *load) Malformed() { l.fail("no message of iSER") }

// PeerClosed implements iser.Handler.
func (l *load) PeerClosed(error, frame.Time) {}

// Closed implements iser.Handler.
func (l *load) Closed(_ error, now frame.Time) {
	l.conn, l.session = nil, nil
	l.again(now)
}

// ready takes the attention of power-on, does what was under way, and goes on.
func (l *load) ready(frame.Time) {
	l.sessions.Add(1)
	l.session.Submit(&iscsi.Request{Done: func(*iscsi.Request, frame.Time) {
		for k := range l.area {
			if l.area[k] != nil {
				l.area[k].Region = nil // that of the connection that has ended
				l.session.Submit(&l.area[k].Request)
			} else {
				l.next(k)
			}
		}
	}})
}

// next submits a command for an area: a read, or a write of whole blocks.
func (l *load) next(k int) {
	if l.stop.Load() {
		return
	}
	blocks := 1 + l.random.IntN(areaLen/512)
	if l.random.IntN(2) == 0 {
		blocks = 1 + l.random.IntN(16)
	}
	o := &operation{off: k*areaLen + 512*l.random.IntN(areaLen/512-blocks+1)}
	l.area[k] = o
	o.CDB[0] = 0x88
	binary.BigEndian.PutUint64(o.CDB[2:], uint64(o.off/512))
	binary.BigEndian.PutUint32(o.CDB[10:], uint32(blocks))
	if l.random.IntN(2) == 0 {
		o.In = make([]byte, blocks*512)
	} else {
		o.data, o.CDB[0] = make([]byte, blocks*512), 0x8a
		for i := 0; i < len(o.data); i += 8 {
			binary.LittleEndian.PutUint64(o.data[i:], l.random.Uint64())
		}
		o.Out = o.data
	}
	o.Done = func(r *iscsi.Request, _ frame.Time) {
		l.area[k] = nil
		switch at := l.model[o.off:]; {
		case r.Status != scsi.Good || r.Residual != 0:
			l.fail("command % x: status %v, residual %d, sense % x", r.CDB, r.Status, r.Residual, r.Sense)
		case o.data != nil:
			copy(at, o.data)
		case !bytes.Equal(o.In, at[:len(o.In)]):
			l.fail("octets %d to %d are not those that were written last", o.off, o.off+len(o.In))
		}
		l.done.Add(1)
		l.next(k)
	}
	l.session.Submit(&o.Request)
}

// iserWorld are two NICs on a wire in memory that share an access layer, a target on one and a
// load on the other.
type iserWorld struct {
	t     *testing.T
	layer *node.Layer
	ends  map[string]*link.WireEnd
	nics  map[string]*nicnode.Node
	kind  string // of RDMA
}

// socket is an end of the wire that outlives the NICs plugged into it.
type socket struct{ *link.WireEnd }

func (socket) Close() error { return nil }

func newISERWorld(t *testing.T, kind string) *iserWorld {
	w := &iserWorld{t: t, layer: node.NewLayer(), ends: map[string]*link.WireEnd{}, nics: map[string]*nicnode.Node{}, kind: kind}
	var err error
	w.ends["nic0"], w.ends["nic1"], err = link.NewWire("nic0", "nic1", false)
	must(t, err)
	for name, end := range w.ends {
		w.plug(name)
		t.Cleanup(func() {
			w.nics[name].Close()
			end.Close()
		})
	}
	return w
}

// plug starts a NIC: again, if it was there before.
func (w *iserWorld) plug(name string) {
	w.t.Helper()
	addr := map[string]string{"nic0": nicAddr, "nic1": "10.80.0.3"}[name]
	cfg := nicconf.Config{Name: name, IP: testenv.Prefixes(addr + "/24")}
	must(w.t, cfg.Set("personality", w.kind), cfg.Set("keepalive", "100ms"))
	n, err := nicnode.Start(w.t.Context(), cfg, node.Env{Layer: w.layer, Wire: socket{w.ends[name]}})
	must(w.t, err)
	w.nics[name] = n
}

// pull takes a NIC away: its clients let go of it, and nothing is left.
func (w *iserWorld) pull(name string) {
	w.t.Helper()
	n := w.nics[name]
	n.Unplug()
	_ = n.Close() // says only why it ended
	if l := n.Leaks(); len(l) > 0 {
		w.t.Errorf("%s: left at the end: %v", name, l)
	}
}

// TestISERLoad: random reads and writes in iSER on either transport. Both NICs are pulled under
// load, and plugged again: what was under way is done again, and no octet is wrong.
func TestISERLoad(t *testing.T) {
	for _, kind := range []string{"iwarp", "roce"} {
		t.Run(kind, func(t *testing.T) {
			w := newISERWorld(t, kind)
			unit, err := scsi.New(scsi.Config{Size: diskSize, Block: 512, Physical: 512, Serial: "1", Store: scsi.NewMemory(diskSize)})
			must(t, err)
			portal := netip.MustParseAddrPort(nicAddr + ":3260")
			s := &iser.Server{Device: "nic0", Address: portal, Target: iscsi.NewTarget(iscsi.Config{Random: rand.NewPCG(1, 2),
				Nodes: []*iscsi.Node{{Name: target, Units: []*scsi.Unit{unit}}}})}
			l := &load{device: "nic1", portal: portal, random: rand.New(rand.NewPCG(3, 4)), model: make([]byte, diskSize)}
			leaveServer, leaveLoad := w.layer.RegisterClient(s), w.layer.RegisterClient(l)
			progress := func(sessions, more int64) {
				t.Helper()
				begin := l.done.Load()
				testenv.Until(t, "commands", func() bool {
					return l.sessions.Load() >= sessions && l.done.Load() >= begin+more || l.fault.Load() != nil
				})
				if err := l.fault.Load(); err != nil {
					t.Fatal(*err)
				}
			}
			progress(1, 10000)
			for i, name := range []string{"nic0", "nic1"} {
				w.pull(name)
				w.plug(name)
				progress(int64(i+2), 500)
			}
			l.stop.Store(true)
			leaveLoad()
			leaveServer()
			if st := s.Target.Stats(); st[iscsi.BadISER] != 0 || len(s.Target.Sessions()) != 0 || s.Err != nil {
				t.Errorf("%d errors of iSER, %d sessions left, %v", st[iscsi.BadISER], len(s.Target.Sessions()), s.Err)
			}
		})
	}
}
