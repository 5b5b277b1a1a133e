package settings

import (
	"tapir/nic/param"
)

// SiwProfile are the settings whose defaults in the siw driver, by its document or by
// the constants in its source, are not those of a NIC.
var SiwProfile = []struct{ Name, Value string }{
	{"mpa_crc_required", "0"},
	{"mpa_crc_strict", "1"},
	{"ooo_placement", "0"},
	{"max_ird", "128"},
	{"max_ord", "128"},
	{"ird", "128"},
	{"ord", "128"},
	{"max_inline", "80"},
	{"nudge", "0"},
	{"keepalive", "0"},
}

// Profile gives rows that still have their defaults the values of the profile of that
// name. It fails with param.ErrValue if there is none.
func Profile(name string, rows, defaults []*param.Row) error {
	if name != "siw" {
		return param.ErrValue
	}
	for _, s := range SiwProfile {
		r := param.Find(rows, s.Name)
		if r.Get() != param.Find(defaults, s.Name).Get() {
			continue
		}
		if err := r.Set(s.Value); err != nil {
			return err
		}
	}
	return nil
}
