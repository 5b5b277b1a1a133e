package nic

import (
	"fmt"
	"strings"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/mfw/nvm"
)

// DevlinkInfo is what devlink(8) asks the driver of a device.
type DevlinkInfo struct {
	Name      string            `json:"name"`
	Driver    string            `json:"driver"`
	Serial    string            `json:"serial_number"` // of the board; empty: its VPD is damaged
	Fixed     []DevlinkVersion  `json:"fixed"`
	Running   []DevlinkVersion  `json:"running"`
	Stored    []DevlinkVersion  `json:"stored"` // in the flash
	Resources []DevlinkResource `json:"resources"`
	Health    Health            `json:"health"`
}

// DevlinkVersion is the version of a component, by devlink's names.
type DevlinkVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// DevlinkResource is a resource of the device: how many there are, and how many
// are in use.
type DevlinkResource struct {
	Name string `json:"name"`
	Size int    `json:"size"`
	Occ  *int   `json:"occ,omitempty"` // nil: nobody counts
}

// ShowDevlink describes the device as devlink does.
func (d *Device) ShowDevlink() DevlinkInfo {
	i := DevlinkInfo{Name: d.cfg.Name, Driver: "tapir", Health: d.Health(), Resources: d.DevlinkResources()}
	board, serial := d.vpd()
	i.Serial = serial
	add := func(list *[]DevlinkVersion, name, v string) {
		if v != "" {
			*list = append(*list, DevlinkVersion{name, v})
		}
	}
	add(&i.Fixed, "asic.id", d.core.chip.Kind.String())
	add(&i.Fixed, "board.id", board)
	add(&i.Running, "fw.app", fw.Wanted.String())
	add(&i.Running, "fw.mgmt", version(d.management.mcp.Version()))
	add(&i.Stored, "fw.app", d.storedStorm())
	add(&i.Stored, "fw.mgmt", d.storedMFW())
	add(&i.Stored, "fw.undi", d.bootVersion())
	return i
}

// stored is the image of a type in the flash; nil: there is none.
func (d *Device) stored(t nvm.Type) []byte {
	im, err := d.management.fw.NVM()
	if err != nil {
		return nil
	}
	e, ok := im.Find(t)
	if !ok {
		return nil
	}
	return im.Bytes(e)
}

// storedMFW is the version of the management firmware in the flash, storedStorm
// that of the storms' firmware; empty: there is none.
func (d *Device) storedMFW() string {
	v, ok := nvm.MFWVersion(d.stored(nvm.TypeMFW))
	if !ok {
		return ""
	}
	return version(v)
}

func (d *Device) storedStorm() string {
	im, err := fw.Decode(d.stored(nvm.TypeInitHW))
	if err != nil {
		return ""
	}
	return im.Version.String()
}

// Tags of vital product data (PCI 2.2, appendix I).
const (
	vpdName     = 0x82
	vpdReadOnly = 0x90
)

// vpd are the part and the serial number of the board, from its vital product
// data.
func (d *Device) vpd() (part, serial string) {
	fields := vpdFields(d.stored(nvm.TypeVPD))
	return fields["PN"], fields["SN"]
}

// vpdFields are the fields of the read-only part of vital product data.
func vpdFields(b []byte) map[string]string {
	fields := map[string]string{}
	for len(b) >= 3 && (b[0] == vpdName || b[0] == vpdReadOnly) {
		n := int(b[1]) | int(b[2])<<8
		if n > len(b)-3 {
			return fields
		}
		body := b[3 : 3+n]
		if b[0] == vpdReadOnly {
			for len(body) >= 3 && int(body[2]) <= len(body)-3 {
				end := 3 + int(body[2])
				fields[string(body[:2])] = strings.TrimSpace(string(body[3:end]))
				body = body[end:]
			}
		}
		b = b[3+n:]
	}
	return fields
}

// DevlinkResources are those of RDMA, then those of the driver core on each
// engine.
func (d *Device) DevlinkResources() (list []DevlinkResource) {
	for _, u := range d.Verbs.Usage() {
		list = append(list, DevlinkResource{strings.ToLower(u.Name), u.Limit, new(u.Used)})
	}
	hwfns := d.core.dev.Show()
	for n, h := range hwfns {
		at := ""
		if len(hwfns) > 1 {
			at = fmt.Sprintf("engine%d_", n)
		}
		for _, c := range h.CIDs {
			list = append(list, DevlinkResource{at + "cid_" + strings.ToLower(c.Protocol.String()), c.Count, new(c.Used)})
		}
		list = append(list, DevlinkResource{at + "ilt_lines", h.ILTLimit, new(h.ILTUsed)})
		for r, s := range h.Shares {
			list = append(list, DevlinkResource{at + "share_" + strings.ToLower(strings.ReplaceAll(ecore.Resource(r).String(), " ", "_")), s.Num, nil})
		}
	}
	return list
}
