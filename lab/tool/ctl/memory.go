package ctl

import (
	"context"
	"encoding/json"
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
var deviceCommands = map[string]command{
	selftestCommand: onFastLinQ("selftests", selftest),
	flashCommand:    onFastLinQ("flash", flash),
	devlinkCommand:  onFastLinQ("devlink instance", devlink),
	ll2Command:      {ll2Test.part, ll2},
	identifyCommand: {blink.part, identify},
	OfferCommand:    onFastLinQ("negotiation", offer),
	PartnerCommand:  onFastLinQ("negotiation", partner),
	madCommand:      {"", exchangeMAD},
	eepromCommand: onFastLinQ("flash", func(_ *served, h *fastlinq.Device, r EEPROMRange, now frame.Time,
		done func([]byte, error)) {
		h.ReadEEPROM(r.Offset, r.Length, now, done)
	}),
	moduleCommand: onFastLinQ("module", func(_ *served, h *fastlinq.Device, _ nothing, now frame.Time,
		done func(view.ModuleEEPROM, error)) {
		h.ReadModule(now, done)
	}),
	registersCommand: onFastLinQ("registers", func(_ *served, h *fastlinq.Device, _ nothing, _ frame.Time,
		done func([]byte, error)) {
		done(h.RegisterDump(), nil)
	}),
	recoverCommand: onFastLinQ("health reporter", func(_ *served, h *fastlinq.Device, _ nothing, now frame.Time,
		done func(nothing, error)) {
		h.Recover(now, func(err error) { done(nothing{}, err) })
	}),
	dumpCommand: onFastLinQ("health reporter", func(_ *served, h *fastlinq.Device, _ nothing, _ frame.Time,
		done func([]byte, error)) {
		done(h.HealthDump(), nil)
	}),
	clearCommand: onFastLinQ("health reporter", func(_ *served, h *fastlinq.Device, _ nothing, _ frame.Time,
		done func(nothing, error)) {
		h.ClearHealthDump()
		done(nothing{}, nil)
	}),
}

// blink has the port's LED blink until IdentifyEnd.
var blink = onFastLinQ("LED", func(_ *served, h *fastlinq.Device, _ IdentifyTime, now frame.Time,
	done func(nothing, error)) {
	h.Identify(now, func(err error) { done(nothing{}, err) })
})

// identify lets the port's LED blink.
func identify(ctx context.Context, d *served, args json.RawMessage) (any, error) {
	started, err := blink.run(ctx, d, args)
	if err != nil {
		return nil, err
	}
	t, _ := decodeStrictly[IdentifyTime](args) // as blink did
	var over <-chan time.Time
	if t.Seconds > 0 {
		over = time.After(time.Duration(t.Seconds) * time.Second)
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	return started, d.on(func(now frame.Time) error {
		fastlinq.Of(d.Device.Hardware).IdentifyEnd(now)
		return nil
	})
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
