package page

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/host/netns"
)

// browsers are the programs that can show the page, without a window.
var browsers = []string{"chromium-headless-shell", "chromium", "google-chrome"}

// browser is a Chromium with one tab, spoken to by the DevTools protocol over a
// pipe: messages of JSON that end with a NUL.
type browser struct {
	t       *testing.T
	to      *os.File
	session string
	wide    int
	high    int

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
	errors  []string // that the page has put on its console
}

type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// open starts a browser in a namespace, until the test ends.
func open(t *testing.T, ns *netns.NS, program string) *browser {
	t.Helper()
	in, to, err := os.Pipe()
	testenv.Must(t, err)
	from, out, err := os.Pipe()
	testenv.Must(t, err)
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{in, out} // 3 and 4
	testenv.Must(t, ns.Start(cmd))
	in.Close()
	out.Close()
	b := &browser{t: t, to: to, waiting: map[int]chan answer{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(from)
	}()
	t.Cleanup(func() {
		b.session = ""
		b.call("Browser.close", nil)
		guard := testenv.Guard(t, cmd.Process.Pid, nil)
		_ = cmd.Wait() // its exit code says nothing
		guard()
		to.Close()
		from.Close()
		<-done
	})
	var target struct{ TargetID string }
	b.into(b.call("Target.createTarget", map[string]any{"url": "about:blank"}), &target)
	var attached struct{ SessionID string }
	b.into(b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}), &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Runtime", "Log", "Page"} {
		b.call(domain+".enable", nil)
	}
	b.size(1280, 800)
	return b
}

// size is that of the tab, in pixels.
func (b *browser) size(wide, high int) {
	b.wide, b.high = wide, high
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": wide, "height": high, "deviceScaleFactor": 1,
		"mobile": false})
}

func (b *browser) into(raw json.RawMessage, v any) {
	b.t.Helper()
	testenv.Must(b.t, json.Unmarshal(raw, v))
}

// read takes what the browser says.
func (b *browser) read(from *os.File) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var a answer
		if json.Unmarshal(text[:len(text)-1], &a) != nil {
			continue
		}
		b.mu.Lock()
		if c := b.waiting[a.ID]; c != nil {
			delete(b.waiting, a.ID)
			c <- a
		}
		b.complaint(&a)
		b.mu.Unlock()
	}
}

// complaint keeps what the page puts on its console as an error.
func (b *browser) complaint(a *answer) {
	var p struct {
		Type  string
		Entry struct{ Level, Text, URL string }
	}
	_ = json.Unmarshal(a.Params, &p) // others have none of these
	if a.Method == "Runtime.exceptionThrown" || a.Method == "Runtime.consoleAPICalled" && p.Type == "error" ||
		a.Method == "Log.entryAdded" && p.Entry.Level == "error" {
		b.errors = append(b.errors, string(a.Params))
	}
}

// call calls a method of the protocol.
func (b *browser) call(method string, params map[string]any) json.RawMessage {
	b.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	c := make(chan answer, 1)
	b.mu.Lock()
	b.next++
	message := map[string]any{"id": b.next, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	b.waiting[b.next] = c
	text, err := json.Marshal(message)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	testenv.Must(b.t, err)
	a := testenv.Await(b.t, c, method)
	if strings.Contains(string(a.Error), "navigated") { // to the record of a lab that has ended
		return json.RawMessage("{}")
	}
	if a.Error != nil {
		b.t.Fatalf("%s: %s", method, a.Error)
	}
	return a.Result
}

// eval is the value of an expression of JavaScript, as JSON.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.into(b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true,
		"awaitPromise": true}), &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return string(r.Result.Value)
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			b.t.Log(b.eval("document.body?.innerText.slice(0, 4000)"), b.complaints())
		}
	}()
	testenv.Until(b.t, expression, func() bool { return b.eval("!!document.body && !!("+expression+")") == "true" })
}

// text waits until the page has a text.
func (b *browser) text(want string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%q)", want))
}

// press presses a key.
func (b *browser) press(key string) {
	b.t.Helper()
	p := map[string]any{"type": "keyDown", "key": key}
	switch {
	case len(key) == 1:
		p["text"] = key
	case key == "Enter":
		p["text"] = "\r"
	}
	b.call("Input.dispatchKeyEvent", p)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
}

// screenshot keeps a picture of the tab.
func (b *browser) screenshot(file string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.into(b.call("Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}), &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	testenv.Must(b.t, err, os.WriteFile(file, data, 0o644))
}

func (b *browser) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.errors, "\n")
}

// act chooses an action by its name, waits for its command line, and runs it.
func (b *browser) act(name, command string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`(() => { const s = document.querySelector("[aria-label=Action]"); s.value = %q;
		s.dispatchEvent(new Event("change")); })()`, name))
	b.until(fmt.Sprintf(`[...document.querySelectorAll(".lines code")].some((c) => c.innerText === %q)`, command))
	b.eval(`document.querySelector("button.run").click()`)
	b.until(`!document.querySelector("button.run").disabled && document.querySelector(".output").textContent.endsWith("done")`)
}
