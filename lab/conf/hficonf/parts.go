package hficonf

import (
	"tapir/lab/conf"
	"tapir/opa/em"
)

// WireMTU is what the fabric TAP needs, in octets behind its Ethernet header.
func (c *Config) WireMTU() int {
	full := c.WithDefaults()
	return full.Framing.MTU(full.MTU)
}

// EMDraft is an EMConfig while it is read.
type EMDraft struct{ file veswFile }

// NewEMDraft returns an empty one.
func NewEMDraft() *EMDraft { return &EMDraft{*newVESWFile()} }

// Fields are the settings of a manager and those of the fabric.
func (d *EMDraft) Fields() []conf.Field {
	return append(d.file.manager.fields(), conf.Without(d.file.fields(), managerKey)...)
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
