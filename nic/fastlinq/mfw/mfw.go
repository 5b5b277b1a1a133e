// Package mfw is a model of the NIC's management firmware (MFW): the shared
// memory, the answers to the drivers' mailboxes and the messages to them, the
// books of who is loaded, the ports' links, and the services of the board. The
// driver's side is package mcp.
//
// A Firmware is a pure state machine on one thread. Drivers write into the
// SHMEM; Poll answers what is new there. Codes, fields and bits are those of
// the FastLinQ firmware.
package mfw

import (
	"cmp"

	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/wire/frame"
)

// Config is a board.
type Config struct {
	Engines int // 1 or 2
	Ports   []PortConfig
	Funcs   []FuncConfig
	// Version is the firmware's: a.b.c.d, an octet each; 0: DefaultVersion.
	Version uint32
	// Attention is called when a message for a function has been produced.
	Attention func(fn int)
	// Laser is called when a port's transmitter is switched.
	Laser func(port int, on bool)
	// Send sends a frame, borrowed, from a port; false: not now. nil: nothing is sent.
	Send func(port int, b []byte, now frame.Time) bool
	// System is the name of the device, which LLDP tells.
	System string
	// Wake is called when a magic packet wakes an unloaded function.
	Wake func(fn int)
	// Verify checks a file before it replaces an image of the flash, or all of it;
	// nil: nvm.Verify.
	Verify func(t nvm.Type, file []byte) error
	// Registers calls test with those of each engine that a selftest may write to for a
	// moment; nil: the board has no engine.
	Registers func(test func([]Register))
	// InitHW is the firmware of the storms that the flash is delivered with;
	// nil: none.
	InitHW func() []byte
	// BB: the chip is of the first generation; its engines have less to share.
	BB bool
}

// DefaultVersion is what a firmware says it is.
const DefaultVersion = 0x083b0100

// PortConfig is a port of the board.
type PortConfig struct {
	Engine  int
	Media   Media
	Speeds  Speeds // 0: linkmode.ModuleSpeeds
	Default PHYConfig
	NoEEE   bool // the board lacks it
	// NoSignal: that of a partner does not come in yet.
	NoSignal bool
	// Partner is at the other end.
	Partner Partner
}

// FuncConfig is a function of the board.
type FuncConfig struct {
	Port            int
	MAC             [6]byte
	WWPN, WWNN      uint64
	OVLAN           uint16 // 0: none
	MTU             uint16
	Protocol        Protocol
	PauseOnHostRing bool
	BandwidthMin    uint8 // percent, 0: default
	BandwidthMax    uint8 // percent, 0: default
	MSIX            uint16
}

// Stats are the firmware's own counters.
type Stats struct {
	Commands    uint64 // answered
	Unsupported uint64 // of them, with a code that it does not know
	BadSequence uint64 // of them, out of sequence
	Resets      uint64
	Wakes       uint64
}

// Firmware is the management firmware of one device.
type Firmware struct {
	cfg   Config
	shm   SHMEM
	now   frame.Time
	funcs []function
	ports []port
	locks []lock // those that are held
	board board
	dump  mdump
	flash flash
	fault Faults
	stats Stats

	bistErr error // of the last test of the registers
}

// New boots a firmware.
func New(cfg Config) *Firmware {
	cfg.Engines, cfg.Version = cmp.Or(cfg.Engines, 1), cmp.Or(cfg.Version, DefaultVersion)
	if cfg.Verify == nil {
		cfg.Verify = nvm.Verify
	}
	f := &Firmware{cfg: cfg, funcs: make([]function, len(cfg.Funcs)), ports: make([]port, len(cfg.Ports))}
	f.board.init()
	n := len(cfg.Funcs)
	f.shm = SHMEM{DrvMB: make([]DrvMB, n), MFWMB: make([]MFWMB, n), Func: make([]Func, n),
		Port: make([]Port, len(cfg.Ports))}
	f.boot()
	return f
}

// boot fills the shared memory with what the configuration says.
func (f *Firmware) boot() {
	s := &f.shm
	s.Global = Global{MFWVersion: f.cfg.Version, MaxPath: uint32(f.cfg.Engines), MaxPorts: uint32(len(f.ports)),
		InternalTemperature: f.board.sensors[0].Current}
	for i := range f.funcs {
		c := &f.cfg.Funcs[i]
		f.funcs[i].wol, f.funcs[i].state = WoLDisabled, DriverNotLoaded
		s.Func[i] = Func{MTU: uint32(c.MTU), WWPN: c.WWPN, WWNN: c.WWNN, OVLAN: uint32(cmp.Or(c.OVLAN, NoOVLAN)),
			NumMSIX: uint32(c.MSIX),
			Config:  uint32(c.Protocol)<<funcProtocolShift | b2u(c.PauseOnHostRing)*funcPauseOnHostRing}
		s.Func[i].setBandwidth(c.BandwidthMin, c.BandwidthMax)
		s.Func[i].setMAC(c.MAC)
	}
	for i := range f.ports {
		f.bootPort(i)
	}
}

// Shared is the memory that the firmware shares with its drivers, borrowed for
// as long as the firmware lives.
func (f *Firmware) Shared() *SHMEM { return &f.shm }

// Stats are the firmware's counters.
func (f *Firmware) Stats() Stats { return f.stats }

// Poll answers the commands that are new in the mailboxes and lets locks run
// out. It returns when it wants to be called again.
func (f *Firmware) Poll(now frame.Time) (next frame.Time) {
	f.now = now
	if f.fault.Hang {
		return frame.Never
	}
	next = min(f.expireLoads(), f.expireLocks())
	for fn := range f.funcs {
		mb := &f.shm.DrvMB[fn]
		if seq := uint16(mb.DrvHeader & sequence); seq != f.funcs[fn].last {
			f.answer(fn, mb, seq)
			next = min(next, f.nextLoadExpiry(), f.nextLockExpiry())
		}
	}
	return min(next, f.pollAgents())
}

// post produces a message for a function that has a driver.
func (f *Firmware) post(fn int, m Message) {
	if f.funcs[fn].phase == idle || f.fault.Hang {
		return
	}
	f.shm.MFWMB[fn].produce(m)
	if f.cfg.Attention != nil {
		f.cfg.Attention(fn)
	}
}

// postPort produces it for all functions of a port, postAll for all.
func (f *Firmware) postPort(port int, m Message) {
	for fn := range f.funcs {
		if f.cfg.Funcs[fn].Port == port {
			f.post(fn, m)
		}
	}
}

func (f *Firmware) postAll(m Message) {
	for fn := range f.funcs {
		f.post(fn, m)
	}
}

// NVM is the image in the flash, nil if it is damaged: then the error says
// where.
func (f *Firmware) NVM() (*nvm.Image, error) { return nvm.Parse(f.content()) }
