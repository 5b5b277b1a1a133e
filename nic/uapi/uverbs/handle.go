package uverbs

import "syscall"

// object is what a handle stands for.
type object interface {
	// destroy frees it; nothing has happened if that fails.
	destroy() error
}

// handles is the one table of a File's objects. A handle is an index.
type handles struct {
	slots []object
	free  []uint32
}

// add puts o on record.
func (t *handles) add(o object) uint32 {
	if n := len(t.free); n > 0 {
		h := t.free[n-1]
		t.free = t.free[:n-1]
		t.slots[h] = o
		return h
	}
	t.slots = append(t.slots, o)
	return uint32(len(t.slots) - 1)
}

func (t *handles) drop(h uint32) {
	t.slots[h] = nil
	t.free = append(t.free, h)
}

// lookup authenticates a handle: it must be the File's, and of the right kind.
// ENOENT: there is no such object; EINVAL: it is of another kind.
func lookup[T object](f *File, handle uint32) (o T, err error) {
	if int64(handle) >= int64(len(f.handles.slots)) || f.handles.slots[handle] == nil {
		return o, syscall.ENOENT
	}
	o, ok := f.handles.slots[handle].(T)
	if !ok {
		return o, syscall.EINVAL
	}
	return o, nil
}

// create calls the access layer for o, puts it on record and answers; o goes
// again if the program cannot be told of it.
func (r *request) create(o object, call func() error, answer func(handle uint32) (core, uhw []byte)) error {
	r.trace(StepAccess)
	if err := call(); err != nil {
		return err
	}
	r.trace(StepCreated)
	h := r.f.handles.add(o)
	r.trace(StepTracked)
	err := r.answer(answer(h))
	if err != nil {
		_ = o.destroy()
		r.f.drop(h)
	}
	return err
}

// about serves a command about the object of kind T that the request names at
// offset at.
func about[T object](at int, serve func(*request, T) error) func(*request) error {
	return func(r *request) error {
		o, err := lookup[T](r.f, r.in.u32(at))
		if err != nil {
			return err
		}
		return serve(r, o)
	}
}

// ends serves a command that destroys the object that the request names at
// offset at. Where there is an answer, it is how many of the object's events
// the program has read.
func ends[T object](at int) func(*request) error {
	return func(r *request) error {
		h := r.in.u32(at)
		o, err := lookup[T](r.f, h)
		if err == nil {
			err = o.destroy()
		}
		if err != nil {
			return err
		}
		r.f.drop(h)
		if e, ok := object(o).(interface{ eventsRead() []uint32 }); ok {
			return r.answer(words(e.eventsRead()...), nil)
		}
		return nil
	}
}
