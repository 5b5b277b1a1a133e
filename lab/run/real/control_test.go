package real

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
)

// TestControl strikes a lab that is up by its control socket.
func TestControl(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	lab, err := topo.Parse("lab.yaml", []byte("name: controlled\nnodes:\n  a: {kind: host, ip: 10.0.0.1/24}\n"+
		"  b: {kind: host, ip: 10.0.0.2/24}\nlinks: [{between: [a, b], delay: 1ms}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	b, err := Up(t.Context(), lab, Options{Options: steps.Options{Print: &said}, Tapir: tapir, Control: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := ctl.Dial("controlled")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	link := func() LinkRow {
		var rows []LinkRow
		if err := c.Show(t.Context(), "link", &rows); err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		return rows[0]
	}
	if r := link(); r.Name != "a-b" || r.State != "up" || r.Fault != "delay 1ms" {
		t.Errorf("%+v", r)
	}
	running := Running{Name: "controlled"}
	for _, at := range []struct{ step, state, fault, err string }{
		{step: "{fault: a-b, loss: 10%, from: {b: {delay: 3ms}}}", state: "up", fault: "a: loss 10%; b: loss 10%, delay 3ms"},
		{step: "{link: a-b, state: down}", state: "down", fault: "a: loss 10%; b: loss 10%, delay 3ms"},
		{step: "{link: a-b, state: up}", state: "up", fault: "a: loss 10%; b: loss 10%, delay 3ms"},
		{step: "{fault: a-b, rules: [{drop: frame, nth: 1, optional: true}]}", state: "up", fault: "none"},
		{step: "{fault: a-c}", state: "up", fault: "none", err: "a-c"},
		{step: "{wait: 1s}", state: "up", fault: "none", err: "expected one of fault, link, kill, start, phc"},
		{step: "{kill: a}", state: "up", fault: "none", err: "a"},
	} {
		err := running.Step(t.Context(), at.step)
		if (err == nil) != (at.err == "") || err != nil && !strings.Contains(err.Error(), at.err) {
			t.Errorf("%s: %v", at.step, err)
		}
		if r := link(); r.State != at.state || r.Fault != at.fault {
			t.Errorf("%s: %+v", at.step, r)
		}
	}
	if len(lab.Steps) != 0 {
		t.Error("the lab has got steps")
	}
	followed := make(chan string, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = c.Follow(ctx, "log", 0, func(raw json.RawMessage) {
		if strings.Contains(string(raw), "asked link a-b down") {
			followed <- string(raw)
			cancel()
		}
	})
	if len(followed) == 0 {
		t.Error("the log does not tell of a step")
	}
	if err := b.Down(); err != nil {
		t.Error(err)
	}
	if _, err := ctl.Dial("controlled"); err == nil {
		t.Error("the control socket is still there")
	}
}
