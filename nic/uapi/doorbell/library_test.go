package doorbell

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tapir/nic/uapi/abi"
)

// compiler is what the committed libraries were made with.
const compiler = "gcc (Debian 12.2.0"

// TestLibraryIsOfItsSource makes the libraries again: they are what c/doorbell.c says,
// octet for octet.
func TestLibraryIsOfItsSource(t *testing.T) {
	out, err := exec.Command("x86_64-linux-gnu-gcc", "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	if _, cross := exec.LookPath("aarch64-linux-gnu-gcc"); err != nil || cross != nil ||
		!strings.Contains(strings.ReplaceAll(first, "x86_64-linux-gnu-gcc", "gcc"), compiler) {
		t.Skipf("the libraries were made by %s... with a cross compiler for arm64; this machine has %q, %v", compiler, first,
			cross)
	}
	dir := t.TempDir()
	if out, err := exec.Command("c/build", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"doorbell_amd64.so", "doorbell_arm64.so"} {
		made, err := os.ReadFile(filepath.Join(dir, name))
		have, err2 := os.ReadFile(name)
		if err != nil || err2 != nil || !bytes.Equal(made, have) {
			t.Errorf("%s is not what c/build makes: run it (%v, %v)", name, err, err2)
		}
	}
}

// TestLibraryNeedsNothing: one file serves programs of every C library, and it wants
// no more of one than there may be.
func TestLibraryNeedsNothing(t *testing.T) {
	for _, name := range []string{"doorbell_amd64.so", "doorbell_arm64.so"} {
		f, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if needs, err := f.ImportedLibraries(); err != nil || len(needs) != 0 {
			t.Errorf("%s is linked with %v, %v", name, needs, err)
		}
		symbols, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range symbols {
			if s.Section == elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_WEAK {
				t.Errorf("%s cannot be without %s", name, s.Name)
			}
		}
	}
}

// TestNumbersOfTheLibrary compares the numbers that C and Go must have in common.
func TestNumbersOfTheLibrary(t *testing.T) {
	source, err := os.ReadFile("c/doorbell.c")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"FIRST": FirstFile, "FILES": LastFile - FirstFile + 1, "HANDLES": Max,
		"DOORBELLS": Command, "POST_SEND": abi.CmdPostSend,
		"QUERY_DEVICE": abi.CmdQueryDevice, "MODIFY_QP": abi.CmdModifyQP} {
		m := regexp.MustCompile(`\b` + name + ` = (\w+)`).FindSubmatch(source)
		if m == nil {
			t.Errorf("there is no %s", name)
			continue
		}
		if got, err := strconv.ParseUint(string(m[1]), 0, 64); err != nil || got != want {
			t.Errorf("%s is %s, want %d", name, m[1], want)
		}
	}
}

// TestContextOfLibibverbs compares what the library knows of a context with
// libibverbs' own header.
func TestContextOfLibibverbs(t *testing.T) {
	own, err := os.ReadFile("c/doorbell.c")
	if err != nil {
		t.Fatal(err)
	}
	_, structs, _ := strings.Cut(string(own), "struct context {")
	structs, _, found := strings.Cut(structs, "static int (*next_poll)")
	if !found {
		t.Fatal("the library has no struct context")
	}
	structs = "struct cq;\nstruct context {" + strings.ReplaceAll(structs, "struct verbs_context", "struct tapir")
	dir := t.TempDir()
	source := `#include <infiniband/verbs.h>
#include <stddef.h>
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
` + structs + `
#define SAME(a, f, b, g) _Static_assert(offsetof(struct a, f) == offsetof(struct b, g), #g)
SAME(context, poll, ibv_context, ops.poll_cq);
SAME(context, notify, ibv_context, ops.req_notify_cq);
SAME(cq, context, ibv_cq, context);
SAME(cq, handle, ibv_cq, handle);
SAME(cq, handle, ibv_cq_ex, handle);
SAME(cq, start, ibv_cq_ex, start_poll);
SAME(context, fd, ibv_context, cmd_fd);
SAME(context, compat, ibv_context, abi_compat);
SAME(qp, handle, ibv_qp, handle);
SAME(limit, packet, ibv_qp_rate_limit_attr, typical_pkt_sz);
SAME(limit, more, ibv_qp_rate_limit_attr, comp_mask);
#define BEFORE(f, g) _Static_assert(offsetof(struct tapir, context) - offsetof(struct tapir, f) == \
	offsetof(struct verbs_context, context) - offsetof(struct verbs_context, g), #g)
BEFORE(limit, modify_qp_rate_limit);
BEFORE(query, query_device_ex);
BEFORE(create, create_cq_ex);
BEFORE(size, sz);
_Static_assert(offsetof(struct ibv_qp_attr, rate_limit) == ATTR_RATE, "rate_limit");
_Static_assert(offsetof(struct ibv_device_attr_ex, packet_pacing_caps) == PACING_CAPS, "packet_pacing_caps");
`
	file := filepath.Join(dir, "context.c")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-c", "-o", filepath.Join(dir, "context.o"), file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
