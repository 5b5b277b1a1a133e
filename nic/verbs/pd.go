package verbs

// PD is a protection domain.
type PD struct {
	object
	ctx *Context // nil: the driver's own
	qps int      // how many of those who use it are queue pairs
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) { return d.allocPD(nil) }

func (d *Device) allocPD(c *Context) (*PD, error) {
	o, err := d.add(kindPD, c.base())
	if err != nil {
		return nil, err
	}
	p := &PD{object: o, ctx: c}
	d.pds.Add(p.num, p)
	return p, nil
}

// Dealloc destroys the PD; ErrBusy while an MR, MW, QP or SRQ uses
// it, or a CQ belongs to it.
func (p *PD) Dealloc() error {
	if err := p.mayDestroy(); err != nil {
		return err
	}
	p.gone()
	p.dev.pds.Remove(p.num)
	return nil
}
