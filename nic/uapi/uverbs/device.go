package uverbs

import (
	"fmt"
	"syscall"

	"tapir/nic/verbs"
	"tapir/wire/ib"
)

// getContext serves GET_CONTEXT{response} -> {async_fd, num_comp_vectors}.
func getContext(r *request) error {
	f := r.f
	if f.ctx != nil {
		return syscall.EINVAL
	}
	ctx, err := f.server.ca.Open(f, f)
	if err != nil {
		return err
	}
	pipe, program, err := newEventPipe(asyncEventLen)
	if err != nil {
		_ = ctx.Close()
		return err
	}
	number, err := r.c.Install(program, syscall.O_CLOEXEC)
	out := r.reply(8)
	native.PutUint32(out, uint32(number))
	native.PutUint32(out[4:], uint32(ctx.Query().CNQs))
	if err == nil {
		err = r.answer(out, nil)
	}
	if err != nil {
		pipe.close()
		_ = ctx.Close()
		return err
	}
	f.ctx, f.async = ctx, pipe
	return nil
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

// capFlags translates what the device says of itself.
func capFlags(c verbs.Caps) (flags uint32) {
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

// putDeviceAttr writes struct ib_uverbs_query_device_resp.
func putDeviceAttr(out []byte, a *verbs.DeviceAttr) {
	native.PutUint64(out, firmware(a.Firmware))
	copy(out[8:], a.GUID[:])
	copy(out[16:], a.SystemImageGUID[:])
	native.PutUint64(out[24:], a.MaxMRSize)
	native.PutUint64(out[32:], a.PageSizes)
	atomics := 0
	if a.Caps&verbs.CapAtomics != 0 {
		atomics = atomicHCA
	}
	for i, v := range [...]int{
		int(a.VendorID), int(a.VendorPartID), int(a.HWVersion), a.MaxQP, a.MaxQPWR, int(capFlags(a.Caps)),
		a.MaxSGE, a.MaxSGERead, a.MaxCQ, a.MaxCQE, a.MaxMR, a.MaxPD,
		min(a.MaxIRD, mostReads), 0, a.MaxDeviceIRD, min(a.MaxORD, mostReads), 0, atomics,
		0, a.MaxRDD, a.MaxMW, 0, 0, a.MaxMcastGroups, 0, 0, a.MaxAH, 0, 0,
		a.MaxSRQ, a.MaxSRQWR, a.MaxSGE,
	} {
		native.PutUint32(out[40+4*i:], uint32(v))
	}
	native.PutUint16(out[168:], uint16(a.MaxPKeys))
	out[170], out[171] = a.AckDelay, uint8(a.Ports)
}

// queryDevice serves QUERY_DEVICE{response}.
func queryDevice(r *request) error {
	a := r.f.ctx.Query()
	out := r.reply(deviceAttrLen)
	putDeviceAttr(out, &a)
	return r.answer(out, nil)
}

// queryDeviceEx serves the extended QUERY_DEVICE{comp_mask, reserved}: behind
// the attributes stand those of extensions, of which there are none.
func queryDeviceEx(r *request) error {
	if r.in.u64(0) != 0 {
		return syscall.EINVAL
	}
	a := r.f.ctx.Query()
	out := r.reply(extendedDeviceAttrLen)
	putDeviceAttr(out, &a)
	native.PutUint32(out[180:], uint32(min(r.outLen, extendedDeviceAttrLen)))
	native.PutUint64(out[224:], uint64(capFlags(a.Caps)))
	return r.answer(out, nil)
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
	out := r.reply(portAttrLen)
	native.PutUint32(out, portCapFlags)
	native.PutUint32(out[4:], a.MaxMsg)
	native.PutUint32(out[8:], a.BadPKeys)
	native.PutUint32(out[16:], uint32(a.GIDTable))
	native.PutUint16(out[20:], uint16(a.PKeyTable))
	native.PutUint16(out[22:], a.LID)
	native.PutUint16(out[24:], a.SMLID)
	out[26] = uint8(a.State)
	out[27], out[28] = ib.MTUCode(a.MTU), ib.MTUCode(a.MTU)
	out[29] = a.LMC
	out[30] = 1 // virtual lane
	out[34], out[35] = widthFour, speedQDR
	out[36], out[37] = uint8(a.Phys), linkLayerEthernet
	return r.answer(out, nil)
}

// unsupported serves what an RNIC has not got: address handles, multicast,
// extended reliable connections, flow steering, work queues.
func unsupported(*request) error { return syscall.EOPNOTSUPP }
