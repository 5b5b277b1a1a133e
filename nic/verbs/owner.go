package verbs

// PDs returns a device's protection domains in order of creation, borrowed.
func PDs(d *Device) []*PD { return d.pds.All() }

// SRQs returns a device's shared receive queues in order of creation, borrowed.
func SRQs(d *Device) []*SRQ { return d.srqs.All() }

// PD is the queue's protection domain.
func (s *SRQ) PD() *PD { return s.pd }

// Users is how many objects use the object.
func (o *object) Users() int { return o.refs }

// Owner is the context that the object was made through; nil: the driver's own.
func (o *object) Owner() *Context {
	for ; o != nil; o = o.parent {
		if o.kind == kindContext {
			for _, c := range o.dev.Contexts() {
				if c.num == o.num {
					return c
				}
			}
		}
	}
	return nil
}
