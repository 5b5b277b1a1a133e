package nic

import (
	"bytes"
	"strings"

	"tapir/nic/fastlinq/mfw/nvm"
)

// bootVersion is that of the boot code in the flash; empty: there is none.
func (d *Device) bootVersion() string {
	text, _, _ := bytes.Cut(d.stored(nvm.TypeMBI), []byte{0xff})
	v, ok := strings.CutPrefix(string(text), "MBI ")
	if !ok {
		return ""
	}
	return v
}

// firmwareVersion is what qede tells as such: of the boot code, and of the
// management firmware.
func (d *Device) firmwareVersion() string {
	mfw := version(d.management.mcp.Version())
	if v := d.bootVersion(); v != "" {
		return "mbi " + v + " [mfw " + mfw + "]"
	}
	return "mfw " + mfw
}
