package show

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"tapir/lab/tool/usage"
)

// tables answers with the JSON of each kind.
type tables map[string]string

func (t tables) Show(_ context.Context, kind string, v any) error {
	return json.Unmarshal([]byte(t[kind]), v)
}

func TestPrint(t *testing.T) {
	for _, c := range []struct{ kind, raw, want string }{
		{"cq", `[]`, "none\n"},
		{"cq", `[{"cq":1,"owner":"","flag_list":["armed","full"],"tcp":{"rto":1}},{"cq":2,"stag":255}]`,
			"CQ  OWNER  FLAG-LIST   STAG\n1   -      armed,full  -\n2   -      -           0xff\n"},
		{"link", `[{"name":"a-b","lost":3}]`, "NAME  LOST\na-b   3\n"},
		{"log", `[{"seq":0,"time":"0.100","text":"lab x is up"}]`, "TIME   TEXT\n0.100  lab x is up\n"},
		{"link", `[{"attribute":"speed","value":"100G","note":"hidden"}]`, "ATTRIBUTE  VALUE\nspeed      100G\n"},
		{"nic", ` {"name":"nic0","gateways":[],"up":true}`, "name      nic0\ngateways  -\nup        true\n"},
	} {
		var out strings.Builder
		if err := Print(&out, c.kind, json.RawMessage(c.raw), false); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.raw, err, &out, c.want)
		}
	}
	var out strings.Builder
	if err := Print(&out, "cq", json.RawMessage(`[{"cq":1}]`), true); err != nil || out.String() != "[\n  {\n    \"cq\": 1\n  }\n]\n" {
		t.Errorf("%v: %s", err, &out)
	}
	for _, bad := range []string{``, `[1`, `[{"a"}]`} {
		if err := Print(&out, "cq", json.RawMessage(bad), false); err == nil {
			t.Errorf("%q is printed", bad)
		}
	}
}

func TestLines(t *testing.T) {
	var out strings.Builder
	Lines(&out, json.RawMessage(`[{"seq":1,"time":"0.5","event":"established","qp":3},{"seq":2,"text":"hello"}]`))
	if out.String() != "0.5 established qp=3\nhello\n" {
		t.Error(out.String())
	}
}

func TestTarget(t *testing.T) {
	for line, want := range map[string]Target{
		"nic0":      {"nic0", "nic", ""},
		"nic0 qp":   {"nic0", "qp", ""},
		"qp 4":      {"", "qp", "4"},
		"nic0 qp 4": {"nic0", "qp", "4"},
	} {
		if got, err := ParseTarget(strings.Fields(line)); got != want || err != nil {
			t.Errorf("%s: %v %v", line, got, err)
		}
	}
	for _, line := range []string{"nic0 nothing", "stats 3", "qp 4 5 6"} {
		if _, err := ParseTarget(strings.Fields(line)); !usage.Is(err) {
			t.Errorf("%s: %v", line, err)
		}
	}
	c := tables{"qp": `[{"qp":2},{"qp":13,"state":"RTS"}]`}
	if raw, err := (Target{Kind: "qp", Row: "13"}).Fetch(t.Context(), c); string(raw) != `{"qp":13,"state":"RTS"}` || err != nil {
		t.Errorf("%s %v", raw, err)
	}
	if _, err := (Target{Kind: "qp", Row: "1"}).Fetch(t.Context(), c); err == nil || err.Error() != "there is no qp 1" {
		t.Error(err)
	}
}

// A query finds by name, by number in any notation and by address in any case.
func TestQuery(t *testing.T) {
	c := tables{
		"vesw":   `[{"id":2,"name":"blue"},{"id":3,"name":"red"}]`,
		"member": `[{"vesw":2,"node":"h1","lid":5},{"vesw":3,"node":"h2","lid":6}]`,
		"mac":    `[{"vesw":2,"mac":"52:54:00:00:00:0a","node":"h1","dlid":5}]`,
		"port":   `[{"guid":"0x11","name":"h1","lid":5}]`,
	}
	for line, want := range map[string]string{
		"vesw blue":             "ID  NAME\n2   blue\n\nVESW  NODE  LID\n2     h1    0x5\n\nVESW  MAC                NODE  DLID\n2     52:54:00:00:00:0a  h1    0x5\n",
		"vesw 0x3":              "ID  NAME\n3   red\n\nVESW  NODE  LID\n3     h2    0x6\n",
		"node 17":               "GUID  NAME  LID\n0x11  h1    0x5\n",
		"mac 52:54:00:00:00:0A": "VESW  MAC                NODE  DLID\n2     52:54:00:00:00:0a  h1    0x5\n",
	} {
		kind, what, _ := strings.Cut(line, " ")
		var out strings.Builder
		if err := Query(t.Context(), &out, c, kind, what); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", line, err, &out)
		}
	}
	if err := Query(t.Context(), &strings.Builder{}, c, "mac", "1"); err == nil || !CanQuery("mac") || CanQuery("port") {
		t.Error(err)
	}
}

// No cell is raw JSON: objects inside lists are names and values.
func TestNoJSONInCells(t *testing.T) {
	var b strings.Builder
	raw := `[{"name":"x","sessions":[{"id":1,"peer":"a"},{"id":2,"peer":"b","more":{"deep":1}}],"nothing":null}]`
	if err := Print(&b, "other", []byte(raw), false); err != nil || strings.ContainsAny(b.String(), `{}"`) ||
		!strings.Contains(b.String(), "id=1 peer=a,id=2 peer=b") {
		t.Error(err, b.String())
	}
}
