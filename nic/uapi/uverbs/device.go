package uverbs

import (
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
	ch, err := r.newAsyncChannel()
	if err != nil {
		_ = ctx.Close()
		return err
	}
	if err := r.answer(words(uint32(ch.number), uint32(ctx.Query().CNQs)), nil); err != nil {
		ch.pipe.Close()
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

const (
	deviceAttrLen         = 176
	extendedDeviceAttrLen = 304
)

// queryDevice serves QUERY_DEVICE{response}.
func queryDevice(r *request) error {
	a := r.f.ctx.Query()
	return r.answer(abi.Octets(new(abi.DeviceAttrOf(&a))), nil)
}

// queryDeviceEx serves the extended QUERY_DEVICE{comp_mask, reserved}: behind
// the attributes stand those of extensions, of which there are none. The provider's
// part is what doorbell.c puts into ibv_packet_pacing_caps: {min, max in kb/s, types}.
func queryDeviceEx(r *request) error {
	if r.in.u64(0) != 0 {
		return syscall.EINVAL
	}
	a := r.f.ctx.Query()
	return r.answer(abi.Octets(&abi.DeviceAttrEx{DeviceAttr: abi.DeviceAttrOf(&a),
		ResponseLength: length[abi.DeviceAttrEx](r), Caps: uint64(abi.CapFlags(a.Caps))}),
		words(1, verbs.MaxRateLimit, 1<<typeRC, 0))
}

// Values of QUERY_PORT's answer that no one can change.
const (
	portAttrLen       = 40
	portCapFlags      = 1<<16 | 1<<19 // connection manager, device management
	rocePortCaps      = 1<<16 | 1<<26 // connection manager, GIDs of IP addresses
	mtu4096           = 5
	widthFour         = 2 // 4X
	speedQDR          = 4 // 10 Gb/s a lane
	linkLayerEthernet = 2
)

// queryPort serves QUERY_PORT{response, u8 port}.
func queryPort(r *request) error {
	a, err := r.f.ctx.QueryPort(r.in.u8(8))
	if err != nil {
		return err
	}
	mtu := ib.MTUCode(a.MTU)
	most, caps := mtu, uint32(portCapFlags)
	if r.roce() {
		most, mtu, caps = mtu4096, ib.MTUCode(r.f.ctx.Device().PathMTU()), rocePortCaps
	}
	return r.answer(abi.Octets(&abi.PortAttr{
		Caps: caps, MaxMsg: a.MaxMsg, BadPKeys: a.BadPKeys, GIDTable: uint32(a.GIDTable),
		PKeyTable: uint16(a.PKeyTable), LID: a.LID, SMLID: a.SMLID, State: uint8(a.State), MaxMTU: most, MTU: mtu,
		LMC: a.LMC, VirtualLanes: 1, Width: widthFour, Speed: speedQDR, Phys: uint8(a.Phys),
		LinkLayer: linkLayerEthernet,
	}), nil)
}

// unsupported serves what no device has: flow steering, work queues.
func unsupported(*request) error { return syscall.EOPNOTSUPP }
