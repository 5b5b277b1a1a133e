// Package cmt is what a device of two engines (CMT, the "100G coupled mode")
// has ahead of them: which engine a frame of the wire goes to, how the queues
// and the RSS table of one netdev are divided, and the rings by which the
// engines exchange frames.
//
// Nothing else is shared: each engine has a vport, filters and queues of its
// own, configured alike, and may run on a thread of its own.
//
// # Queues
//
// A queue pair of the user is one queue pair on each engine: queue q is the
// hardware queues 2q and 2q+1, and hardware queue h is queue h/2 of hwfn h mod 2.
// So any number of queues works, one as well as three, where half of them on
// each engine would want an even number and tables that keep to it.
//
// # RSS
//
// The 128 entries of the user's table are 64 for each engine: the seventh bit of
// a packet's hash chooses the engine, the six below it the entry. A flow so comes
// to the same queue of the user as it would with one engine, whatever the table.
//
// The state machines have neither clock nor goroutine nor lock; a Ring joins two
// threads by atomic operations alone.
package cmt

import (
	"math/bits"

	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
)

// Engines is the number of engines of a coupled device.
const Engines = 2

// tableLen is the number of entries of the RSS table of one engine.
const tableLen = l2.TableLen / Engines

// Hwfn is the engine that a hardware queue is on, Local the queue's number
// there.
func Hwfn(queue int) int { return queue % Engines }

// Local is the number that a hardware queue has on its engine.
func Local(queue int) int { return queue / Engines }

// Queue is the hardware queue that is number local on an engine.
func Queue(engine, local int) int { return local*Engines + engine }

// engineOf is the engine of a hash.
func engineOf(hash uint32) int { return int(hash>>bits.Len(tableLen-1)) % Engines }

// Settings are those of one engine's half of a netdev: what the user has set, but for
// the rate, which counts for both together, and the engine's half of the RSS table.
// table is the queue of each entry of the user's.
func Settings(s qede.Settings, table [l2.TableLen]int, engine int) qede.Settings {
	s.TxMaxRate = 0
	s.Table = append([]int(nil), table[engine*tableLen:(engine+1)*tableLen]...)
	return s
}
