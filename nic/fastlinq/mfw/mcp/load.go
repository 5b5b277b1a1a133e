package mcp

import (
	"cmp"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Override is what the user says about pushing a recorded driver aside.
type Override uint8

// The overrides (override_force_load).
const (
	OverrideNone Override = iota
	OverrideAlways
	OverrideNever
)

// LoadParams is what hw_init knows about a load (p_drv_load_params).
type LoadParams struct {
	CrashKernel   bool
	LockTimeout   uint8 // seconds (mfw_timeout_val); mfw.LockDefault, mfw.LockNone
	AvoidEngReset bool
	Override      Override
	Versions      [3]uint32 // driver in two words, storm firmware
}

func (p *LoadParams) role() mfw.Role {
	if p.CrashKernel {
		return mfw.RoleKDUMP
	}
	return mfw.RoleOS
}

// CanForce tells whether a driver with a role may push the recorded one aside.
func CanForce(mine, recorded mfw.Role, o Override) bool {
	stronger := mine == mfw.RoleOS && recorded == mfw.RolePreboot || mine == mfw.RoleKDUMP && recorded == mfw.RoleOS
	return o == OverrideAlways || o == OverrideNone && stronger
}

// Load is what a load begins with: which phases are up to the function.
type Load uint8

// The loads, and by mirror the unloads.
const (
	LoadEngine   Load = 1 + iota // first on the engine: common, port and function
	LoadPort                     // first on the port: port and function
	LoadFunction                 // others are there
)

func (l Load) String() string { return [...]string{"", "ENGINE", "PORT", "FUNCTION"}[l] }

const hsiShift = 16

// LoadReq asks the firmware to load. done gets what is to be initialised;
// BUSY: refused, INVAL: a driver is there that the firmware says nothing
// about. A recorded driver is pushed aside if the rules allow it, else the
// request is cancelled.
func (m *MCP) LoadReq(p LoadParams, now frame.Time, done func(l Load, err error, now frame.Time)) {
	m.load(p, mfw.LoadReqHSI, mfw.ForceNone, now, done)
}

func (m *MCP) load(p LoadParams, hsi uint32, force mfw.Force, now frame.Time,
	done func(l Load, err error, now frame.Time)) {
	req := mfw.LoadRequest{Versions: p.Versions, Role: p.role(), LockTimeout: p.LockTimeout, Force: force,
		AvoidReset: p.AvoidEngReset}
	var data []byte
	if hsi != 1 {
		data = make([]byte, 16)
		req.Encode(data)
	}
	m.Cmd(mfw.CmdLoadReq, hsi<<hsiShift, data, now, func(a Answer, err error, now frame.Time) {
		if err != nil {
			done(0, err, now)
			return
		}
		m.loadAnswer(p, hsi, force, a, now, done)
	})
}

func (m *MCP) loadAnswer(p LoadParams, hsi uint32, force mfw.Force, a Answer, now frame.Time,
	done func(l Load, err error, now frame.Time)) {
	was := mfw.DecodeLoadAnswer(a.Data)
	switch a.Response {
	case mfw.LoadEngine, mfw.LoadPort, mfw.LoadFunction:
		if hsi != 1 && was.DriverExists {
			done(0, status.Inval.Errorf("LOAD_REQ: the MFW says that a driver (%v) exists", was.Role), now)
			return
		}
		done(Load(1+(a.Response-mfw.LoadEngine)>>16), nil, now)
	case mfw.RefusedHSI1:
		if hsi != 1 {
			m.load(p, 1, force, now, done)
			return
		}
		done(0, refused(a.Response), now)
	case mfw.RefusedRequiresForce:
		if force == mfw.ForceNone && CanForce(p.role(), was.Role, p.Override) {
			m.load(p, hsi, mfw.ForceAll, now, done)
			return
		}
		m.Cmd(mfw.CmdCancelLoadReq, 0, nil, now, func(_ Answer, _ error, now frame.Time) {
			done(0,
				status.Busy.Errorf("LOAD_REQ: a driver (%v) is recorded there, which a driver (%v) may not push aside",
					was.Role, p.role()), now)
		})
	default:
		done(0, refused(a.Response), now)
	}
}

// refused is the error of a refusal.
func refused(r mfw.Response) error {
	return status.Busy.Errorf("LOAD_REQ: %s", cmp.Or(map[mfw.Response]string{
		mfw.RefusedPDA:    "a diagnostic agent owns the device (PDA)",
		mfw.RefusedDiag:   "a diagnosis owns the device (DIAG)",
		mfw.RefusedHSI:    "the MFW speaks another version (HSI)",
		mfw.RefusedHSI1:   "the MFW speaks another version (HSI)",
		mfw.RefusedReject: "another driver loads or unloads on the engine (REJECT)",
	}[r], "the MFW answers something unknown"))
}

// LoadDone ends a load, however it went.
func (m *MCP) LoadDone(now frame.Time, done func(error)) {
	m.simple(mfw.CmdLoadDone, 0, nil, mfw.LoadDone, now, done)
}

// CancelLoadReq takes a load back.
func (m *MCP) CancelLoadReq(now frame.Time, done func(error)) {
	m.simple(mfw.CmdCancelLoadReq, 0, nil, mfw.OK, now, done)
}

// UnloadReq asks the firmware to unload, with what OVUpdateWoL said last.
// Messages wait until the answer is there. A firmware that does not answer
// does not block UNLOAD_DONE.
func (m *MCP) UnloadReq(now frame.Time, done func(l Load, err error, now frame.Time)) {
	m.bypass = true
	m.submit(&command{cmd: mfw.CmdUnloadReq, param: uint32(m.wol), avoid: true,
		done: func(a Answer, err error, now frame.Time) {
			m.bypass = false
			var l Load
			switch {
			case err != nil:
			case a.Response >= mfw.UnloadEngine && a.Response <= mfw.UnloadFunction:
				l = Load(1 + (a.Response-mfw.UnloadEngine)>>16)
			default:
				err = refusal(mfw.CmdUnloadReq, a.Response)
			}
			done(l, err, now)
		}}, now)
}

// UnloadDone ends an unload.
func (m *MCP) UnloadDone(now frame.Time, done func(error)) {
	m.simple(mfw.CmdUnloadDone, 0, nil, mfw.UnloadDone, now, done)
}

// InitiatePFFLR asks for a reset of the function.
func (m *MCP) InitiatePFFLR(now frame.Time, done func(error)) {
	m.simple(mfw.CmdInitiatePFFLR, 0, nil, mfw.OK, now, done)
}
