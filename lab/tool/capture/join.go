package capture

import (
	"bytes"
	"cmp"
	"hash/maphash"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/pcapng"
	"tapir/wire/virtio"
)

// Join puts into one Lab what the links and the nodes of a lab tell of the same
// frames: the link when a frame entered and left it and what became of it, the
// node which work request it belongs to and whether it was dropped. A frame is
// written once for each link end, with the link's time and both comments.
//
// Each side is told of in the order of time, or nearly so; what is held until
// the other side has spoken is bounded. It belongs to one goroutine.
type Join struct {
	lab     *Lab
	opt     JoinOptions
	split   virtio.Splitter
	own     []bool     // of each end: its node tells, too
	lanes   []*[2]lane // of each end, by direction
	queue   []*joined
	head    int // the first in queue
	waiting map[joinKey]*joined
	notes   []frame.Note // spare
	spare   []*joined
	now     int64 // the latest time that was told
	octets  int   // of the frames in queue
}

// lane are the frames of a link end in one direction that wait for the other side. Most are what is told
// next of the lane, and are found without a hash.
type lane struct {
	fresh   *joined     // the latest that waits, if it is not in Join.waiting as those before are
	waiting [nobody]int // number in Join.waiting, by who has told
}

// JoinOptions bound what a Join holds.
type JoinOptions struct {
	// Window is how long, in nanoseconds of the stamps, one side waits for the
	// other; 0: 5 s.
	Window int64
	// Octets may be held at most, of frames and comments; 0: 64 MiB.
	Octets int
}

// source is who has told of a frame.
type source uint8

const (
	fromLink source = iota
	fromNode
	nobody // all is known, or the wait has ended
)

// joined is what is held: a frame at a link end, or what a node said.
type joined struct {
	iface uint32
	whole int          // octets on the wire
	rec   frame.Record // of a true frame; Data and Notes are its own
	data  []byte
	said  pcapng.Journal
	event bool
	at    int64
	told  source // by whom alone; nobody: it is ready
	gone  bool   // it has become part of another
	lane  *lane
	key   joinKey // if it is or was in Join.waiting
	next  *joined // of those that wait with the same key
}

// joinKey finds a frame at a link end. What two sides tell of a frame in the
// same direction is the same but for a checksum that is left to a device.
type joinKey struct {
	iface uint32
	dir   frame.Direction
	told  source
	hash  uint64
	n     uint32 // octets on the wire
}

// JoinPrefix is how much of a frame each side has to keep, in octets.
const JoinPrefix = 128

// NewJoin returns a Join that writes to lab.
func NewJoin(lab *Lab, opt JoinOptions) *Join {
	opt.Window = cmp.Or(opt.Window, 5e9)
	opt.Octets = cmp.Or(opt.Octets, 64<<20)
	return &Join{lab: lab, opt: opt, waiting: map[joinKey]*joined{}}
}

// Add describes a link end, and says whether its node tells of frames, too. It
// returns the number of its interface.
func (j *Join) Add(e End, node bool) (iface uint32) {
	j.own, j.lanes = append(j.own, node), append(j.lanes, new([2]lane))
	return j.lab.Add(e)
}

// Link takes what the link tells of a frame at one of its ends: see Lab.Packet.
func (j *Join) Link(iface uint32, r *frame.Record) { j.tell(iface, r, fromLink) }

// Node takes what the node at a link end tells of a frame that it sent to the
// link or had from it: see Lab.Packet. ID is not looked at.
func (j *Join) Node(iface uint32, r *frame.Record) { j.tell(iface, r, fromNode) }

// Say takes what a node says.
func (j *Join) Say(e *pcapng.Journal) {
	x := j.take()
	x.event, x.told, x.at = true, nobody, e.Stamp
	x.said = *e
	x.data = append(x.data[:0], e.Message...)
	x.said.Message = x.data
	j.put(x)
}

// tell splits what is told into true frames.
func (j *Join) tell(iface uint32, r *frame.Record, from source) {
	if r.Offload.GSO == frame.GSONone && !r.Offload.NeedsCsum {
		j.frame(iface, r, r.Data, len(r.Data), from, r.ID, r.Notes)
		return
	}
	id, n := r.ID, 1
	if r.Offload.GSO != frame.GSONone {
		n, _ = j.split.Begin(r.Offload, r.Data)
		j.split.End()
	}
	notes := eachOf(r.Notes, n)
	err := j.split.Split(r.Offload, r.Data, func(seg []byte) {
		j.frame(iface, r, seg, len(seg), from, id, notes.next())
		if id != 0 {
			id++
		}
	})
	if err != nil {
		j.frame(iface, r, r.Data, len(r.Data), from, r.ID, r.Notes)
	}
}

// frame takes a true frame of n octets on the wire.
func (j *Join) frame(iface uint32, r *frame.Record, data []byte, n int, from source, id uint64, notes []frame.Note) {
	rec := frame.Record{Dir: r.Dir, System: r.System, Drop: r.Drop}
	if rec.System == 0 {
		rec.System = r.Stamp
	}
	if from == fromLink {
		rec.ID = id
	}
	// What a node drops on its way out never comes to the link.
	waits := j.own[iface] && !(from == fromNode && r.Dir == frame.Outbound && isDropped(r, notes))
	l := &j.lanes[iface][r.Dir]
	if waits && j.merge(l, &rec, data, n, from, notes) {
		j.pour()
		return
	}
	x := j.take()
	rec.Notes = appendNotes(x.rec.Notes[:0], notes)
	x.iface, x.whole, x.told, x.event, x.lane = iface, n, nobody, false, l
	x.data = append(x.data[:0], data...)
	x.rec, x.rec.Data = rec, x.data
	x.at = int64(x.rec.System)
	if waits {
		x.told = from
		j.match(x)
	}
	j.put(x)
}

// merge adds what one side tells of a frame of n octets to the one that waits for just that, in its place,
// and reports whether there is one.
func (j *Join) merge(l *lane, r *frame.Record, data []byte, n int, from source, notes []frame.Note) bool {
	y, other := l.fresh, fromNode-from
	if y == nil || y.told != other || l.waiting[other] > 0 || y.whole != n || !bytes.Equal(y.data, data) {
		return false
	}
	if from == fromNode {
		j.now = max(j.now, int64(r.System))
		if len(notes) > 0 { // the node's come first
			j.notes = appendNotes(appendNotes(j.notes[:0], notes), y.rec.Notes)
			j.notes, y.rec.Notes = y.rec.Notes, j.notes
		}
		y.rec.Drop = cmp.Or(y.rec.Drop, r.Drop)
	} else {
		at := int64(r.System)
		if j.queue[len(j.queue)-1] != y || y.at > at {
			return false // it has its place by what the link tells
		}
		j.now = max(j.now, at)
		y.at, y.rec.System, y.rec.ID = at, r.System, r.ID
		y.rec.Drop, y.rec.Notes = cmp.Or(r.Drop, y.rec.Drop), appendNotes(y.rec.Notes, notes)
	}
	y.told, l.fresh = nobody, nil
	return true
}

// appendNotes appends copies of notes, in the memory of those that were there.
func appendNotes(to, notes []frame.Note) []frame.Note {
	for _, n := range notes {
		if len(to) < cap(to) {
			to = to[:len(to)+1]
		} else {
			to = append(to, frame.Note{})
		}
		last := &to[len(to)-1]
		last.Text, last.Times = append(last.Text[:0], n.Text...), n.Times
	}
	return to
}

// match looks for what the other side has told of the same frame, or has x wait
// for it.
func (j *Join) match(x *joined) {
	j.settle(x.lane)
	if x.lane.waiting[fromNode-x.told] == 0 {
		x.lane.fresh = x
		return
	}
	x.key = x.joinKey()
	other := x.key
	other.told = fromNode - x.told
	y := j.waiting[other]
	if y == nil {
		x.lane.fresh = x
		return
	}
	j.unwait(y)
	link, node := x, y
	if x.told == fromNode {
		link, node = y, x
	}
	node.gone = true
	drop := node.rec.Drop
	notes := appendNotes(node.rec.Notes, link.rec.Notes) // the node's come first
	link.rec.Notes, node.rec.Notes = notes, link.rec.Notes[:0]
	if link.rec.Drop == frame.DropNone {
		link.rec.Drop = drop
	}
	link.told, node.told = nobody, nobody
}

func (x *joined) joinKey() joinKey {
	return joinKey{x.iface, x.rec.Dir, x.told, prefixHash(x.data, x.whole), uint32(x.whole)}
}

// settle puts the fresh frame of a lane into waiting, behind those with its key.
func (j *Join) settle(l *lane) {
	x := l.fresh
	if x == nil {
		return
	}
	l.fresh = nil
	l.waiting[x.told]++
	x.key, x.next = x.joinKey(), nil
	at := j.waiting[x.key]
	if at == nil {
		j.waiting[x.key] = x
		return
	}
	for at.next != nil {
		at = at.next
	}
	at.next = x
}

// unwait takes x out of those that wait.
func (j *Join) unwait(x *joined) {
	if x.lane.fresh == x {
		x.lane.fresh = nil
		return
	}
	x.lane.waiting[x.told]--
	first := j.waiting[x.key]
	switch {
	case first == x && x.next == nil:
		delete(j.waiting, x.key)
	case first == x:
		j.waiting[x.key] = x.next
	default:
		for first.next != x {
			first = first.next
		}
		first.next = x.next
	}
	x.next = nil
}

// put queues x by its time and writes what is ready.
func (j *Join) put(x *joined) {
	j.now = max(j.now, x.at)
	i := len(j.queue)
	j.queue = append(j.queue, x)
	for ; i > j.head && j.queue[i-1].at > x.at; i-- {
		j.queue[i] = j.queue[i-1]
	}
	j.queue[i] = x
	j.octets += x.weight()
	j.pour()
}

// pour writes what is ready.
func (j *Join) pour() {
	for j.head < len(j.queue) {
		first := j.queue[j.head]
		late := first.at+j.opt.Window < j.now || j.octets > j.opt.Octets
		if first.told != nobody && !late {
			return
		}
		j.write()
	}
}

// weight is what x counts against JoinOptions.Octets: it stays the same.
func (x *joined) weight() int { return len(x.data) + 256 }

// notOnLink is said of a frame of which the node alone has told.
var notOnLink = frame.Say("not seen on the link")

// write writes the first in the queue, whatever it waits for.
func (j *Join) write() {
	x := j.queue[j.head]
	j.queue[j.head] = nil
	if j.head++; j.head == len(j.queue) {
		j.queue, j.head = j.queue[:0], 0
	} else if j.head >= 4096 {
		j.queue = j.queue[:copy(j.queue, j.queue[j.head:])]
		j.head = 0
	}
	j.octets -= x.weight()
	alone := x.told
	if alone != nobody {
		j.unwait(x)
	}
	switch {
	case x.gone:
	case x.event:
		j.lab.Event(&x.said)
	default:
		if alone == fromNode {
			x.rec.Notes = appendNotes(x.rec.Notes, notOnLink)
		}
		j.lab.frame(x.iface, &x.rec, x.whole)
	}
	x.gone = false
	j.spare = append(j.spare, x)
}

func (j *Join) take() *joined {
	if n := len(j.spare); n > 0 {
		x := j.spare[n-1]
		j.spare = j.spare[:n-1]
		return x
	}
	return &joined{}
}

// Close writes what is held, and ends the file.
func (j *Join) Close() error {
	for j.head < len(j.queue) {
		j.write()
	}
	return j.lab.Close()
}

var hashSeed = maphash.MakeSeed()

// prefixHash is the hash of the beginning of a frame of n octets, another in each process.
// Where the frame may be cut there, the checksum of TCP and UDP is left out.
func prefixHash(b []byte, n int) uint64 {
	if n <= JoinPrefix {
		return maphash.Bytes(hashSeed, b)
	}
	var prefix [JoinPrefix]byte
	cut := prefix[:copy(prefix[:], b)]
	if sum := checksumAt(cut); sum > 0 {
		clear(cut[sum:min(sum+2, len(cut))])
	}
	return maphash.Bytes(hashSeed, cut)
}

// checksumAt is where the checksum of TCP or UDP is in a frame; 0: nowhere.
func checksumAt(b []byte) int {
	h, n, err := ether.Parse(b)
	if err != nil || h.Type != ether.TypeIPv4 && h.Type != ether.TypeIPv6 {
		return 0
	}
	p, payload, err := ip.ParseQuoted(b[n:])
	if err != nil || len(payload) < 18 {
		return 0
	}
	at := len(b) - len(payload)
	switch p.Proto {
	case ip.ProtoTCP:
		return at + 16
	case ip.ProtoUDP:
		return at + 6
	}
	return 0
}

// distribution hands notes to segments.
type distribution struct {
	notes []frame.Note
	each  bool
	used  int
}

// eachOf distributes notes over n segments: those that hold for as many go to
// theirs, any others stay with the first.
func eachOf(notes []frame.Note, n int) distribution {
	times := 0
	for i := range notes {
		times += notes[i].Times
	}
	return distribution{notes: notes, each: n > 1 && times == n}
}

// next are the notes of the next segment.
func (d *distribution) next() (own []frame.Note) {
	if !d.each {
		own, d.notes = d.notes, nil
		return own
	}
	own = d.notes[:1]
	if d.used++; d.used == d.notes[0].Times {
		d.notes, d.used = d.notes[1:], 0
	}
	return own
}
