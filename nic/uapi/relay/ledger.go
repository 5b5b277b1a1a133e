package relay

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
)

// ledger is memory that both processes share: the ids of the calls that the
// NIC's process has received and not yet answered. If it dies, the supervisor
// answers them: the kernel does not name them again, and their threads would
// sleep for ever.
type ledger struct {
	mem   []byte
	slots []atomic.Uint64
	free  []uint32 // of the NIC's process; not in order
}

const ledgerSlots = 8 << 10

// newLedger makes one and the descriptor to pass on.
func newLedger() (*ledger, int, error) {
	mem, fd, err := ipc.NewMemory("tapir-calls", 8*ledgerSlots)
	if err != nil {
		return nil, -1, err
	}
	return ledgerIn(mem), fd, nil
}

// openLedger maps the other side's, whose descriptor stays the caller's.
func openLedger(fd int) (*ledger, error) {
	mem, err := ipc.Map(fd, 8*ledgerSlots)
	if err != nil {
		return nil, err
	}
	return ledgerIn(mem), nil
}

func ledgerIn(mem []byte) *ledger {
	l := &ledger{mem: mem, slots: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[0])), ledgerSlots)}
	for i := range uint32(ledgerSlots) {
		l.free = append(l.free, ledgerSlots-1-i)
	}
	return l
}

func (l *ledger) close() { _ = unix.Munmap(l.mem) }

// enter notes a call and returns its slot; false if all are taken.
func (l *ledger) enter(id uint64) (slot uint32, ok bool) {
	if len(l.free) == 0 {
		return 0, false
	}
	slot, l.free = l.free[len(l.free)-1], l.free[:len(l.free)-1]
	l.slots[slot].Store(id)
	return slot, true
}

// leave forgets the call of a slot.
func (l *ledger) leave(slot uint32) {
	l.slots[slot].Store(0)
	l.free = append(l.free, slot)
}

// unanswered returns the calls that are noted.
func (l *ledger) unanswered() (ids []uint64) {
	for i := range l.slots {
		if id := l.slots[i].Load(); id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}
