package fcoe

import (
	"strings"
	"testing"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/disk"
	"tapir/wire/fc"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]struct {
		port fc.WWN
		lun  int
	}{"fcoe://20:00:02:00:00:00:00:01/3": {0x2000020000000001, 3}, "fcoe://2000020000000001/0": {0x2000020000000001, 0},
		"fcoe://any/255": {0, 255}} {
		if port, lun, err := ParseURL(text); port != want.port || lun != want.lun || err != nil {
			t.Errorf("%s: %v %d %v", text, port, lun, err)
		}
	}
	for _, text := range []string{"", "any/0", "fcoe://any", "fcoe://any/", "fcoe://any/x", "fcoe://any/-1",
		"fcoe://20:00/0", "iscsi://any/0", "fcoe://00:00:00:00:00:00:00:00/0"} {
		if _, _, err := ParseURL(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestValidate(t *testing.T) {
	lun := disk.LUN{Kind: targetconf.Mem, Size: 1 << 20, Block: 512}
	for want, j := range map[string]Job{
		"no LUN":                     {Ports: []Port{{}}},
		"port 1 has no LUN":          {Ports: []Port{{LUNs: []disk.LUN{lun}}, {Name: 1}}},
		"more than 256 LUNs":         {Ports: []Port{{LUNs: make([]disk.LUN, 257)}}},
		"two ports have the name":    {Ports: []Port{{Name: 1, LUNs: []disk.LUN{lun}}, {Name: 1, LUNs: []disk.LUN{lun}}}},
		"--npiv needs a fabric":      {VN2VN: true, Ports: []Port{{LUNs: []disk.LUN{lun}}, {Name: 1, LUNs: []disk.LUN{lun}}}},
		"a node has 65 at most":      {Ports: many(66, lun)},
		"no LUN: give one with --lu": {},
	} {
		if err := j.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := (&Job{Ports: many(65, lun)}).validate(); err != nil {
		t.Error(err)
	}
	work := disk.DefaultWork(disk.Read)
	for want, k := range map[string]Task{
		"--npiv needs a fabric":    {VN2VN: true, NPIV: 1, Work: work},
		"are the same name":        {Name: 1, NPIV: 1, Work: work},
		"LUN 256":                  {LUN: 256, Work: work},
		"discover asks the fabric": {Target: 1, Paths: []fc.WWN{2}, Work: disk.DefaultWork(disk.Discover)},
		"name the first port":      {Paths: []fc.WWN{2}, Work: work},
		"two paths are the same":   {Target: 2, Paths: []fc.WWN{2}, Work: work},
		"at most 8 paths":          {Target: 9, Paths: make([]fc.WWN, 8), Work: work},
	} {
		if err := k.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// many are n ports.
func many(n int, l disk.LUN) (list []Port) {
	for i := range n {
		list = append(list, Port{Name: fc.WWN(i), LUNs: []disk.LUN{l}})
	}
	return list
}
