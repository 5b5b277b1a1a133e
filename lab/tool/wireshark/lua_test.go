package wireshark

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/opa"
)

// lua54 finds a Lua 5.4, as Wireshark has it since 4.4.
func lua54(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"lua5.4", "lua54", "lua"} {
		if out, err := exec.Command(name, "-v").CombinedOutput(); err == nil && strings.HasPrefix(string(out), "Lua 5.4") {
			return name
		}
	}
	t.Skip("no Lua 5.4 here: apt-get install lua5.4")
	return ""
}

// TestLua54 runs the whole dissector on a plain Lua 5.4, with what it uses of
// Wireshark put in its place: packets in each carriage, and MADs.
func TestLua54(t *testing.T) {
	t.Parallel()
	lua := lua54(t)
	script := filepath.Join(t.TempDir(), "opa.lua")
	if err := os.WriteFile(script, []byte(Script), 0o600); err != nil {
		t.Fatal(err)
	}
	const carriages = 5
	args := []string{"testdata/mock.lua", script}
	var want []string
	for _, s := range samples {
		p := s.header.AppendTo(nil, s.inner, s.icrc)
		for _, c := range []string{"ethertype:0x88b5:", "wtap_encap:45:", "erf.types.type:28:0101000000000000" + "0040000000000000"} {
			args = append(args, c+hex.EncodeToString(p))
		}
		args = append(args, "ethertype:0x894f:"+hex.EncodeToString(wrapped(opa.FramingNSH, p)[14:]))
		args = append(args, "udp.port:6081:"+hex.EncodeToString(wrapped(opa.FramingGeneve, p)[14+20+8:]))
		for i, row := range luaRows(s) {
			for range carriages {
				want = append(want, columns[i]+"\t"+row)
			}
		}
	}
	args = append(args, "ethertype:0x88b6:"+hex.EncodeToString((&opa.Header9B{SLID: 5, DLID: 6}).AppendTo(nil, make([]byte, 300), opa.ICRCv1)))
	want = append(want, "opa9b.icrc.status\t1")
	for _, c := range vemaCases {
		args = append(args, "mad::"+hex.EncodeToString(c.mad))
		want = append(want, "opavema.attribute\t"+c.want["attribute"])
	}
	want = append(want, "opavema.eth_mtu\t1500", "opavema.smac\t1", "opavema.config_state\t3")
	out, err := exec.CommandContext(judge(t), lua, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Split(string(out), "\n")
	for _, line := range want {
		i := slices.Index(got, line)
		if i < 0 {
			t.Fatalf("%q is missing in\n%s", line, out)
		}
		got = slices.Delete(got, i, i+1)
	}
}

// luaRows are the numbers among the columns of s, as the stand-in prints them.
func luaRows(s sample) map[int]string {
	h, p := s.header, opa.Packet(s.header.AppendTo(nil, s.inner, s.icrc))
	return map[int]string{0: fmt.Sprint(uint32(h.SLID)), 1: fmt.Sprint(uint32(h.DLID)), 2: h.DLID.Kind().String(), 7: fmt.Sprint(h.SC),
		12: fmt.Sprint(h.PKey), 18: fmt.Sprint(h.VESW), 21: fmt.Sprint(p.ICRC()), 22: flag(p.ICRCGood())}
}
