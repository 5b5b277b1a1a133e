package fastlinq

import (
	"fmt"
	"slices"
	"strings"

	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/view"
)

// ShowDevlink describes the device as devlink does.
func (d display) ShowDevlink() view.DevlinkInfo {
	board, serial := d.vpd()
	return view.DevlinkInfo{Name: d.cfg.Name, Driver: "tapir", Serial: serial, Health: d.Health(),
		Resources: d.DevlinkResources(),
		Fixed:     versions("asic.id", d.core.chip.Kind.String(), "board.id", board),
		Running:   versions("fw.app", fw.Wanted.String(), "fw.mgmt", version(d.management.mcp.Version())),
		Stored:    versions("fw.app", d.storedStorm(), "fw.mgmt", d.storedMFW(), "fw.undi", d.bootVersion())}
}

// versions lists names, each with its version, without those that have none.
func versions(pairs ...string) (list []view.DevlinkVersion) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			list = append(list, view.DevlinkVersion{Name: pair[0], Version: pair[1]})
		}
	}
	return list
}

// stored is the image of a type in the flash; nil: there is none.
func (d display) stored(t nvm.Type) []byte {
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
func (d display) storedMFW() string {
	v, ok := nvm.MFWVersion(d.stored(nvm.TypeMFW))
	if !ok {
		return ""
	}
	return version(v)
}

func (d display) storedStorm() string {
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
func (d display) vpd() (part, serial string) {
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
func (d display) DevlinkResources() (list []view.DevlinkResource) {
	for _, u := range d.verbs.Usage() {
		list = append(list, view.DevlinkResource{Name: strings.ToLower(u.Name), Size: u.Limit, Occ: new(u.Used)})
	}
	hwfns := d.core.dev.Show()
	for n, h := range hwfns {
		at := ""
		if len(hwfns) > 1 {
			at = fmt.Sprintf("engine%d_", n)
		}
		for _, c := range h.CIDs {
			list = append(list, view.DevlinkResource{Name: at + "cid_" + strings.ToLower(c.Protocol.String()),
				Size: c.Count, Occ: new(c.Used)})
		}
		list = append(list, view.DevlinkResource{Name: at + "ilt_lines", Size: h.ILTLimit, Occ: new(h.ILTUsed)})
		for _, s := range d.shares(&h) {
			list = append(list, view.DevlinkResource{Name: at + "share_" + strings.ToLower(s.of.String()),
				Size: s.limit, Occ: s.used})
		}
	}
	return list
}
