package mfw

import "tapir/nic/fastlinq/mfw/mib"

// request is a command of a driver. What goes with it lies in data, and so does
// what goes with the answer.
type request struct {
	fn    int
	cmd   Command
	param uint32
	data  []byte
	value uint32 // parameter of the answer
}

// handlers execute the commands. A driver may always tell about itself: whether
// that changes anything is for the firmware to decide.
var handlers = map[Command]func(*Firmware, *request) Response{
	CmdLoadReq:             (*Firmware).loadReq,
	CmdLoadDone:            (*Firmware).loadDone,
	CmdCancelLoadReq:       (*Firmware).cancelLoad,
	CmdUnloadReq:           (*Firmware).unloadReq,
	CmdUnloadDone:          (*Firmware).unloadDone,
	CmdInitiatePFFLR:       effect(OK, func(f *Firmware, r *request) { f.flr(r.fn) }),
	CmdInitPHY:             (*Firmware).initPHY,
	CmdLinkReset:           (*Firmware).linkReset,
	CmdNIGDrain:            effect(NIGDrainDone, func(*Firmware, *request) {}),
	CmdSetLLDP:             dcb((*mib.Agent).SetLLDP),
	CmdRegisterLLDP:        dcb((*mib.Agent).Register),
	CmdSetDCBX:             dcb((*mib.Agent).SetDCBX),
	CmdUpdateCurrentConfig: tells(func(me *function, v uint32) { me.pushed.Client = Client(v & 0xf) }),
	CmdUpdateMTU:           (*Firmware).updateMTU,
	CmdUpdateWoL:           tells(func(me *function, v uint32) { me.wol = WoL(v & 3) }),
	CmdUpdateDriverState:   tells(func(me *function, v uint32) { me.state = DriverState(v & 0xf) }),
	CmdUpdateESwitch:       tells(func(me *function, v uint32) { me.pushed.ESwitch = ESwitch(v & 3) }),
	CmdUpdateStormFW:       tells(func(me *function, v uint32) { me.pushed.StormFW = v }),
	CmdUpdateBusNum:        tells(func(me *function, v uint32) { me.pushed.BusNum = v }),
	CmdUpdateBootProgress:  tells(func(me *function, v uint32) { me.pushed.BootProgress = v }),
	CmdBWUpdateAck:         tells(func(me *function, _ uint32) { me.acks++ }),
	CmdSTagUpdateAck:       tells(func(me *function, _ uint32) { me.tagAcks++ }),
	CmdSetVersion:          (*Firmware).setVersion,
	CmdSetVMAC:             (*Firmware).setVMAC,
	CmdGetVMAC:             (*Firmware).getVMAC,
	CmdFeatureSupport:      effect(OK, func(f *Firmware, r *request) { f.funcs[r.fn].features = Features(r.param) }),
	CmdGetFeatureSupport:   effect(OK, func(f *Firmware, r *request) { r.value = uint32(f.features(r.fn)) }),
	CmdResource:            effect(OK, func(f *Firmware, r *request) { r.value = f.resourceCmd(r.fn, r.param) }),
	CmdGetResourceAlloc:    (*Firmware).resourceAlloc,
	CmdSetResourceValue:    (*Firmware).resourceAlloc,
	CmdGetTemperature:      (*Firmware).temperatures,
	CmdSetLEDMode:          (*Firmware).setLED,
	CmdGPIORead:            (*Firmware).gpio,
	CmdGPIOWrite:           (*Firmware).gpio,
	CmdGPIOInfo:            (*Firmware).gpio,
	CmdTransceiverRead:     (*Firmware).transceiverRead,
	CmdMdump:               (*Firmware).mdumpCmd,
	CmdNVMRead:             (*Firmware).nvmChunk,
	CmdNVMWrite:            (*Firmware).nvmChunk,
	CmdNVMPutFileData:      (*Firmware).nvmChunk,
	CmdNVMGetFileAtt:       (*Firmware).fileAtt,
	CmdNVMPutFileBegin:     (*Firmware).putBegin,
	CmdGetNVMOption:        (*Firmware).getOption,
	CmdSetNVMOption:        (*Firmware).setOption,
	CmdBISTTest:            effect(OK, (*Firmware).bist),
	CmdGetStats:            (*Firmware).takeStats,
	CmdGetTLVDone:          effect(OK, func(f *Firmware, r *request) { f.tlvDone(r.fn) }),
	// The firmware does not even answer to this one.
	CmdMCPHalt: effect(OK, func(f *Firmware, _ *request) { f.fault.Hang = true }),
}

// effect is the handler of a command that has one answer.
func effect(resp Response, do func(*Firmware, *request)) func(*Firmware, *request) Response {
	return func(f *Firmware, r *request) Response {
		do(f, r)
		return resp
	}
}

// tells is the handler of a command by which a driver tells the firmware a value.
// Such commands are answered with their own code.
func tells(do func(me *function, value uint32)) func(*Firmware, *request) Response {
	return func(f *Firmware, r *request) Response {
		do(&f.funcs[r.fn], r.param)
		return Response(r.cmd)
	}
}

// answer executes a command and writes the answer, its number last.
func (f *Firmware) answer(fn int, mb *DrvMB, seq uint16) {
	expected := f.funcs[fn].last + 1
	f.funcs[fn].last = seq
	f.stats.Commands++
	r := request{fn: fn, cmd: Command(mb.DrvHeader &^ sequence), param: mb.DrvParam, data: mb.Union[:]}
	resp := Error
	if handle := handlers[r.cmd]; seq != expected {
		f.stats.BadSequence++
	} else if handle != nil {
		resp = handle(f, &r)
	} else {
		resp = Unsupported
		f.stats.Unsupported++
	}
	mb.FWParam = r.value
	mb.FWHeader = uint32(resp) | uint32(seq)
}
