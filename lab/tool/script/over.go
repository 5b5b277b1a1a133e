package script

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tapir/lab/host/link"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// Over is a wire of this host between a script's peer and its NIC: each frame leaves by one
// end and goes on as it comes out of the other, while the script's time stands still.
type Over struct {
	near, far tap.Wire // the peer's end and the NIC's
	dir       string
	space     *link.Space // of interfaces; nil: there are none
	whole     bool        // super-frames pass whole
	carried   int
	err       error // why nothing passes any more
}

// carryWithin bounds how long a frame may take, and how long the ends may look for each other, on
// a busy machine, too: greetings go out every greetEvery.
const (
	carryWithin = 30 * time.Second
	greetEvery  = time.Second / 4
)

// OpenOver makes a wire: a kind of wires.Local, one of wires.Kernel in a namespace of its own, or
// the texts of both ends with a space between them, as --wire of a NIC takes them.
func OpenOver(text string) (o *Over, err error) {
	o = &Over{}
	if near, far, both := strings.Cut(text, " "); both {
		err = o.open(near, far)
	} else if slices.Contains(wires.Kernel, text) {
		err = o.addInterfaces(text)
	} else if o.dir, err = os.MkdirTemp("", "tapir-script"); err == nil {
		if near, far, err = wires.Ends(text, filepath.Join(o.dir, "cable"), overPort); err == nil {
			err = o.open(near, far)
		} else {
			err = fmt.Errorf("%w, %s, or the texts of both ends of a wire", err, strings.Join(wires.Kernel, ", "))
		}
	}
	if err == nil {
		o.whole = wires.Side(o.near) != wires.NoInterface || strings.HasPrefix(o.near.Name(), "shm:")
		err = o.greet()
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *Over) open(near, far string) (err error) {
	if o.near, err = wires.Open(near, true); err == nil {
		o.far, err = wires.Open(far, true)
	}
	return err
}

// overMTU lets the longest frames of scripts pass.
const overMTU = 9000

// addInterfaces has a pair of interfaces, which needs the right to make some.
func (o *Over) addInterfaces(kind string) (err error) {
	if o.space, err = link.NewSpace(link.Quiet); err != nil {
		return err
	}
	ends, err := o.space.Net.AddWire(kind, [2]string{"peer", "nic"}, overMTU)
	if err != nil {
		return err
	}
	return o.space.NS.Do(func() error { return o.open(ends[0], ends[1]) })
}

// overPort is the first of the two ports of a wire through the loopback interface.
const overPort = 47920

// Carried is how many frames have passed.
func (o *Over) Carried() int { return o.carried }

// Close ends the wire.
func (o *Over) Close() (err error) {
	for _, w := range []tap.Wire{o.near, o.far} {
		if w != nil {
			err = errors.Join(err, w.Close())
		}
	}
	if o.dir != "" {
		err = errors.Join(err, os.RemoveAll(o.dir))
	}
	if o.space != nil {
		o.space.Close()
	}
	return err
}

// greet waits until the ends have found each other: a frame passes both ways.
func (o *Over) greet() error {
	hello := frame.New(make([]byte, 256), nil)
	hello.Extend(60)
	ether.Header{Dst: ether.Broadcast, Src: station, Type: 0x88b5}.Put(hello.Bytes())
	for _, nic := range []bool{false, true} {
		err := errors.New("no time")
		for end := time.Now().Add(carryWithin); err != nil && time.Now().Before(end); {
			_, err = o.pass(hello, nic, greetEvery) // an interface that has just come up may lose it
		}
		if err != nil {
			return fmt.Errorf("the ends of the wire do not meet: %w", err)
		}
	}
	o.carried = 0
	return nil
}

// drain forgets what others have sent, such as the kernel on an interface, and hellos that
// came late.
func drain(w tap.Wire) {
	f := frame.New(make([]byte, frame.DefaultHeadroom+1<<17), nil)
	for range 64 {
		if f.Reset(); w.Read(f) == tap.ErrAgain {
			return
		}
	}
}

// pass sends f, borrowed, to the NIC or to the peer, and returns what comes out.
func (o *Over) pass(f *frame.Frame, toNIC bool, within time.Duration) (*frame.Frame, error) {
	from, to := o.far, o.near
	if toNIC {
		from, to = o.near, o.far
	}
	drain(to)
	end := time.Now().Add(within)
	for _, w := range []tap.Wire{from, to} {
		look(w)
	}
	sent := false
	for time.Now().Before(end) {
		if !sent {
			switch err := from.Write(f); {
			case err == nil:
				sent = true
			case err != tap.ErrAgain && err != tap.ErrRefused: // refused: nobody is there yet
				return nil, fmt.Errorf("%s: %w", from.Name(), err)
			}
		}
		out := frame.New(make([]byte, frame.DefaultHeadroom+1<<17), nil)
		if err := to.Read(out); err == nil {
			o.carried++
			return out, nil
		} else if err != tap.ErrAgain {
			return nil, fmt.Errorf("%s: %w", to.Name(), err)
		}
		if look(from); look(to) {
			continue
		}
		time.Sleep(20 * time.Microsecond)
	}
	return nil, fmt.Errorf("%s: a frame of %d octets got lost", to.Name(), f.Len())
}

// look has a wire whose ends meet do so.
func look(w tap.Wire) (ready bool) {
	s, sleeps := w.(tap.Sleeper)
	return sleeps && s.Ready(true, false)
}

// carry passes octets of an Ethernet frame, and returns those that come out. Without a wire
// they are the same, and so are super-frames where the wire would cut them.
func (o *Over) carry(b []byte, off frame.Offload, toNIC bool) ([]byte, frame.Offload) {
	if o == nil || o.err != nil || off.GSO != frame.GSONone && !o.whole {
		return b, off
	}
	f := frame.New(make([]byte, frame.DefaultHeadroom+len(b)), nil)
	f.Append(b)
	f.Offload = off
	out, err := o.pass(f, toNIC, carryWithin)
	if err != nil {
		o.err = err
		return b, off
	}
	return out.Bytes(), out.Offload
}

// carryFrame is carry of a frame from pool, which it takes.
func (o *Over) carryFrame(f *frame.Frame, pool frame.Pool, toNIC bool) *frame.Frame {
	if o == nil {
		return f
	}
	b, off := o.carry(f.Bytes(), f.Offload, toNIC)
	g := pool.Get(len(b))
	g.Append(b)
	g.Offload = off
	f.Release()
	return g
}

// carryIP is carry of an IP packet of the TCP engine alone.
func (o *Over) carryIP(b []byte, off frame.Offload, toNIC bool) ([]byte, frame.Offload) {
	if o == nil {
		return b, off
	}
	h := ether.Header{Dst: station, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: ether.TypeIPv4}
	if len(b) > 0 && b[0]>>4 == 6 {
		h.Type = ether.TypeIPv6
	}
	if off.NeedsCsum {
		off.CsumStart += ether.HeaderLen
	}
	if off.GSO != frame.GSONone {
		off.HdrLen += ether.HeaderLen
	}
	out, off := o.carry(append(h.AppendTo(nil), b...), off, toNIC)
	if off.NeedsCsum {
		off.CsumStart -= ether.HeaderLen
	}
	if off.GSO != frame.GSONone {
		off.HdrLen -= ether.HeaderLen
	}
	return out[ether.HeaderLen:], off
}

// carrySegment is carryIP of a segment behind its header.
func (o *Over) carrySegment(h *ip.Header, seg []byte, off frame.Offload) (*ip.Header, []byte, frame.Offload) {
	if o == nil {
		return h, seg, off
	}
	b := make([]byte, h.HeaderLen(), h.HeaderLen()+len(seg))
	h.Put(b)
	b, off = o.carryIP(append(b, seg...), off, true)
	got, rest, err := ip.Parse(b)
	if err != nil {
		return h, seg, off // the script's lie, as it is
	}
	return &got, rest, off
}

// carryPTP is carry of a PTP message.
func (o *Over) carryPTP(body []byte, toNIC bool) []byte {
	if o == nil || len(body) == 0 {
		return body
	}
	h := ether.Header{Dst: station, Src: station, Type: ether.TypePTP}
	b, _ := o.carry(append(h.AppendTo(nil), body...), frame.Offload{}, toNIC)
	return b[ether.HeaderLen:]
}
