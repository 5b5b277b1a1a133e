package uverbs

import (
	"slices"
	"syscall"

	"tapir/nic/al"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/eventpipe"
	"tapir/wire/frame"
)

// target is an object that asynchronous events are about.
type target struct {
	f     *File
	user  uint64 // the program's name of it, in events
	async eventpipe.Source
	to    *eventpipe.Pipe
}

// target is what the events of the object that a command makes are about.
func (r *request) target(user uint64) target {
	t := target{f: r.f, user: user, to: r.events}
	if t.to == nil && len(r.f.asyncs) > 0 {
		t.to = r.f.asyncs[0].pipe
	}
	if t.to == nil {
		t.to = eventpipe.Closed()
	}
	return t
}

// AsyncEvent implements al.EventHandler.
func (t *target) AsyncEvent(ev al.Event, _ frame.Time) { pushAsync(t.to, &t.async, t.user, ev.Type) }

// eventsRead is what the command that destroys the object answers.
func (t *target) eventsRead() []uint32 { return []uint32{t.async.Read} }

// channel is a completion channel. The program names it by its descriptor.
type channel struct {
	pipe   *eventpipe.Pipe
	number int // of the program's descriptor
	pid    int // of the process that made it
	cqs    int
}

// createCompChannel serves CREATE_COMP_CHANNEL{response; } -> {fd}.
func createCompChannel(r *request) error {
	f := r.f
	if len(f.channels) >= f.sweepAt {
		f.sweepChannels()
		f.sweepAt = 2*len(f.channels) + idleChannels
	}
	if len(f.channels) >= f.ctx.Query().MaxCQ {
		return syscall.ENOMEM
	}
	ch, err := r.newChannel(compEventLen)
	if err != nil {
		return err
	}
	f.channels = append(f.channels, ch)
	return r.answer(words(uint32(ch.number)), nil)
}

// newChannel makes a channel for events of that many octets.
func (r *request) newChannel(size int) (*channel, error) {
	pipe, program, err := eventpipe.New(size)
	if err != nil {
		return nil, err
	}
	number, err := r.c.Install(program, syscall.O_CLOEXEC)
	if err != nil {
		pipe.Close()
		return nil, err
	}
	return &channel{pipe: pipe, number: number, pid: r.c.Process()}, nil
}

// newAsyncChannel makes one for asynchronous events: if this process dies, DEVICE_FATAL is read.
func (r *request) newAsyncChannel() (*channel, error) {
	ch, err := r.newChannel(asyncEventLen)
	if c, ok := r.c.(abi.LastWords); ok && err == nil {
		fatal := native.AppendUint32(make([]byte, 8, asyncEventLen), uint32(al.DeviceFatal))
		r.f.revoke = c.LastWords(ch.pipe.FD(), native.AppendUint32(fatal, 0))
	}
	return ch, err
}

// allocAsync serves ASYNC_EVENT_ALLOC -> {fd}.
func allocAsync(r *request) error {
	f := r.f
	f.asyncs = slices.DeleteFunc(f.asyncs, func(ch *channel) bool {
		if ch.pipe.Abandoned() {
			ch.pipe.CountRead()
			ch.pipe.Close()
		}
		return ch.pipe.FD() < 0 && ch != f.asyncs[0] // whose events are all objects' that have no other
	})
	if len(f.asyncs) >= f.ctx.Query().MaxCQ {
		return syscall.ENOMEM
	}
	ch, err := r.newAsyncChannel()
	if err != nil {
		return err
	}
	f.asyncs = append(f.asyncs, ch)
	return r.answer(words(uint32(ch.number)), nil)
}

// findChannel returns the newest of the channels with that descriptor that someone
// has open, preferably of the process itself: a child's may be numbered as its
// parent's.
func findChannel(channels []*channel, pid int, number int32) (*channel, error) {
	var found *channel
	for _, ch := range channels {
		better := found == nil || ch.pid == pid || found.pid != pid
		if ch.number == int(number) && better && !ch.pipe.Abandoned() {
			found = ch
		}
	}
	if found == nil {
		return nil, syscall.EBADF
	}
	return found, nil
}

// idleChannels is how many channels without a reader a File keeps beside those in use.
const idleChannels = 8

// sweepChannels closes the channels that no one can read from: destroying one
// is close(2), of which the server is not told. Those with CQs are kept for
// their counts, without a descriptor.
func (f *File) sweepChannels() {
	f.channels = slices.DeleteFunc(f.channels, func(ch *channel) bool {
		if ch.pipe.Abandoned() {
			ch.pipe.CountRead()
			ch.pipe.Close()
		}
		return ch.cqs == 0 && ch.pipe.FD() < 0
	})
}
