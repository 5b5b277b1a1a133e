package verbs

// A completion notification queue (CNQ) holds the completion queues that have
// something to say until its interrupt is served. Without interrupts that is at
// once.

// SetInterrupt has raise called, with the number of the CNQ, after each
// notification that was put into one; ServeCNQ then hands on what it holds.
func (d *Device) SetInterrupt(raise func(cnq int)) { d.raise = raise }

// ServeCNQ is the interrupt handler of a CNQ: the handlers of the completion
// queues that it holds run with the next Dispatch.
func (d *Device) ServeCNQ(cnq int) {
	held := d.notified[cnq]
	for i, c := range held {
		held[i] = nil
		d.pending = append(d.pending, queued{cq: c})
	}
	d.notified[cnq] = held[:0]
}
