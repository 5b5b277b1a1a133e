package devlink

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/view"
)

// fakeClient answers for a NIC and notes what is done with it.
type fakeClient struct {
	info ctl.Devlink
	did  []string
}

func (f *fakeClient) Devlink(context.Context) (ctl.Devlink, error) { return f.info, nil }

func (f *fakeClient) Show(_ context.Context, _ string, v any) error {
	return json.Unmarshal([]byte(`[{"name":"iwarp_cmt","value":"1"}]`), v)
}

func (f *fakeClient) Set(_ context.Context, settings []ctl.Setting, _ any) error {
	f.note("set " + settings[0].Name + "=" + settings[0].Value)
	return nil
}

func (f *fakeClient) Recover(context.Context) error { f.note("recover"); return nil }

func (f *fakeClient) HealthDump(context.Context) ([]byte, error) {
	return []byte("0123456789abcdefX"), nil
}

func (f *fakeClient) ClearHealthDump(context.Context) error { f.note("clear"); return nil }

func (f *fakeClient) Close() { f.note("close") }

func (f *fakeClient) note(what string) { f.did = append(f.did, what) }

func (f *fakeClient) nics() NICs {
	return NICs{
		List: func() []string { return []string{"hfi0", "nic0"} },
		Dial: func(name string) (Client, error) {
			switch name {
			case "nic0":
				return f, nil
			case "hfi0":
				return notNIC{f}, nil
			}
			return nil, errors.New("no NIC is called " + name)
		},
	}
}

// notNIC is an HFI, which is no device of devlink's.
type notNIC struct{ *fakeClient }

func (notNIC) Devlink(context.Context) (ctl.Devlink, error) {
	return ctl.Devlink{}, errors.New("an HFI")
}

func example() *fakeClient {
	used := 3
	return &fakeClient{info: ctl.Devlink{Netdev: "tap0", DevlinkInfo: view.DevlinkInfo{
		Name: "nic0", Driver: "tapir", Serial: "TPR1",
		Fixed:     []view.DevlinkVersion{{Name: "board.id", Version: "100G"}},
		Running:   []view.DevlinkVersion{{Name: "fw.mgmt", Version: "8.1"}},
		Resources: []view.DevlinkResource{{Name: "qp", Size: 64, Occ: &used}, {Name: "vlan", Size: 16}},
		Health: view.Health{State: "error", Errors: 2, Recoveries: 1, Kinds: []view.HealthKind{{Name: "ramrod", Count: 2}},
			Last: "lost", LastKind: "ramrod", Engine: 1, Dump: 17, Leaked: 4},
	}}}
}

// run runs a command line as tapir devlink does.
func run(t *testing.T, f *fakeClient, line string, format Format) (string, error) {
	t.Helper()
	for _, c := range Commands() {
		verb, _, _ := strings.Cut(c.Use, " ")
		if rest, ok := strings.CutPrefix(line+" ", c.Group+" "+verb+" "); ok {
			var out strings.Builder
			err := c.Run(t.Context(), f.nics(), &out, format, strings.Fields(rest))
			return out.String(), err
		}
	}
	t.Fatalf("no command %s", line)
	return "", nil
}

// What is printed, to the octet, as text and as JSON.
func TestPrint(t *testing.T) {
	for _, c := range []struct{ line, text, json string }{
		{"dev show", "tapir/nic0\n", `{"dev":{"tapir/nic0":{}}}`},
		{"dev info nic0", "tapir/nic0:\n  driver tapir\n  serial_number TPR1\n  versions:\n      fixed:\n        board.id 100G\n" +
			"      running:\n        fw.mgmt 8.1\n",
			`{"info":{"tapir/nic0":{"driver":"tapir","serial_number":"TPR1","versions":{"fixed":{"board.id":"100G"},"running":{"fw.mgmt":"8.1"}}}}}`},
		{"dev param show tapir/nic0", "tapir/nic0:\n  name iwarp_cmt type driver-specific\n    values:\n      cmode runtime value true\n",
			`{"param":{"tapir/nic0":[{"name":"iwarp_cmt","type":"driver-specific","values":[{"cmode":"runtime","value":true}]}]}}`},
		{"resource show", "tapir/nic0:\n  name qp size 64 occ 3 unit entry dpipe_tables none\n  name vlan size 16 unit entry dpipe_tables none\n",
			`{"resources":{"tapir/nic0":[{"name":"qp","size":64,"occ":3,"unit":"entry","dpipe_tables":[]},` +
				`{"name":"vlan","size":16,"unit":"entry","dpipe_tables":[]}]}}`},
		{"port show nic0/0", "tapir/nic0/0: type eth netdev tap0 flavour physical port 0 splittable false\n",
			`{"port":{"tapir/nic0/0":{"type":"eth","netdev":"tap0","flavour":"physical","port":0,"splittable":false}}}`},
		{"health show", "tapir/nic0:\n  reporter fw_fatal\n    state error error 2 recover 1 grace_period 0 auto_recover false auto_dump true\n",
			`{"health":{"tapir/nic0":[{"reporter":"fw_fatal","state":"error","error":2,"recover":1,"grace_period":0,"auto_recover":false,"auto_dump":true}]}}`},
		{"health diagnose nic0 reporter fw_fatal", "State: error\nLast error: ramrod, engine 1: lost\nErrors:\n  ramrod: 2\n" +
			"Recoveries: 1\nLeaked connection ids: 4\nDump: 17 octets\n",
			`{"State":"error","Last error":{"kind":"ramrod","engine":1,"text":"lost"},"Errors":{"ramrod":2},"Recoveries":1,"Leaked connection ids":4,"Dump":17}`},
		{"health dump show nic0 reporter fw_fatal", "dump_data:\n30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66 \n58 \n",
			`{"dump_data":[48,49,50,51,52,53,54,55,56,57,97,98,99,100,101,102,88]}`},
	} {
		if got, err := run(t, example(), c.line, Format{}); got != c.text || err != nil {
			t.Errorf("%s: %v\n%q, want\n%q", c.line, err, got, c.text)
		}
		if got, err := run(t, example(), c.line, Format{JSON: true}); got != c.json+"\n" || err != nil {
			t.Errorf("%s: %v\n%s, want\n%s", c.line, err, got, c.json)
		}
	}
	if got, err := run(t, example(), "dev show", Format{JSON: true, Pretty: true}); err != nil ||
		got != "{\n  \"dev\": {\n    \"tapir/nic0\": {}\n  }\n}\n" {
		t.Errorf("%q %v", got, err)
	}
}

// What commands do, and that no client stays open.
func TestDo(t *testing.T) {
	for line, want := range map[string]string{
		"dev param set nic0 name iwarp_cmt value false cmode runtime": "set iwarp_cmt=0 close",
		"health set nic0 reporter fw_fatal auto_recover true":         "set auto_recover=1 close",
		"health set nic0 reporter fw_fatal grace_period 500":          "set grace_period=500ms close",
		"health recover nic0 reporter fw_fatal":                       "recover close",
		"health dump clear nic0 reporter fw_fatal":                    "clear close",
		"health show": "close close",
	} {
		f := example()
		if _, err := run(t, f, line, Format{}); err != nil || strings.Join(f.did, " ") != want {
			t.Errorf("%s: %v: %q, want %q", line, err, f.did, want)
		}
	}
}

// Mistakes are errors of usage; what there is none of is a failure.
func TestRefused(t *testing.T) {
	for line, want := range map[string]string{
		"dev show nic0 x":                                              `?unexpected argument "x"`,
		"dev info nic9":                                                "!no NIC is called nic9",
		"dev info hfi0":                                                "!an HFI",
		"dev param show nic0 name mtu":                                 `!there is no parameter "mtu": choose iwarp_cmt`,
		"dev param set nic0 name iwarp_cmt":                            "?value is missing: expected DEV name ... value ... cmode ...",
		"dev param set nic0 name":                                      "?name: its value is missing",
		"health set nic0 reporter fw_fatal":                            "?what to change is missing: expected auto_recover or grace_period",
		"dev param set":                                                "?the device is missing: expected DEV name ... value ... cmode",
		"health show nic0 reporter x":                                  `!there is no reporter "x": choose fw_fatal`,
		"health recover nic0 reporter x":                               `!there is no reporter "x": choose fw_fatal`,
		"health diagnose nic0 kind x":                                  `?unexpected argument "kind": expected reporter`,
		"dev param set nic0 name iwarp_cmt value x cmode runtime":      "?value x: expected true or false",
		"dev param set nic0 name iwarp_cmt value true cmode permanent": "!cmode permanent: iwarp_cmt is of cmode runtime",
		"dev param set nic0 name iwarp_cmt value true cmode x":         "?cmode x: expected runtime",
	} {
		kind := "!"
		_, err := run(t, example(), line, Format{})
		if usage.Is(err) {
			kind = "?"
		}
		if err == nil || !strings.HasPrefix(kind+err.Error(), want) {
			t.Errorf("%s: error %v, want %s", line, err, want)
		}
	}
}

// Each group has a command show, and stands behind those above it.
func TestGroups(t *testing.T) {
	seen := map[string]bool{"": true}
	for _, g := range Groups() {
		above := ""
		if i := strings.LastIndexByte(g.Path, ' '); i > 0 {
			above = g.Path[:i]
		}
		if !seen[above] {
			t.Errorf("%s stands before %s", g.Path, above)
		}
		seen[g.Path] = true
	}
	shown := map[string]bool{}
	for _, c := range Commands() {
		if !seen[c.Group] {
			t.Errorf("%s: no group %s", c.Use, c.Group)
		}
		if strings.HasPrefix(c.Use, "show ") {
			shown[c.Group] = true
		}
	}
	if len(shown) != len(Groups()) {
		t.Errorf("groups with show: %v", shown)
	}
}
