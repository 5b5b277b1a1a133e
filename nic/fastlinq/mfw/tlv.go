package mfw

import "bytes"

// tlvAnswer is what a driver made of the last request for TLVs.
type tlvAnswer struct {
	requests, answers uint64
}

// AskTLV asks a function's driver for the values of TLVs: b is the request, as
// package tlv encodes it. The answer lies in the same place.
func (f *Firmware) AskTLV(fn int, b []byte) {
	s := &f.shm.Func[fn]
	s.TLV, s.TLVLength = bytes.Clone(b), uint32(len(b))
	f.funcs[fn].tlv.requests++
	f.post(fn, MsgGetTLVReq)
}

func (f *Firmware) tlvDone(fn int) { f.funcs[fn].tlv.answers = f.funcs[fn].tlv.requests }

// TLVAnswer is what lies in the place of TLVs, and whether the driver has said
// that it is done with the last request.
func (f *Firmware) TLVAnswer(fn int) (b []byte, done bool) {
	a := f.funcs[fn].tlv
	return f.shm.Func[fn].TLV, a.requests == a.answers && a.requests > 0
}
