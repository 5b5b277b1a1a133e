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
	// Light is called when a port's transmitter is switched.
	Light func(port int, on bool)
	// Wake is called when a magic packet wakes an unloaded function.
	Wake func(fn int)
	// Verify looks at a file before it replaces an image of the flash; nil: the
	// firmware knows of its own images only.
	Verify func(t nvm.Type, file []byte) error
	// Registers are those of each engine that a selftest may write to for a
	// moment; nil: the board has no engine.
	Registers func() [][]Register
	// InitHW is the firmware of the storms that the flash is delivered with;
	// nil: none.
	InitHW func() []byte
}

// DefaultVersion is what a firmware says it is.
const DefaultVersion = 0x083b0100

// PortConfig is a port of the board.
type PortConfig struct {
	Engine  int
	Media   Media
	Speeds  Speeds // 0: AllSpeeds
	Default PHYConfig
	NoEEE   bool // the board lacks it
	// Dark: no light of a partner is seen yet.
	Dark bool
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
	if cfg.Engines == 0 {
		cfg.Engines = 1
	}
	if cfg.Version == 0 {
		cfg.Version = DefaultVersion
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
		f.funcs[i].wol = WoLDisabled
		f.funcs[i].state = DriverNotLoaded
		s.Func[i] = Func{MTU: uint32(c.MTU), WWPN: c.WWPN, WWNN: c.WWNN, OVLAN: NoOVLAN, NumMSIX: uint32(c.MSIX)}
		if c.OVLAN != 0 {
			s.Func[i].OVLAN = uint32(c.OVLAN)
		}
		s.Func[i].Config = uint32(c.Protocol) << funcProtocolShift
		if c.PauseOnHostRing {
			s.Func[i].Config |= funcPauseOnHostRing
		}
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
	if f.fault.Stuck {
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
	return next
}

// answer does a command and writes the answer, its number last.
func (f *Firmware) answer(fn int, mb *DrvMB, seq uint16) {
	expected := f.funcs[fn].last + 1
	f.funcs[fn].last = seq
	f.stats.Commands++
	resp, param := Error, uint32(0)
	if seq == expected {
		resp, param = f.handle(fn, Command(mb.DrvHeader&^sequence), mb.DrvParam, mb.Union[:])
	} else {
		f.stats.BadSequence++
	}
	if resp == Unsupported {
		f.stats.Unsupported++
	}
	mb.FWParam = param
	mb.FWHeader = uint32(resp) | uint32(seq)
}

// handle does command c of function fn. What goes with it lies in data, and so
// does what goes with the answer.
func (f *Firmware) handle(fn int, c Command, param uint32, data []byte) (Response, uint32) {
	switch c {
	case CmdLoadReq:
		return f.loadReq(fn, param, data), 0
	case CmdLoadDone:
		return f.loadDone(fn), 0
	case CmdCancelLoadReq:
		return f.cancelLoad(fn), 0
	case CmdUnloadReq:
		return f.unloadReq(fn, param), 0
	case CmdUnloadDone:
		return f.unloadDone(fn), 0
	case CmdInitiatePFFLR:
		f.flr(fn)
		return OK, 0
	case CmdInitPHY:
		return f.initPHY(fn, param, data), 0
	case CmdLinkReset:
		f.linkReset(fn)
		return LinkResetDone, 0
	case CmdNIGDrain:
		return NIGDrainDone, 0
	}
	if resp, value, ok := f.push(fn, c, param, data); ok {
		return resp, value
	}
	return f.service(fn, c, param, data)
}

// service does the commands about the board.
func (f *Firmware) service(fn int, c Command, param uint32, data []byte) (Response, uint32) {
	switch c {
	case CmdFeatureSupport:
		f.funcs[fn].features = Features(param)
		return OK, 0
	case CmdGetFeatureSupport:
		return OK, uint32(f.features(fn))
	case CmdResource:
		return OK, f.resourceCmd(fn, param)
	case CmdGetResourceAlloc, CmdSetResourceValue:
		return f.resourceAlloc(fn, c, data), resourceVersion
	case CmdGetTemperature:
		return f.temperatures(data), 0
	case CmdSetLEDMode:
		return f.setLED(fn, param), 0
	case CmdGPIORead, CmdGPIOWrite, CmdGPIOInfo:
		return f.gpio(c, param)
	case CmdTransceiverRead:
		return f.transceiverRead(fn, param, data)
	case CmdMdump:
		return f.mdumpCmd(param, data), 0
	case CmdNVMRead, CmdNVMWrite, CmdNVMGetFileAtt, CmdNVMPutFileBegin, CmdNVMPutFileData:
		return f.nvmCmd(c, param, data)
	case CmdGetNVMOption:
		return f.getOption(param, data)
	case CmdSetNVMOption:
		return f.setOption(param, data), 0
	case CmdBISTTest:
		return f.bist(param, data)
	case CmdGetStats:
		return f.takeStats(fn, param, data), 0
	case CmdGetTLVDone:
		f.tlvDone(fn)
		return OK, 0
	case CmdMCPHalt:
		f.fault.Stuck = true // it will not even answer
		return OK, 0
	}
	return Unsupported, 0
}

// post produces a message for a function that has a driver.
func (f *Firmware) post(fn int, m Message) {
	if f.funcs[fn].phase == idle || f.fault.Stuck {
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
