package uverbs

import (
	"fmt"
	"syscall"

	"tapir/nic/al"
	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/wire/ib"
)

// getContext serves GET_CONTEXT{response} -> {async_fd, num_comp_vectors}.
func getContext(r *request) error {
	ctx, err := r.newContext()
	if err != nil {
		return err
	}
	ch, err := r.newChannel(asyncEventLen)
	if err != nil {
		_ = ctx.Close()
		return err
	}
	if err := r.answer(words(uint32(ch.number), uint32(ctx.Query().CNQs)), nil); err != nil {
		ch.pipe.close()
		_ = ctx.Close()
		return err
	}
	r.f.ctx, r.f.asyncs = ctx, []*channel{ch}
	return nil
}

// getContextMethod serves GET_CONTEXT of ioctl(2) -> {u32 num_comp_vectors, u32, u64
// core_support}, whose asynchronous events are asked for apart.
func getContextMethod(r *request) error {
	ctx, err := r.newContext()
	if err != nil {
		return err
	}
	if err := r.answer(words(uint32(ctx.Query().CNQs), 0, coreSupport, 0), nil); err != nil {
		_ = ctx.Close()
		return err
	}
	r.f.ctx = ctx
	return nil
}

// coreSupport is IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS.
const coreSupport = 1

// newContext opens the device once for the file.
func (r *request) newContext() (*al.Context, error) {
	f := r.f
	switch client := f.server.client; {
	case f.ctx != nil:
		return nil, syscall.EINVAL
	case client == nil:
		return nil, al.ErrLeaving
	default:
		return client.Open(f, f)
	}
}

// Bits of ibv_device_cap_flags.
const (
	capResizeMaxWR  = 1 << 0
	capPathMig      = 1 << 4
	capShutdownPort = 1 << 8
	capPortActive   = 1 << 10
	capSystemGUID   = 1 << 11
	capRNRNak       = 1 << 12
	capSRQResize    = 1 << 13
	capMemWindow    = 1 << 17
	capMemMgtExt    = 1 << 21
	capMemWindow2B  = 1 << 24
)

// CapFlags translates what the device says of itself into ibv_device_cap_flags.
func CapFlags(c verbs.Caps) (flags uint32) {
	for _, f := range []struct {
		have verbs.Caps
		flag uint32
	}{
		{verbs.CapResizeMaxWR, capResizeMaxWR}, {verbs.CapAutoPathMigration, capPathMig},
		{verbs.CapShutdownPort, capShutdownPort}, {verbs.CapPortActiveEvent, capPortActive},
		{verbs.CapSystemImageGUID, capSystemGUID}, {verbs.CapRNRNak, capRNRNak},
		{verbs.CapBaseQueueExt, capSRQResize}, {verbs.CapBaseMemoryExt, capMemWindow | capMemMgtExt | capMemWindow2B},
	} {
		if c&f.have != 0 {
			flags |= f.flag
		}
	}
	return flags
}

// firmware packs "1.2.3" as the rxe provider unpacks it.
func firmware(version string) uint64 {
	var major, minor, sub uint16
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &sub) // what is no number stays 0
	return uint64(major)<<32 | uint64(minor)<<16 | uint64(sub)
}

const (
	deviceAttrLen         = 176
	extendedDeviceAttrLen = 304
	atomicHCA             = 1 // IB_ATOMIC_HCA: atomic among what the NIC does
	// mostReads is as many Reads at a time as a program can ask for: what
	// MODIFY_QP and the connection manager's commands carry is an octet, and
	// librdmacm keeps no more of what QUERY_DEVICE says.
	mostReads = 255
)

// deviceAttr is what a device says of itself.
func deviceAttr(a *verbs.DeviceAttr) abi.DeviceAttr {
	atomics := uint32(0)
	if a.Caps&verbs.CapAtomics != 0 {
		atomics = atomicHCA
	}
	return abi.DeviceAttr{
		Firmware: firmware(a.Firmware), NodeGUID: a.GUID, SystemImageGUID: a.SystemImageGUID,
		MaxMRSize: a.MaxMRSize, PageSizes: a.PageSizes,
		VendorID: a.VendorID, VendorPartID: a.VendorPartID, HWVersion: a.HWVersion,
		MaxQP: uint32(a.MaxQP), MaxQPWR: uint32(a.MaxQPWR), Caps: CapFlags(a.Caps),
		MaxSGE: uint32(a.MaxSGE), MaxSGERead: uint32(a.MaxSGERead),
		MaxCQ: uint32(a.MaxCQ), MaxCQE: uint32(a.MaxCQE), MaxMR: uint32(a.MaxMR), MaxPD: uint32(a.MaxPD),
		MaxIRD: uint32(min(a.MaxIRD, mostReads)), MaxDeviceIRD: uint32(a.MaxDeviceIRD),
		MaxORD: uint32(min(a.MaxORD, mostReads)), Atomics: atomics,
		MaxRDD: uint32(a.MaxRDD), MaxMW: uint32(a.MaxMW), MaxMcastGroups: uint32(a.MaxMcastGroups),
		MaxAH: uint32(a.MaxAH), MaxSRQ: uint32(a.MaxSRQ), MaxSRQWR: uint32(a.MaxSRQWR), MaxSRQSGE: uint32(a.MaxSGE),
		MaxPKeys: uint16(a.MaxPKeys), AckDelay: a.AckDelay, Ports: uint8(a.Ports),
	}
}

// queryDevice serves QUERY_DEVICE{response}.
func queryDevice(r *request) error {
	a := r.f.ctx.Query()
	return r.answer(abi.Octets(new(deviceAttr(&a))), nil)
}

// queryDeviceEx serves the extended QUERY_DEVICE{comp_mask, reserved}: behind
// the attributes stand those of extensions, of which there are none. The provider's
// part is what doorbell.c puts into ibv_packet_pacing_caps: {min, max in kb/s, types}.
func queryDeviceEx(r *request) error {
	if r.in.u64(0) != 0 {
		return syscall.EINVAL
	}
	a := r.f.ctx.Query()
	return r.answer(abi.Octets(&abi.DeviceAttrEx{DeviceAttr: deviceAttr(&a),
		ResponseLength: length[abi.DeviceAttrEx](r), Caps: uint64(CapFlags(a.Caps))}),
		words(1, verbs.MaxRateLimit, 1<<typeRC, 0))
}

// Values of QUERY_PORT's answer that no one can change.
const (
	portAttrLen       = 40
	portCapFlags      = 1<<16 | 1<<19 // connection manager, device management
	widthFour         = 2             // 4X
	speedQDR          = 4             // 10 Gb/s a lane
	linkLayerEthernet = 2
)

// queryPort serves QUERY_PORT{response, u8 port}.
func queryPort(r *request) error {
	a, err := r.f.ctx.QueryPort(r.in.u8(8))
	if err != nil {
		return err
	}
	mtu := ib.MTUCode(a.MTU)
	return r.answer(abi.Octets(&abi.PortAttr{
		Caps: portCapFlags, MaxMsg: a.MaxMsg, BadPKeys: a.BadPKeys, GIDTable: uint32(a.GIDTable),
		PKeyTable: uint16(a.PKeyTable), LID: a.LID, SMLID: a.SMLID, State: uint8(a.State), MaxMTU: mtu, MTU: mtu,
		LMC: a.LMC, VirtualLanes: 1, Width: widthFour, Speed: speedQDR, Phys: uint8(a.Phys),
		LinkLayer: linkLayerEthernet,
	}), nil)
}

// unsupported serves what an RNIC has not got: address handles, multicast,
// extended reliable connections, flow steering, work queues.
func unsupported(*request) error { return syscall.EOPNOTSUPP }
