package verbs

// PD is a protection domain.
type PD struct {
	dev  *Device
	ctx  *Context // nil: the driver's own
	num  uint32
	refs int
	qps  int // how many of them are queue pairs
	dead bool
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	num, err := d.add(kindPD, d.limits.MaxPD, "PD")
	if err != nil {
		return nil, err
	}
	p := &PD{dev: d, num: num}
	d.pds.Add(num, p)
	return p, nil
}

// Num is the PD's number within its device, from 1.
func (p *PD) Num() uint32 { return p.num }

// Dealloc destroys the PD; ErrBusy while an MR, MW, QP or SRQ uses it.
func (p *PD) Dealloc() error {
	if err := p.dev.mayDestroy("PD", p.num, p.dead, p.refs); err != nil {
		return err
	}
	p.dead = true
	p.dev.gone(kindPD, p.num)
	p.dev.pds.Remove(p.num)
	p.ctx.release()
	return nil
}
