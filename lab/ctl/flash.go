package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"tapir/nic/mfw/nvm"
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
func (d *served) flash(ctx context.Context, args json.RawMessage) (any, error) {
	var f FlashFile
	if err := json.Unmarshal(args, &f); err != nil {
		return nil, &Error{Status: http.StatusBadRequest, What: fmt.Sprintf("flash: %v", err)}
	}
	end := make(chan error, 1)
	var failed error
	err := d.on(func(frame.Time) {
		failed = d.Device.Flash(nvm.Type(f.Region), f.File, func(err error) { end <- err })
	})
	switch {
	case err != nil:
		return nil, err
	case failed != nil:
		return nil, &Error{What: failed.Error()}
	}
	select {
	case err := <-end:
		if err != nil {
			return nil, &Error{What: err.Error()}
		}
		return struct{}{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Flash writes a file into the flash of the NIC.
func (c *Client) Flash(ctx context.Context, region nvm.Type, file []byte) error {
	return c.Command(ctx, flashCommand, FlashFile{uint32(region), file}, &struct{}{})
}
