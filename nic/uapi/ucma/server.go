package ucma

import (
	"net/netip"
	"slices"
	"sync"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Network is what a NIC knows of the ways to its peers; nic.Device is one. It
// belongs to the NIC's thread.
type Network interface {
	// Addrs are the NIC's own addresses, borrowed.
	Addrs() []netip.Prefix
	// Route tells from which address packets to remote leave, and by how many
	// bits of a prefix that fits: 0 means by a gateway.
	Route(remote netip.Addr) (source netip.Addr, bits int, ok bool)
	// Resolve asks for the station that packets to remote go to, until it
	// answers or cancel is called.
	Resolve(remote netip.Addr, done func(mac ether.Addr, now frame.Time)) (cancel func(), ok bool)
}

// NIC is what a Server needs of a NIC. Every function but Do is called on the
// NIC's thread only.
type NIC struct {
	Verbs   *verbs.Device
	CM      *cm.Manager
	Network Network
	// QP finds a queue pair of a process by its number, nil if there is none.
	QP func(pid int, num uint32) *verbs.QP
	// Now is the time on the NIC's thread.
	Now func() frame.Time
	// Schedule runs fn at a time unless cancel is called before.
	Schedule func(at frame.Time, fn func(now frame.Time)) (cancel func())
	// Do runs fn on the NIC's thread, in the order of the calls; nil stands for
	// a world with one thread.
	Do func(fn func(now frame.Time))
}

// Server serves the connection manager's file over several NICs, which may
// each have a thread of their own.
type Server struct {
	mu    sync.Mutex // guards what follows; no other code is called with it held
	homes []*Device  // NICs that are attached, or still have files
	ports ports
}

// NewServer returns a server without NICs.
func NewServer() *Server { return &Server{ports: newPorts()} }

// Device is a NIC of a Server. It is the home of the files that are opened
// through it.
type Device struct {
	NIC
	s     *Server
	guid  verbs.GUID
	gid   verbs.GID // of the MAC address
	left  bool      // Detach was called
	files []*File
	ids   []*id // by number; nil: free. Those of the files, requests not yet reported among them
	free  int   // no number below is free
	// joined is how many groups programs have ever joined: the numbers given out.
	joined int
}

// maxIDs bounds the ids of a home: librdmacm keeps no higher number.
const maxIDs = 1 << 16

// Attach adds a NIC, on its thread.
func (s *Server) Attach(n NIC) *Device {
	d := &Device{NIC: n, s: s, guid: n.Verbs.Identity().GUID}
	if gids := n.Verbs.GIDs(); len(gids) > 0 {
		d.gid = gids[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.homes = append(s.homes, d)
	return d
}

// Detach takes the NIC away: programs are told with DEVICE_REMOVAL of every id
// that uses it. Its files stay until they are closed. It is called on the NIC's
// thread, as what al.Client.Remove has to do.
func (d *Device) Detach() {
	d.s.mu.Lock()
	homes := slices.Clone(d.s.homes)
	d.s.mu.Unlock()
	for _, home := range homes {
		home.run(d, func(frame.Time) { home.lost(d) })
	}
	d.left = true
	d.forgetIfIdle()
}

// forgetIfIdle forgets a home that is detached and has no files any more.
func (d *Device) forgetIfIdle() {
	if !d.left || len(d.files) > 0 {
		return
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.homes = slices.DeleteFunc(d.s.homes, func(o *Device) bool { return o == d })
}

// run has fn executed on d's thread; from is the NIC whose thread calls. On
// its own thread that is at once.
func (d *Device) run(from *Device, fn func(now frame.Time)) {
	switch {
	case d == from:
		fn(d.Now())
	case d.Do != nil:
		d.Do(fn)
	case d.Verbs.InCallback():
		d.Verbs.Defer(fn)
	default:
		fn(d.Now())
	}
}

// gather has do executed on the thread of every NIC in list, each with its
// place in it, then all on d's.
func (d *Device) gather(list []*Device, do func(i int, n *Device, now frame.Time), all func()) {
	left := len(list)
	if left == 0 {
		all()
		return
	}
	for i, n := range list {
		n.run(d, func(now frame.Time) {
			do(i, n, now)
			d.run(n, func(frame.Time) {
				if left--; left == 0 {
					all()
				}
			})
		})
	}
}

// add gives i a number. False means that there are too many ids.
func (d *Device) add(i *id) bool {
	for d.free < len(d.ids) && d.ids[d.free] != nil {
		d.free++
	}
	switch {
	case d.free == maxIDs:
		return false
	case d.free == len(d.ids):
		d.ids = append(d.ids, nil)
	}
	i.num = uint32(d.free)
	d.ids[d.free] = i
	return true
}

// drop gives i's number back.
func (d *Device) drop(i *id) {
	d.ids[i.num] = nil
	d.free = min(d.free, int(i.num))
}

// each calls fn for every id of the home, in the order of their numbers.
func (d *Device) each(fn func(i *id)) {
	for _, i := range slices.Clone(d.ids) {
		if i != nil && !i.gone {
			fn(i)
		}
	}
}

// lost tells the programs of home d that NIC n is gone.
func (d *Device) lost(n *Device) {
	for _, f := range d.files {
		f.nics = slices.DeleteFunc(f.nics, func(o *Device) bool { return o == n })
	}
	d.each(func(i *id) {
		i.listeners = slices.DeleteFunc(i.listeners, func(l *listener) bool { return l.dev == n })
		if i.dev == n {
			i.remove()
		}
	})
}
