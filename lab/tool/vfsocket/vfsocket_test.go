package vfsocket

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
)

// hardware does all that it is asked for.
type hardware struct{ iov.Function }

func (hardware) Enable(int, []uint16) error                                   { return nil }
func (hardware) Disable(int)                                                  {}
func (hardware) Start(int) error                                              { return nil }
func (hardware) Stop(int) error                                               { return nil }
func (hardware) FinalCleanup(int)                                             {}
func (hardware) Interrupts(int, bool)                                         {}
func (hardware) VportStart(int, l2.StartParams) error                         { return nil }
func (hardware) VportUpdate(int, l2.UpdateParams, *iov.RSS) error             { return nil }
func (hardware) VportStop(int, int) error                                     { return nil }
func (hardware) FilterUcast(int, l2.UcastParams) error                        { return nil }
func (hardware) RxQueueStart(int, l2.QueueParams, iov.RxRing) (uint32, error) { return 0x40, nil }
func (hardware) TxQueueStart(int, l2.QueueParams, uint8) (uint32, error)      { return 0x80, nil }
func (hardware) RxQueueStop(int, int) error                                   { return nil }
func (hardware) TxQueueStop(int, int, uint8) error                            { return nil }
func (hardware) SetCoalesce(int, int, int, int) error                         { return nil }
func (hardware) Coalesce(int, int, bool) int                                  { return 24 }
func (hardware) SetRate(int, int, int) error                                  { return nil }
func (hardware) SetMinRate(int, int, int) error                               { return nil }
func (hardware) Tunnels() l2.TunnelParams                                     { return l2.TunnelParams{} }
func (hardware) Link() iov.Link                                               { return iov.Link{Up: true, Speed: 25000} }

// place is a PF with VFs behind a lock, as a NIC's thread has it.
type place struct {
	sync.Mutex
	pf *iov.PF
}

func newPlace(t *testing.T) *place {
	p, err := iov.New(iov.Config{Info: iov.Info{Total: 8}, Share: l2.DefaultShare, Queues: 8,
		Blocks: make([]uint16, 32), Function: hardware{}})
	if err == nil {
		err = p.SetNumVFs(4)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &place{pf: p}
}

// slot is a VF of a place.
type slot struct {
	*place
	vf int
}

func (s slot) Attach(write func(addr uint64, b []byte) error) error {
	s.Lock()
	defer s.Unlock()
	return s.pf.Connect(s.vf, memory(write))
}

func (s slot) Deliver(msg []byte) error {
	s.Lock()
	defer s.Unlock()
	return s.pf.Deliver(s.vf, msg)
}

func (s slot) Detach() {
	s.Lock()
	defer s.Unlock()
	_ = s.pf.Connect(s.vf, nil)
	_ = s.pf.FLR(s.vf)
	s.pf.FLRCleanup()
}

type memory func(addr uint64, b []byte) error

func (m memory) Write(addr uint64, b []byte) error { return m(addr, b) }

// listen serves VF 1 by a socket.
func listen(t *testing.T, p *place, quit chan struct{}) string {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			// One after the other: a driver finds the VF reset when it is there.
			_ = Serve(c, bufio.NewReader(c), slot{p, 1}, quit)
		}
	})
	return path
}

func dial(t *testing.T, path string) *Client {
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return NewClient(c, bufio.NewReader(c))
}

// A driver in Python tries ACQUIRE in all ways and sends 10,000 mutated messages: the PF
// answers the next one, and the other VFs are as they were.
func TestPython(t *testing.T) {
	p := newPlace(t)
	other, err := p.pf.VFInfo(2)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("python3", "../../../nic/fastlinq/iov/testdata/vf.py", "drive",
		listen(t, p, nil), "raw", "24", "10000").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "matrix 231, mutated 10000, answered ") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	p.Lock()
	defer p.Unlock()
	if now, err := p.pf.VFInfo(2); err != nil || !reflect.DeepEqual(now, other) {
		t.Errorf("%v: another VF changed from %+v to %+v", err, other, now)
	}
}

// A driver in Go over the socket: replies, bulletins, and the end of the connection,
// which resets the VF.
func TestClient(t *testing.T) {
	p, quit := newPlace(t), make(chan struct{})
	path := listen(t, p, quit)
	c := dial(t, path)
	d := vfdrv.New(c, vfdrv.Config{Want: tlv.Resources{RxQueues: 1}})
	c.Memory = d
	if err := errors.Join(d.Acquire(), d.VportStart(l2.StartParams{MTU: 1500})); err != nil {
		t.Fatal(err)
	}
	if off, err := d.RxQueueStart(vfdrv.Queue{Pages: 1, BufSize: 2048}); off != 0x40 || err != nil {
		t.Errorf("%#x %v", off, err)
	}
	p.Lock()
	err := p.pf.SetVFRate(1, 0, 300)
	p.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	speed := 0
	for end := time.Now().Add(10 * time.Second); speed != 300 && time.Now().Before(end); {
		if err := c.Poll(20 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if _, err := d.ReadBulletin(); err != nil {
			t.Fatal(err)
		}
		_, speed = d.LinkState()
	}
	if speed != 300 {
		t.Error("no bulletin comes")
	}
	c.Close()
	c = dial(t, path)
	d = vfdrv.New(c, vfdrv.Config{Want: tlv.Resources{RxQueues: 1}})
	c.Memory = d
	if err := d.Acquire(); err != nil {
		t.Errorf("after a driver that did not release: %v", err)
	}
	p.Lock()
	i, _ := p.pf.VFInfo(1)
	p.Unlock()
	if i.State != iov.Acquired || i.Counts.Resets != 1 {
		t.Errorf("%+v", i)
	}
	close(quit)
	if err := c.Poll(10 * time.Second); err == nil || !strings.Contains(err.Error(), "the NIC is stopping") {
		t.Errorf("%v", err)
	}
}

// What is no frame of a driver ends the connection, with the reason.
func TestBadFrames(t *testing.T) {
	path := listen(t, newPlace(t), nil)
	for _, b := range []string{"\x00\x00\x00\x00\x01", "\xff\xff\xff\xff\x01", "\x01\x00\x00\x00\x02"} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, b); err != nil {
			t.Fatal(err)
		}
		kind, body, err := get(c)
		if kind != gone || err != nil {
			t.Errorf("%q: %d %s %v", b, kind, body, err)
		}
		c.Close()
	}
	if err := dial(t, path).Send(make([]byte, 1025)); err == nil {
		t.Error("too long a message is sent")
	}
}
