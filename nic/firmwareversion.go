package nic

import (
	"bytes"
	"strings"

	"tapir/nic/mfw/nvm"
)

// bootVersion is that of the boot code in the flash; empty: there is none.
func (d *Device) bootVersion() string {
	im, err := d.management.fw.NVM()
	if err != nil {
		return ""
	}
	e, ok := im.Find(nvm.TypeMBI)
	if !ok {
		return ""
	}
	text, _, _ := bytes.Cut(im.Bytes(e), []byte{0xff})
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
