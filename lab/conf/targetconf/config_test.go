package targetconf

import (
	"slices"
	"strings"
	"testing"

	"tapir/lab/conf"
	"tapir/nic/verbs"
)

// read reads the settings of a target.
func read(t *testing.T, text string) (*Config, error) {
	t.Helper()
	n, err := conf.Read("t.yaml", []byte(text), "a target")
	if err != nil {
		t.Fatal(err)
	}
	c := new(Config)
	return c, conf.Decode(n, "a target", c.Fields())
}

func TestArgv(t *testing.T) {
	for text, want := range map[string]string{
		"luns: mem:64M": "tapir iscsi target a --lun=mem:64M",
		`{luns: ["sparse:d:1G,block=4096", "mem:1M"], target: iqn.x:a, initiators: ["iqn.x:b", "iqn.x:c"], port: 3261}`: "tapir iscsi target a " +
			"--target=iqn.x:a --lun=sparse:d:1G,block=4096 --lun=mem:1M --initiator=iqn.x:b --initiator=iqn.x:c --port=3261",
		"{protocol: iser, luns: mem:1M}": "tapir iscsi target a --lun=mem:1M --iser=true",
		"{protocol: nvme, luns: mem:1M, target: nqn.x, initiators: nqn.y, first_id: 17}": "tapir nvme target a --nqn=nqn.x " +
			"--lun=mem:1M --host=nqn.y --first-id=17",
	} {
		c, err := read(t, text)
		if err == nil {
			err = c.Validate(verbs.RoCE)
		}
		if got := strings.Join(c.Argv("tapir", "a"), " "); err != nil || got != want {
			t.Errorf("%s: %v\n%s, want\n%s", text, err, got, want)
		}
	}
	c, err := read(t, `{protocol: fcoe, luns: mem:1M, target: "20:00:00:00:00:00:00:0a", vn2vn: true}`)
	if err == nil {
		err = c.Validate(verbs.FCoE)
	}
	want := []string{"tapir", "fcoe", "target", "a", "--wwpn=20:00:00:00:00:00:00:0a", "--lun=mem:1M", "--vn2vn=true"}
	if got := c.Argv("tapir", "a"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %q", err, got)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"luns: mem":                                     "t.yaml:1:7: luns: mem: the size is not a number",
		`luns: ["mem:1M", "disk:1M"]`:                   "t.yaml:1:18: luns: disk:1M: expected mem:SIZE",
		"{luns: [mem:1M]}":                              "t.yaml:1:12: luns: expected a disk, mem:SIZE, file:PATH or sparse:PATH:SIZE",
		`luns: "mem:1M,block=4097"`:                     `unknown option "block=4097"`,
		`luns: "mem:1000,block=4096"`:                   "not a number of whole blocks",
		"protocol: nvmf":                                "t.yaml:1:11: protocol: expected iscsi, iser, nvme, fcoe",
		"lun: mem:1M":                                   "lun: unknown key; ",
		"{luns: mem:1M, first_id: 65025}":               "first_id: expected the number",
		"{protocol: iser}":                              "luns: a target has disks",
		"{luns: mem:1M, target: a}":                     `target: "a": a name begins with iqn.`,
		"{luns: mem:1M, initiators: nqn.}":              `initiators: "nqn.": a name begins with iqn.`,
		"{protocol: nvme, luns: mem:1M, target: iqn.x}": `target: "iqn.x": a name begins with nqn.`,
		"{protocol: fcoe, luns: mem:1M}":                "give personality fcoe, not iwarp",
		"{offload: true, luns: mem:1M}":                 "offload: it takes protocol iscsi, personality iscsi",
		"{vn2vn: true, luns: mem:1M}":                   "vn2vn: it is of protocol fcoe",
		"{first_id: 2, luns: mem:1M}":                   "first_id: it is of protocol nvme",
	} {
		c, err := read(t, text)
		if err == nil {
			err = c.Validate(verbs.IWARP)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, protocol := range []string{NVMe, ISER} {
		c, err := read(t, "{luns: mem:1M, protocol: "+protocol+"}")
		if err == nil {
			err = c.Validate(verbs.Ethernet)
		}
		if err == nil || !strings.Contains(err.Error(), "give personality iwarp or roce, not eth") {
			t.Errorf("%s without RDMA: %v", protocol, err)
		}
	}
}
