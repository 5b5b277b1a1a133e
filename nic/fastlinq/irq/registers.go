package irq

import "fmt"

// Register is one word of the hwfn's CAU and IGU memories.
type Register struct {
	Name string
	Mask uint32 // the bits that keep what is written
	word *uint32
}

// Read returns the register's value.
func (r Register) Read() uint32 { return *r.word }

// Write sets those bits that Mask has.
func (r Register) Write(v uint32) { *r.word = *r.word&^r.Mask | v&r.Mask }

// Registers returns the words of the CAU and the IGU that a driver may write.
// Whoever changes one changes what the device does, at once.
func (h *Hwfn) Registers() (list []Register) {
	add := func(name string, i int, mask uint32, word *uint32) {
		list = append(list, Register{fmt.Sprintf("%s[%d]", name, i), mask, word})
	}
	add("igu_pf_conf", h.index, 0x1f, &h.conf)
	add("igu_attn_enable", h.index, attnBits, &h.attn.enable)
	for i := range h.lines {
		add("igu_mapping", i, mapMask, &h.lines[i].mapping)
		add("cau_sb_data", i, 0xffffffff, &h.cauSB[i].data)
		add("cau_sb_params", i, 0xf<<sbRes, &h.cauSB[i].params)
	}
	for i := range h.cauPI {
		add("cau_pi", i, 0xffffff, &h.cauPI[i])
	}
	return list
}
