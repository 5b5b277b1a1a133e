package hficonf

import (
	"slices"

	"tapir/lab/conf"
	"tapir/opa/em"
)

// HFIFields are the settings of an HFI for a file that has more in it than
// those, without the keys named.
func HFIFields(without ...string) []conf.Field[Config] { return except(hfiKeys, without) }

// VNICFields are likewise those of a VNIC.
func VNICFields(without ...string) []conf.Field[VNIC] { return except(vnicKeys, without) }

func except[T any](fields []conf.Field[T], without []string) []conf.Field[T] {
	return slices.DeleteFunc(slices.Clone(fields), func(f conf.Field[T]) bool {
		return slices.Contains(without, f.Name)
	})
}

// WireMTU is what the fabric TAP needs, in octets behind its Ethernet header.
func (c *Config) WireMTU() int {
	full := c.WithDefaults()
	return full.Framing.MTU(full.MTU)
}

// EMDraft is an EMConfig while it is read.
type EMDraft struct{ file veswFile }

// NewEMDraft returns an empty one.
func NewEMDraft() *EMDraft {
	d := &EMDraft{veswFile{places: map[string]conf.Node{}}}
	d.file.manager.Timing = em.DefaultTiming()
	return d
}

// EMFields are the settings of a manager, without the keys named, and those of
// the fabric: `nodes` and `vesws`.
func EMFields(without ...string) []conf.Field[EMDraft] {
	return append(conf.Part(except(managerKeys, without), func(d *EMDraft) *EMConfig { return &d.file.manager }),
		conf.Part(except(veswFileKeys, []string{managerKey}), func(d *EMDraft) *veswFile { return &d.file })...)
}

// Finish returns the configuration of a manager that runs on an HFI of that
// name and GUID. root is where mistakes are that have no other place.
func (d *EMDraft) Finish(root conf.Node, name string, guid uint64) (EMConfig, error) {
	if err := d.file.cfg.Validate(); err != nil {
		return EMConfig{}, d.file.place(root, err)
	}
	return d.file.config(root, name, guid)
}

// At is a mistake at a place of the fabric's configuration, such as
// vesws[0].members[2], or at root if that is not there.
func (d *EMDraft) At(root conf.Node, path, what string) error {
	return d.file.place(root, &em.ConfigError{Path: path, What: what})
}

// Schemas of what only a mapping or a list is.
var (
	nodeSchema  = conf.Schema{"type": []string{"string", "number"}, "description": expectNode}
	lanesSchema = conf.Schema{"anyOf": []conf.Schema{{"type": "number"}, conf.ListOf(conf.Schema{"type": "number"})}}
)
