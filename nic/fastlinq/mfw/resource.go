package mfw

import (
	"slices"
	"time"

	"tapir/wire/frame"
)

// Resources that drivers lock, of 32.
const (
	LockDebugDump = 0  // ResourceDump
	LockRescAlloc = 31 // while resources are allocated
)

// Operations of RESOURCE_CMD, and its outcomes.
const (
	lockReq          = 1
	lockReqNoAging   = 2
	lockReqAging     = 3
	lockRelease      = 4
	lockForceRelease = 5

	LockGranted    = 1
	LockBusy       = 2
	LockReleased   = 3
	LockWasFree    = 4 // released before
	LockWrongOwner = 5
	lockUnknown    = 7 // the field has three bits
)

// defaultAging is after how many seconds a lock runs out.
const defaultAging = 5

// lock is a resource that a function holds.
type lock struct {
	resource uint32
	owner    int
	until    frame.Time
}

// LockRequest is the parameter of RESOURCE_CMD that locks a resource: seconds
// is LockDefault, LockNone or 1 to 254.
func LockRequest(resource int, seconds uint8) uint32 {
	op := uint32(lockReqAging)
	switch seconds {
	case LockDefault:
		op = lockReq
	case LockNone:
		op = lockReqNoAging
	}
	return uint32(resource&0x1f) | op<<5 | uint32(seconds)<<8
}

// UnlockRequest is the parameter that releases one, of another owner too if
// force is set.
func UnlockRequest(resource int, force bool) uint32 {
	op := uint32(lockRelease)
	if force {
		op = lockForceRelease
	}
	return uint32(resource&0x1f) | op<<5
}

// LockOutcome takes the answer's parameter apart.
func LockOutcome(param uint32) (outcome, owner int) { return int(param >> 8 & 7), int(param & 0xff) }

func (f *Firmware) resourceCmd(fn int, param uint32) uint32 {
	resource, op := param&0x1f, param>>5&7
	i := slices.IndexFunc(f.locks, func(l lock) bool { return l.resource == resource })
	owner := fn
	if i >= 0 {
		owner = f.locks[i].owner
	}
	out := func(outcome int) uint32 { return uint32(owner&0xff) | uint32(outcome)<<8 }
	switch op {
	case lockReq, lockReqNoAging, lockReqAging:
		if owner != fn {
			return out(LockBusy)
		}
		if i < 0 {
			f.locks, i = append(f.locks, lock{resource: resource, owner: fn}), len(f.locks)
		}
		f.locks[i].until = f.lockEnd(op, param>>8&0xff)
		return out(LockGranted)
	case lockRelease, lockForceRelease:
		switch {
		case i < 0:
			return out(LockWasFree)
		case owner != fn && op == lockRelease:
			return out(LockWrongOwner)
		}
		f.locks = slices.Delete(f.locks, i, i+1)
		return out(LockReleased)
	}
	return out(lockUnknown)
}

// lockEnd is when a lock taken now runs out.
func (f *Firmware) lockEnd(op, age uint32) frame.Time {
	switch op {
	case lockReq:
		return f.now.Add(defaultAging * time.Second)
	case lockReqAging:
		return f.now.Add(time.Duration(age) * time.Second)
	}
	return frame.Never
}

func (f *Firmware) releaseLocks(fn int) {
	f.locks = slices.DeleteFunc(f.locks, func(l lock) bool { return l.owner == fn })
}

func (f *Firmware) expireLocks() frame.Time {
	f.locks = slices.DeleteFunc(f.locks, func(l lock) bool { return f.now >= l.until })
	return f.nextLockExpiry()
}

func (f *Firmware) nextLockExpiry() frame.Time {
	next := frame.Never
	for _, l := range f.locks {
		next = min(next, l.until)
	}
	return next
}

// resourceVersion is that of the exchange below: 2.0.
const resourceVersion = 2 << 16

// ResourceID names a resource that functions of an engine share.
type ResourceID uint32

// The resources that the firmware knows.
const (
	ResourceSB         ResourceID = 0
	ResourceL2Queue    ResourceID = 1
	ResourceVPort      ResourceID = 2
	ResourceRL         ResourceID = 6
	ResourcePQ         ResourceID = 7
	ResourceILT        ResourceID = 10
	ResourceCQs        ResourceID = 11
	ResourceRSSEngines ResourceID = 14
	ResourceLL2Queue   ResourceID = 15
	ResourceLLHFilter  ResourceID = 19
)

// perEngine is how many an engine of the second chip has.
var perEngine = map[ResourceID]uint32{
	ResourceSB: 368, ResourceL2Queue: 320, ResourceVPort: 208, ResourceRL: 256, ResourcePQ: 512, ResourceILT: 11000,
	ResourceCQs: 64, ResourceRSSEngines: 207, ResourceLL2Queue: 32, ResourceLLHFilter: 512,
}

// perEngineBB is how many one of the first chip has.
var perEngineBB = map[ResourceID]uint32{
	ResourceSB: 288, ResourceL2Queue: 256, ResourceVPort: 160, ResourceRL: 256, ResourcePQ: 448, ResourceILT: 7600,
	ResourceCQs: 64, ResourceRSSEngines: 127, ResourceLL2Queue: 32, ResourceLLHFilter: 512,
}

// resourceInfo is the beginning of resource_info.
type resourceInfo struct {
	ID           ResourceID
	Size, Offset uint32
}

// resourceAlloc tells a function its share, by the size and offset of resource_info.
// SET_RESOURCE_VALUE asks for a size: no more than the share.
func (f *Firmware) resourceAlloc(r *request) Response {
	r.value = resourceVersion
	asked := decode[resourceInfo](r.data)
	total, ok := perEngine[asked.ID]
	if f.cfg.BB {
		total, ok = perEngineBB[asked.ID]
	}
	if !ok {
		return ResourceAllocUnknown
	}
	index, count := 0, 0
	for i := range f.funcs {
		if f.engine(i) == f.engine(r.fn) {
			if i < r.fn {
				index++
			}
			count++
		}
	}
	share := total / uint32(count)
	resp := ResourceAllocOK
	if r.cmd == CmdSetResourceValue && asked.Size > share {
		resp = ResourceAllocDenied
	}
	encode(r.data, resourceInfo{asked.ID, share, share * uint32(index)})
	return resp
}
