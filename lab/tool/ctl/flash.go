package ctl

import (
	"context"

	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// flashCommand is the command that writes a file into the flash: a FlashFile in.
const flashCommand = "flash"

// FlashFile is a file for a region of the flash, the type of an image; 0: the
// file says itself what it is.
type FlashFile struct {
	Region uint32 `json:"region"`
	File   []byte `json:"file"`
}

// flash writes a file into the flash and waits for the end, or for the client
// to go; the file is written all the same then.
func flash(_ *served, h *fastlinq.Device, f FlashFile, _ frame.Time, done func(nothing, error)) {
	end := func(err error) { done(nothing{}, err) }
	if err := h.Flash(fastlinq.NVMType(f.Region), f.File, end); err != nil {
		end(err)
	}
}

// Flash writes a file into the flash of the NIC.
func (c *Client) Flash(ctx context.Context, region fastlinq.NVMType, file []byte) error {
	return c.Command(ctx, flashCommand, FlashFile{uint32(region), file}, nil)
}
