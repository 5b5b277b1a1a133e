package tlv

import "tapir/nic/fastlinq/l2"

// modes are the kinds of tunnels by their bits.
var modes = [...]l2.TunnelType{ModeL2Geneve: l2.L2Geneve, ModeIPGeneve: l2.IPGeneve, ModeL2GRE: l2.L2GRE,
	ModeIPGRE: l2.IPGRE, ModeVXLAN: l2.VXLAN}

// Classes of tunnels (ecore_tunn_clss).
const (
	classMACVLAN      = 0
	classInnerMACVLAN = 2
)

func class(b uint8) l2.TunnelClass {
	switch b {
	case classMACVLAN:
		return l2.ClassMACVLAN
	case classInnerMACVLAN:
		return l2.ClassInnerMACVLAN
	}
	return 0xff // no class of the device: refused
}

func classByte(c l2.TunnelClass) uint8 {
	if c == l2.ClassInnerMACVLAN {
		return classInnerMACVLAN
	}
	return classMACVLAN
}

// Want is what a VF asks for, where the device has something else.
func (q *TunnRequest) Want(p l2.TunnelParams) l2.TunnelParams {
	classes := q.classes()
	for bit, t := range modes {
		if q.UpdateModes&(1<<bit) != 0 {
			p.Enable[t] = q.Modes&(1<<bit) != 0
		}
		if q.UpdateClasses != 0 {
			p.Class[t] = class(*classes[bit])
		}
	}
	if q.UpdateVXLANPort != 0 {
		p.VXLANPort = q.VXLANPort
	}
	if q.UpdateGenevePort != 0 {
		p.GenevePort = q.GenevePort
	}
	return p
}

// classes are the fields of the classes, by the bits of the modes.
func (q *TunnRequest) classes() [5]*uint8 {
	return [...]*uint8{&q.L2GeneveClass, &q.IPGeneveClass, &q.L2GREClass, &q.IPGREClass, &q.VXLANClass}
}

// WantTunnels is the request for all of p.
func WantTunnels(p l2.TunnelParams) *TunnRequest {
	q := &TunnRequest{UpdateModes: 1<<len(modes) - 1, UpdateClasses: 1, UpdateGenevePort: 1, UpdateVXLANPort: 1,
		GenevePort: p.GenevePort, VXLANPort: p.VXLANPort}
	for bit, t := range modes {
		if p.Enable[t] {
			q.Modes |= 1 << bit
		}
		*q.classes()[bit] = classByte(p.Class[t])
	}
	return q
}

// Tunnels is the reply about what the device has.
func Tunnels(p l2.TunnelParams) *TunnReply {
	r := &TunnReply{VXLANPort: p.VXLANPort, GenevePort: p.GenevePort}
	on, classes := r.fields()
	for bit, t := range modes {
		r.Features |= 1 << bit
		if p.Enable[t] {
			*on[bit] = 1
		}
		*classes[bit] = classByte(p.Class[t])
	}
	return r
}

func (r *TunnReply) fields() (on, classes [5]*uint8) {
	return [...]*uint8{&r.L2Geneve, &r.IPGeneve, &r.L2GRE, &r.IPGRE, &r.VXLAN},
		[...]*uint8{&r.L2GeneveClass, &r.IPGeneveClass, &r.L2GREClass, &r.IPGREClass, &r.VXLANClass}
}

// Params is what a reply says that the device has.
func (r *TunnReply) Params() (p l2.TunnelParams) {
	p.VXLANPort, p.GenevePort = r.VXLANPort, r.GenevePort
	on, classes := r.fields()
	for bit, t := range modes {
		p.Enable[t], p.Class[t] = *on[bit] != 0, class(*classes[bit])
	}
	return p
}
