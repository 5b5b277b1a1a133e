package mcp_test

import (
	"testing"
	"time"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// rig is a board with its firmware and a driver per function.
type rig struct {
	t     testing.TB
	fw    *mfw.Firmware
	drv   []*mcp.MCP
	now   frame.Time
	attn  []bool
	light []bool // what was switched
	woken []int
	seen  []seen // by function
}

// seen is what hooks were told.
type seen struct {
	links, recoveries, tlv int
	errors                 []mcp.HWError
	module                 []mfw.TransceiverState
	bandwidth              [][2]uint8
	fill                   func(g tlv.Group, v *tlv.Values)
	stats                  mfw.ProtocolStats
	dcb                    map[mfw.Message]int
}

// mac is the address of function fn.
func mac(fn int) [6]byte { return [6]byte{2, 0, 0, 0, 0, byte(fn)} }

// board is one with engines, so many ports on each, and so many functions on
// each port.
func board(engines, ports, funcs int) mfw.Config {
	cfg := mfw.Config{Engines: engines}
	for e := range engines {
		for range ports {
			for range funcs {
				cfg.Funcs = append(cfg.Funcs, mfw.FuncConfig{Port: len(cfg.Ports), MAC: mac(len(cfg.Funcs)), MTU: 1500})
			}
			cfg.Ports = append(cfg.Ports, mfw.PortConfig{Engine: e, Media: mfw.MediaBaseT})
		}
	}
	return cfg
}

func newRig(t testing.TB, cfg mfw.Config) *rig {
	r := &rig{t: t, now: frame.Time(time.Hour), attn: make([]bool, len(cfg.Funcs)), seen: make([]seen, len(cfg.Funcs))}
	cfg.Attention = func(fn int) { r.attn[fn] = true }
	cfg.Laser = func(_ int, on bool) { r.light = append(r.light, on) }
	cfg.Wake = func(fn int) { r.woken = append(r.woken, fn) }
	word := uint32(7)
	cfg.Registers = func(test func([]mfw.Register)) {
		test([]mfw.Register{{Name: "r", Mask: 0xff, Read: func() uint32 { return word }, Write: func(v uint32) { word = v & 0xff }}})
	}
	r.fw = mfw.New(cfg)
	for fn := range cfg.Funcs {
		s := &r.seen[fn]
		r.drv = append(r.drv, mcp.New(r.fw.Shared(), fn, cfg.Funcs[fn].Port, mcp.Hooks{
			Link:        func(frame.Time) { s.links++ },
			TLVRequest:  func() { s.tlv++ },
			FillTLV:     func(g tlv.Group, v *tlv.Values) { s.fill(g, v) },
			Recovery:    func(frame.Time) { s.recoveries++ },
			HWError:     func(e mcp.HWError, _ frame.Time) { s.errors = append(s.errors, e) },
			Transceiver: func(st mfw.TransceiverState, _ uint8) { s.module = append(s.module, st) },
			Bandwidth:   func(low, high uint8) { s.bandwidth = append(s.bandwidth, [2]uint8{low, high}) },
			DCB: func(kind mfw.Message, _ frame.Time) {
				if s.dcb == nil {
					s.dcb = map[mfw.Message]int{}
				}
				s.dcb[kind]++
			},
			Stats: func(kind int, p *mfw.ProtocolStats) { *p = s.stats; p.Rx += uint64(kind) },
		}))
	}
	return r
}

// settle lets both sides work until neither has anything to do at this time.
func (r *rig) settle() {
	for range 100_000 {
		before := r.work()
		r.fw.Poll(r.now)
		for fn, d := range r.drv {
			if r.attn[fn] {
				r.attn[fn] = false
				if err := d.HandleEvents(r.now); status.Of(err) == status.Inval {
					r.t.Errorf("function %d: %v", fn, err)
				}
			}
			d.Poll(r.now)
		}
		if r.work() == before {
			return
		}
	}
	r.t.Fatal("firmware and drivers never come to rest")
}

// work counts what was done.
func (r *rig) work() (n uint64) {
	n = 1<<32 + r.fw.Stats().Commands
	for fn, d := range r.drv {
		s := d.Stats()
		n += 2*s.Commands + s.Messages + s.Timeouts + s.Retries - uint64(d.Pending())
		if r.attn[fn] {
			n++
		}
	}
	return n
}

func (r *rig) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.settle()
}

// load loads a function.
func (r *rig) load(fn int, p mcp.LoadParams) (got mcp.Load, err error) {
	r.t.Helper()
	answers := 0
	r.drv[fn].LoadReq(p, r.now, func(l mcp.Load, e error, _ frame.Time) { got, err, answers = l, e, answers+1 })
	r.settle()
	if answers != 1 {
		r.t.Fatalf("function %d: LOAD_REQ completed %d times", fn, answers)
	}
	return got, err
}

func (r *rig) unload(fn int) (got mcp.Load, err error) {
	r.t.Helper()
	answers := 0
	r.drv[fn].UnloadReq(r.now, func(l mcp.Load, e error, _ frame.Time) { got, err, answers = l, e, answers+1 })
	r.settle()
	if answers != 1 {
		r.t.Fatalf("function %d: UNLOAD_REQ completed %d times", fn, answers)
	}
	return got, err
}

// do runs a call with a callback for an error.
func (r *rig) do(call func(now frame.Time, done func(error))) (err error) {
	r.t.Helper()
	answers := 0
	call(r.now, func(e error) { err, answers = e, answers+1 })
	r.settle()
	if answers != 1 {
		r.t.Fatalf("a call completed %d times", answers)
	}
	return err
}

func (r *rig) must(call func(now frame.Time, done func(error))) {
	r.t.Helper()
	if err := r.do(call); err != nil {
		r.t.Fatal(err)
	}
}

// up loads a function and its link.
func (r *rig) up(fn int) *mcp.MCP {
	r.t.Helper()
	if _, err := r.load(fn, mcp.LoadParams{}); err != nil {
		r.t.Fatal(err)
	}
	r.must(r.drv[fn].LoadDone)
	r.link(fn, true)
	return r.drv[fn]
}

func (r *rig) link(fn int, up bool) {
	r.t.Helper()
	r.must(func(now frame.Time, done func(error)) { r.drv[fn].SetLink(up, now, done) })
}

// want compares an error's code.
func want(t testing.TB, what string, err error, code status.Code) {
	t.Helper()
	if status.Of(err) != code {
		t.Errorf("%s: %v, want %v", what, err, code)
	}
}
