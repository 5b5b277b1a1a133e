package fastlinq

import (
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// coreMFW is the management firmware's mailbox as the driver core wants it.
type coreMFW struct {
	mcp  *mcp.MCP
	port int
	caps ecore.Caps
	note func(error) // takes errors that nobody waits for
	now  func() frame.Time

	eSwitch func() mfw.ESwitch
}

var _ ecore.MFW = (*coreMFW)(nil)

func (c *coreMFW) Init() error {
	c.mcp.Init()
	return nil
}

// outerOf is the outer VLAN that the firmware gives a function.
func outerOf(i mfw.FuncInfo) ecore.OuterVLAN {
	if i.OVLAN == mfw.NoOVLAN {
		return ecore.OuterVLAN{}
	}
	return ecore.OuterVLAN{ID: i.OVLAN, TC: i.TC, OSPriority: i.OSPriority}
}

// FuncInfo leaves the choice of the RDMA protocol to the configuration: NVMs
// name RoCE only.
func (c *coreMFW) FuncInfo() (ecore.FuncInfo, error) {
	i := c.mcp.Info()
	f := ecore.FuncInfo{MAC: i.MAC, MTU: int(i.MTU), Caps: c.caps, Port: c.port, MFWVersion: c.mcp.Version(),
		OuterVLAN: outerOf(i)}
	f.Personality = [...]ecore.Personality{mfw.ProtocolEthernet: ecore.Eth, mfw.ProtocolISCSI: ecore.ISCSI,
		mfw.ProtocolFCoE: ecore.FCoE, mfw.ProtocolRoCE: ecore.EthRoCE}[i.Protocol&3]
	return f, nil
}

func (c *coreMFW) LoadReq(p ecore.LoadParams, now frame.Time, done func(ecore.Load, error, frame.Time)) {
	m := mcp.LoadParams{CrashKernel: p.CrashKernel, LockTimeout: p.LockTimeout, AvoidEngReset: p.AvoidEngReset,
		Override: mcp.Override(p.Override), Versions: [3]uint32{2: uint32(fw.Wanted)}}
	c.mcp.LoadReq(m, now, func(l mcp.Load, err error, now frame.Time) { done(ecore.Load(l), err, now) })
}

// later is a callback without the time as one with it.
func (c *coreMFW) later(done ecore.Done) func(error) {
	return func(err error) { done(c.now(), err) }
}

func (c *coreMFW) LoadDone(now frame.Time, done ecore.Done) { c.mcp.LoadDone(now, c.later(done)) }

func (c *coreMFW) UnloadReq(now frame.Time, done func(ecore.Load, error, frame.Time)) {
	c.mcp.UnloadReq(now, func(l mcp.Load, err error, now frame.Time) { done(ecore.Load(l), err, now) })
}

func (c *coreMFW) UnloadDone(now frame.Time, done ecore.Done) { c.mcp.UnloadDone(now, c.later(done)) }

func (c *coreMFW) Capabilities(now frame.Time, done ecore.Done) {
	c.mcp.GetCapabilities(mfw.FeatureEEE, now, func(_ mfw.Features, err error) { done(c.now(), err) })
}

func (c *coreMFW) InitiatePFFLR(now frame.Time, done ecore.Done) {
	c.mcp.InitiatePFFLR(now, c.later(done))
}

func (c *coreMFW) Drain(now frame.Time, done ecore.Done) {
	c.mcp.Cmd(mfw.CmdNIGDrain, 0, nil, now, func(a mcp.Answer, err error, now frame.Time) {
		if err == nil && a.Response != mfw.NIGDrainDone {
			err = status.Inval.Errorf("NIG_DRAIN: the MFW answers %#08x", uint32(a.Response))
		}
		done(now, err)
	})
}

// shareIDs are the resources that the management firmware divides.
var shareIDs = map[ecore.Resource]mfw.ResourceID{
	ecore.SB: mfw.ResourceSB, ecore.L2Queue: mfw.ResourceL2Queue, ecore.VPort: mfw.ResourceVPort,
	ecore.RL: mfw.ResourceRL,
	ecore.PQ: mfw.ResourcePQ, ecore.ILT: mfw.ResourceILT, ecore.CNQRAM: mfw.ResourceCQs,
	ecore.CmdQsCQs: mfw.ResourceCQs,
	ecore.RSSEng:   mfw.ResourceRSSEngines, ecore.LL2Queue: mfw.ResourceLL2Queue,
}

func (c *coreMFW) LockShares(now frame.Time, done ecore.Done) {
	c.mcp.Lock(mfw.LockRescAlloc, mfw.LockDefault, now, c.later(done))
}

func (c *coreMFW) UnlockShares(now frame.Time, done ecore.Done) {
	c.mcp.Unlock(mfw.LockRescAlloc, false, now, c.later(done))
}

func (c *coreMFW) Share(r ecore.Resource, now frame.Time, done func(frame.Time, ecore.Share, error)) {
	id, ok := shareIDs[r]
	if !ok {
		done(now, ecore.Share{}, status.NotImpl)
		return
	}
	c.mcp.GetResource(id, now, func(s mcp.Share, err error) {
		done(c.now(), ecore.Share{Start: int(s.Start), Num: int(s.Num)}, err)
	})
}

func (c *coreMFW) DriverState(s ecore.DriverState, now frame.Time) {
	c.mcp.OVUpdateDriverState(mfw.DriverState(s), now, c.note)
}

func (c *coreMFW) Push(storm uint32, mtu int, now frame.Time) {
	c.mcp.OVUpdateStormFW(storm, now, c.note)
	c.mcp.OVUpdateMTU(uint16(mtu), now, c.note)
	c.mcp.OVUpdateESwitch(c.eSwitch(), now, c.note)
}

func (c *coreMFW) ReadShadow()                { c.mcp.ReadShadow() }
func (c *coreMFW) SetRecovery(now frame.Time) { c.mcp.RecoveryProlog(now) }

// coreIRQ are the slowpath's interrupts of a hwfn as the core wants them.
type coreIRQ struct{ *irq.Hwfn }

var _ ecore.Interrupts = coreIRQ{}

// Event is behind a protocol index of the slowpath's status block.
func (c coreIRQ) Event(pi int, now frame.Time) { c.SP().Event(pi, now) }

// SBs is the number of fastpath status blocks.
func (c coreIRQ) SBs() int { return c.Num().Cnt }
