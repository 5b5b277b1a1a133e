package uverbs

import (
	"iter"
	"slices"
	"syscall"

	"tapir/nic/al"
	"tapir/nic/ring"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/eventpipe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// File is one opening of the device, with all that was made through it. It
// implements abi.File and hears of the device's events.
type File struct {
	server   *Server
	view     View
	arena    *ring.Arena
	ctx      *al.Context // nil: GET_CONTEXT has not come, or the device is gone
	leaving  bool        // DEVICE_FATAL was sent
	gone     bool        // the device is gone: every command fails with EIO
	closed   bool
	asyncs   []*channel // of asynchronous events, the first made first
	revoke   func()     // takes back what programs are told if this process dies
	channels []*channel
	sweepAt  int // number of channels at which some may be closed
	handles  handles
	bells    *doorbell.Bells // nil: everything comes by command
	pids     []int           // processes that have used the file
	req      request
	io       ioctl // of req
}

// Command implements abi.File. No command is answered later.
func (f *File) Command(c abi.Caller, b []byte) error {
	if f.gone || f.closed {
		return syscall.EIO
	}
	r := &f.req
	r.c = c
	err := f.serve(r, b)
	r.c, r.in, r.uhw = nil, nil, nil
	return err
}

func (f *File) serve(r *request, b []byte) error {
	if err := r.decode(b); err != nil {
		return err
	}
	return f.carryOut(r)
}

// carryOut serves a command that was decoded.
func (f *File) carryOut(r *request) error {
	if f.ctx == nil && !r.cmd.first {
		return syscall.EINVAL
	}
	f.note(r.c.Process())
	f.retry()
	r.trace(StepProxy)
	err := errnos.Of(r.cmd.serve(r))
	r.traceErr(StepAnswered, err)
	return err
}

// gidTable is how many entries the GID table has that programs see.
const gidTable = verbs.MaxGIDs

// gids are the entries of the table that the program sees, up to the last used: the
// first of an RNIC's is that of the MAC address.
func (f *File) gids() []verbs.GID {
	v := f.server.ca.Verbs()
	all := v.GIDs()
	if v.Fabric() {
		return all
	}
	if f.view.IPGIDs {
		return all[min(1, len(all)):]
	}
	return all[:min(1, len(all))]
}

// gidAt is entry i of that table, zero if it is not used.
func (f *File) gidAt(i int) (g verbs.GID) {
	if all := f.gids(); i < len(all) {
		g = all[i]
	}
	return g
}

// Process is the id of a process that uses the file: while it lives, the one that opened it.
func (f *File) Process() int { return f.pids[0] }

// manyProcesses is how many have used a file when those that are gone are forgotten.
const manyProcesses = 64

// note records a process that uses the file.
func (f *File) note(pid int) {
	if slices.Contains(f.pids, pid) {
		return
	}
	if n := len(f.pids); n >= manyProcesses && n == cap(f.pids) {
		f.pids = slices.DeleteFunc(f.pids, func(p int) bool { return syscall.Kill(p, 0) == syscall.ESRCH })
	}
	f.pids = append(f.pids, pid)
}

// pipes are those of all events.
func (f *File) pipes() iter.Seq[*channel] {
	return func(yield func(*channel) bool) {
		for _, list := range [][]*channel{f.asyncs, f.channels} {
			for _, ch := range list {
				if !yield(ch) {
					return
				}
			}
		}
	}
}

// retry sends events that found a pipe full.
func (f *File) retry() {
	for ch := range f.pipes() {
		ch.pipe.Flush()
	}
}

// SetBells has the program ring b, by the handles of its queue pairs, and arm its
// completion queues there; nil takes that back. A queue pair may be rung for when
// it has been posted to by command.
func (f *File) SetBells(b *doorbell.Bells) {
	f.bells = b
	for h, o := range f.handles.slots {
		if q, ok := o.(*cq); ok {
			q.share(uint32(h))
		}
	}
}

// Rung is what a doorbell stands for.
func (f *File) Rung(handle int) {
	if q, err := lookup[*qp](f, uint32(handle)); err == nil {
		_ = q.v.Doorbell() // it could, when the program was told that it may ring
	}
}

// drop takes a handle back.
func (f *File) drop(h uint32) {
	f.handles.drop(h)
	if f.bells != nil {
		f.bells.Posts(h, false)
		f.bells.Notifies(h, false)
	}
}

// Cancel implements abi.File.
func (f *File) Cancel(abi.Caller) bool { return false }

// Close implements abi.File: queue pairs go to error and their peers are told,
// then windows, regions, queues and domains go.
func (f *File) Close() {
	if f.closed {
		return
	}
	f.closed = true
	f.reclaim(f.server.ca.Now())
	for ch := range f.pipes() {
		ch.pipe.Close()
	}
	f.channels, f.asyncs = nil, nil
	f.arena.Close()
}

// reclaim destroys what was made through the file.
func (f *File) reclaim(now frame.Time) {
	for _, o := range f.handles.slots {
		if q, ok := o.(*qp); ok {
			delete(f.server.qps, q.v.QPN())
		}
	}
	if f.ctx != nil {
		_ = f.ctx.Reclaim(now) // refused in callbacks only, and this is none
	}
	f.ctx, f.handles = nil, handles{}
}

// AsyncEvent implements al.EventHandler for events of the device and its port.
// A device that goes takes what was made on it along, and nothing can be done
// with the file any more.
func (f *File) AsyncEvent(ev al.Event, _ frame.Time) {
	fatal := ev.Type == al.DeviceFatal
	if fatal && f.leaving {
		return
	}
	f.leaving = f.leaving || fatal
	for _, ch := range f.asyncs {
		pushAsync(ch.pipe, nil, uint64(ev.Port), ev.Type)
	}
	if fatal {
		f.revoke() // it is told
		f.server.ca.Verbs().Defer(func(now frame.Time) {
			f.gone = true
			f.reclaim(now)
		})
	}
}

// Octets of the events that a program reads.
const (
	compEventLen  = 8  // the CQ's user handle
	asyncEventLen = 16 // user handle or port, u32 type, u32 0
)

func pushAsync(to *eventpipe.Pipe, of *eventpipe.Source, element uint64, t al.EventType) {
	n := eventpipe.Note{Of: of}
	native.PutUint64(n.Data[:], element)
	native.PutUint32(n.Data[8:], uint32(t))
	to.Push(n)
}
