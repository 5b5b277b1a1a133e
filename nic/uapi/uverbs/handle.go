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

// make calls the access layer for an object, with the steps traced.
func made[T any](r *request, create func() (T, error)) (T, error) {
	r.trace(StepAccess)
	o, err := create()
	if err == nil {
		r.trace(StepCreated)
	}
	return o, err
}

// track puts o on record.
func (r *request) track(o object) uint32 {
	h := r.f.handles.add(o)
	r.trace(StepTracked)
	return h
}

// answerNew is answer for a new object, which goes again if the program cannot
// be told of it.
func (r *request) answerNew(handle uint32, core, uhw []byte) error {
	err := r.answer(core, uhw)
	if err != nil {
		_ = r.f.handles.slots[handle].destroy()
		r.f.handles.drop(handle)
	}
	return err
}

// destroy frees the object of kind T that a handle names.
func destroy[T object](r *request, handle uint32) (o T, err error) {
	if o, err = lookup[T](r.f, handle); err != nil {
		return o, err
	}
	if err = o.destroy(); err == nil {
		r.f.handles.drop(handle)
	}
	return o, err
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
		o, err := destroy[T](r, r.in.u32(at))
		if err != nil {
			return err
		}
		if e, ok := object(o).(interface{ read() []uint32 }); ok {
			return r.answer(r.words(e.read()...), nil)
		}
		return nil
	}
}
