package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// Commands about the memories of the device.
const (
	eepromCommand    = "eeprom"    // an EEPROMRange in, octets out
	moduleCommand    = "module"    // a view.ModuleEEPROM out
	registersCommand = "registers" // octets out
	identifyCommand  = "identify"  // an IdentifyTime in; it ends with the client
	recoverCommand   = "recover"   // a recovery
	dumpCommand      = "dump"      // the dump of the health reporter out
	clearCommand     = "dump.clear"
)

// EEPROMRange is a part of the flash; length 0: up to its end.
type EEPROMRange struct {
	Offset uint32 `json:"offset"`
	Length uint32 `json:"length"`
}

// IdentifyTime is how long the LED blinks; 0: until the client goes.
type IdentifyTime struct {
	Seconds uint32 `json:"seconds"`
}

// deviceCommands do what may take a while.
var deviceCommands = map[string]func(d *served, ctx context.Context, args json.RawMessage) (any, error){
	selftestCommand: (*served).selftest,
	flashCommand:    (*served).flash,
	identifyCommand: (*served).identify,
	devlinkCommand:  (*served).devlink,
	eepromCommand: func(d *served, ctx context.Context, args json.RawMessage) (any, error) {
		var r EEPROMRange
		if err := arguments(eepromCommand, args, &r); err != nil {
			return nil, err
		}
		return await(d, ctx, withFastLinQ(d, "flash", func(h *fastlinq.Device, now frame.Time,
			done func([]byte, error)) {
			h.ReadEEPROM(r.Offset, r.Length, now, done)
		}))
	},
	moduleCommand: func(d *served, ctx context.Context, _ json.RawMessage) (any, error) {
		return await(d, ctx, withFastLinQ(d, "module", func(h *fastlinq.Device, now frame.Time,
			done func(view.ModuleEEPROM, error)) {
			h.ReadModule(now, done)
		}))
	},
	registersCommand: func(d *served, ctx context.Context, _ json.RawMessage) (any, error) {
		return await(d, ctx, withFastLinQ(d, "registers", func(h *fastlinq.Device, _ frame.Time,
			done func([]byte, error)) {
			done(h.RegisterDump(), nil)
		}))
	},
	recoverCommand: func(d *served, ctx context.Context, _ json.RawMessage) (any, error) {
		return await(d, ctx, withFastLinQ(d, "health reporter", func(h *fastlinq.Device, now frame.Time,
			done func(struct{}, error)) {
			h.Recover(now, func(err error) { done(struct{}{}, err) })
		}))
	},
	dumpCommand: func(d *served, ctx context.Context, _ json.RawMessage) (any, error) {
		return await(d, ctx, withFastLinQ(d, "health reporter", func(h *fastlinq.Device, _ frame.Time,
			done func([]byte, error)) {
			done(h.HealthDump(), nil)
		}))
	},
	clearCommand: func(d *served, ctx context.Context, _ json.RawMessage) (any, error) {
		return await(d, ctx, withFastLinQ(d, "health reporter", func(h *fastlinq.Device, _ frame.Time,
			done func(struct{}, error)) {
			h.ClearHealthDump()
			done(struct{}{}, nil)
		}))
	},
}

// arguments decodes those of a command.
func arguments(name string, args json.RawMessage, v any) error {
	if err := json.Unmarshal(args, v); err != nil {
		return &Error{Status: http.StatusBadRequest, What: fmt.Sprintf("%s: %v", name, err)}
	}
	return nil
}

// await has start run on the NIC's thread and waits until it calls done, or for
// the client to go.
func await[T any](d *served, ctx context.Context, start func(now frame.Time, done func(T, error))) (any, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	if err := d.on(func(now frame.Time) {
		start(now, func(v T, err error) { answers <- answer{v, err} })
	}); err != nil {
		return nil, err
	}
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, &Error{What: a.err.Error()}
		}
		return a.v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// withFastLinQ has start use a part of the FastLinQ hardware; a NIC of another kind
// has an error.
func withFastLinQ[T any](d *served, part string, start func(h *fastlinq.Device, now frame.Time,
	done func(T, error))) func(frame.Time, func(T, error)) {
	return func(now frame.Time, done func(T, error)) {
		h := fastlinq.Of(d.Device.Hardware)
		if h == nil {
			var none T
			done(none, d.lacks(part))
			return
		}
		start(h, now, done)
	}
}

// lacks is the answer to a request for what only FastLinQ hardware has.
func (d *served) lacks(part string) error {
	return &Error{What: fmt.Sprintf("hardware %s has no %s", d.Device.Config().Hardware.Kind(), part)}
}

// identify lets the port's LED blink.
func (d *served) identify(ctx context.Context, args json.RawMessage) (any, error) {
	var t IdentifyTime
	if err := arguments(identifyCommand, args, &t); err != nil {
		return nil, err
	}
	started, err := await(d, ctx, withFastLinQ(d, "LED", func(h *fastlinq.Device, now frame.Time,
		done func(struct{}, error)) {
		h.Identify(now, func(err error) { done(struct{}{}, err) })
	}))
	if err != nil {
		return nil, err
	}
	var over <-chan time.Time
	if t.Seconds > 0 {
		over = time.After(time.Duration(t.Seconds) * time.Second)
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	return started, d.on(fastlinq.Of(d.Device.Hardware).IdentifyEnd)
}

// EEPROM reads the NIC's flash.
func (c *Client) EEPROM(ctx context.Context, r EEPROMRange) (b []byte, err error) {
	return b, c.Command(ctx, eepromCommand, r, &b)
}

// Module reads the memory of the port's module.
func (c *Client) Module(ctx context.Context) (m view.ModuleEEPROM, err error) {
	return m, c.Command(ctx, moduleCommand, nil, &m)
}

// Registers is the NIC's register dump.
func (c *Client) Registers(ctx context.Context) (b []byte, err error) {
	return b, c.Command(ctx, registersCommand, nil, &b)
}

// Identify lets the port's LED blink for so many seconds; 0: until ctx ends.
func (c *Client) Identify(ctx context.Context, seconds uint32) error {
	return c.Command(ctx, identifyCommand, IdentifyTime{seconds}, nil)
}

// Recover starts a recovery of the NIC's function and waits for its end.
func (c *Client) Recover(ctx context.Context) error {
	return c.Command(ctx, recoverCommand, nil, nil)
}

// HealthDump is the dump of the health reporter, made now if none is kept;
// ClearHealthDump forgets it.
func (c *Client) HealthDump(ctx context.Context) (b []byte, err error) {
	return b, c.Command(ctx, dumpCommand, nil, &b)
}

// ClearHealthDump forgets the dump.
func (c *Client) ClearHealthDump(ctx context.Context) error {
	return c.Command(ctx, clearCommand, nil, nil)
}
