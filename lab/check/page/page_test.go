// Package page opens the page of `tapir ui` in a real Chromium, beside NICs that
// run, and looks at what is shown and done.
package page

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/run/result"
)

// shots is where the pictures go, and examples where the labs lie.
const shots, examples = "../../../out/ui", "../../examples"

// at and labs are the same, wherever a test works.
var at, labs string

// built is the program tapir.
var built = sync.OnceValues(func() (string, error) { return testenv.Build(dir) })

var dir string // of this run

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "tapir-page"); err != nil {
		panic(err)
	}
	at, _ = filepath.Abs(shots)
	labs, _ = filepath.Abs(examples)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// world is a namespace with programs in it.
type world struct {
	t     *testing.T
	space *link.Space
	tapir string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	tapir, err := built()
	testenv.Must(t, err, os.MkdirAll(at, 0o755))
	runtime, err := os.MkdirTemp(dir, "run")
	testenv.Must(t, err)
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	w := &world{t, testenv.Space(t, link.Quiet), tapir}
	w.run("ip", "link", "set", "lo", "up")
	return w
}

func (w *world) run(argv ...string) string {
	w.t.Helper()
	out, err := testenv.Run(w.t, w.space.NS, argv...)
	if err != nil {
		w.t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return out
}

// start starts tapir until the test ends, and returns its first line.
func (w *world) start(args ...string) string {
	w.t.Helper()
	cmd := exec.Command(w.tapir, args...)
	out, err := cmd.StdoutPipe()
	testenv.Must(w.t, err)
	cmd.Stderr = cmd.Stdout
	testenv.Must(w.t, w.space.NS.Start(cmd))
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		done := testenv.Guard(w.t, cmd.Process.Pid, nil)
		_ = cmd.Wait()
		done()
	})
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	testenv.Must(w.t, err)
	go func() { _, _ = io.Copy(io.Discard, r) }() // it may go on talking
	return strings.TrimSpace(line)
}

// page opens what `tapir ui` prints.
func (w *world) page(args ...string) *browser {
	w.t.Helper()
	return w.open(append([]string{"ui"}, args...)...)
}

// open opens the page that a command of tapir prints.
func (w *world) open(args ...string) *browser {
	w.t.Helper()
	program := ""
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		w.t.Skip("Chromium is not there: apt-get install chromium-headless-shell")
	}
	_, url, ok := strings.Cut(w.start(args...), "ready ")
	if !ok {
		w.t.Fatal("no URL is printed")
	}
	b := open(w.t, w.space.NS, program)
	b.call("Page.navigate", map[string]any{"url": url})
	return b
}

func shot(name string) string { return filepath.Join(at, name+".png") }

// TestLive looks at two NICs on a bridge.
func TestLive(t *testing.T) {
	w := newWorld(t)
	config := filepath.Join(t.TempDir(), "pair.yaml")
	testenv.Must(t, os.WriteFile(config, []byte(`nics:
  - {name: nic0, tap: tap0, ip: 10.0.0.1/24, host_tap: host0}
  - {name: nic1, tap: tap1, ip: 10.0.0.2/24}
`), 0o600))
	w.run("ip", "link", "add", "br0", "type", "bridge")
	w.run("ip", "link", "set", "br0", "up")
	w.start("nic", "-c", config)
	w.run("ip", "link", "set", "tap0", "master", "br0")
	w.run("ip", "link", "set", "tap1", "master", "br0")
	w.start("perf", "write-bw", "--nic", "nic0", "--port", "4711")
	b := w.page("nic0")

	// The device: tables, by keys.
	b.text("Act")
	b.until(`document.querySelector("[role=tab][data-kind=wire]")`) // the last to come
	b.eval(`document.querySelector("[role=tab][data-kind=nic]").focus()`)
	b.press("ArrowRight")
	b.until(`document.activeElement.dataset.kind === "link" && document.querySelector("[role=tabpanel]").innerText.includes("line_speed")`)
	b.eval(`document.querySelector("[role=tab][data-kind=cep]").click()`)
	b.text("LISTEN")
	b.eval(`document.querySelector("[role=tab][data-kind=irq]").click()`)
	b.text("slowpath")
	b.screenshot(shot("device"))

	// An action and its command line.
	b.text("tapir set nic0 link=down")
	b.eval(`document.querySelector("button.run").click()`)
	b.until(`document.querySelector(".output").textContent.includes("done")`)
	b.eval(`document.querySelector("[role=tab][data-kind=link]").click()`)
	b.until(`document.querySelector("[role=tabpanel] td.bad")?.innerText === "down"`)
	if got := w.run(w.tapir, "show", "nic0", "link"); !strings.Contains(got, "down") {
		t.Errorf("the link is not down:\n%s", got)
	}
	b.act("Link up", "tapir set nic0 link=up")
	b.until(`document.querySelector("[role=tabpanel] td.good")?.innerText === "up"`)
	// A link that was down would keep PTP waiting for its fault reset interval.
	w.start("ptp", "run", "nic0", "--priority1", "1", "--sync-interval=-3", "--announce-interval=-3")
	w.start("ptp", "run", "nic1", "--slave-only=true", "--clock-class", "255", "--announce-interval=-3",
		"--delay-req-interval=-3")
	b.act("Post a Write", "tapir perf write-bw nic0 10.0.0.2 -n 1 -s 65536")
	b.text("Gb/s")
	b.eval(`document.querySelector("[role=tab][data-kind=counters]").click()`)
	b.text("rdma_write_out")
	b.press("d")
	b.screenshot(shot("act-dark"))
	b.press("d")

	// The topology: both NICs, and the line that their neighbor tables tell of.
	b.press("1")
	b.until(`document.querySelectorAll(".topology .node").length === 2 && document.querySelectorAll(".topology .link").length === 1`)
	b.screenshot(shot("topology"))
	b.eval(`document.querySelector(".topology").focus()`)
	before := b.eval(`document.querySelector(".topology").getAttribute("viewBox")`)
	b.press("+")
	b.until(`document.querySelector(".topology").getAttribute("viewBox") !== ` + before)
	b.press("j")
	b.until(`location.hash.startsWith("#node/")`)

	// Clocks, of which the slave believes something.
	b.press("3")
	b.until(`document.querySelectorAll(".legend .clock").length === 2 && document.querySelector(".legend").innerText.includes("Delay_Resp")`)
	b.until(`document.querySelectorAll(".uplot canvas").length === 3`)
	b.eval(`document.querySelector(".legend button").focus()`)
	b.press("ArrowDown")
	b.press("Enter") // nic1 alone
	b.text("1 of 2 shown")
	b.press("Enter")
	b.text("2 of 2 shown")
	b.screenshot(shot("clocks"))
	if span := b.eval(`import("/clocks.js").then(async (m) => {
		const u = m.plot(document.querySelector(".clocks .chart"), [1e9], [{ id: "a", label: "a", values: [1] }], () => true);
		await new Promise(requestAnimationFrame);
		const { min, max } = u.scales.x;
		u.destroy();
		return max - min;
	})`); span != "10" {
		t.Errorf("one sample is drawn on an axis of %s s", span)
	}

	// The ladder of what passes meanwhile.
	b.eval(`location.hash = "#exchange/nic0"`)
	// A busy machine may begin the Writes when the capture has ended.
	for port := 4711; b.eval(`!!document.querySelector(".exchange")?.innerText.includes("RDMA Write")`) != "true"; port += 10_000 {
		if port > 4711 { // a server ends with its client; tshark has other protocols for ports near
			w.start("perf", "write-bw", "--nic", "nic0", "--port", fmt.Sprint(port))
		}
		b.eval(`setTimeout(() => [...document.querySelectorAll("button")].find((b) => b.innerText.startsWith("Capture")).click(), 0)`)
		b.text("Capturing")
		w.run(w.tapir, "perf", "write-bw", "--nic", "nic1", "10.0.0.1", "--port", fmt.Sprint(port), "-n", "3")
		b.until(`document.querySelector(".step, .error")`)
	}
	b.until(`[...document.querySelectorAll(".step")].find((e) => e.innerText.includes("RDMA Write"))`)
	b.eval(`[...document.querySelectorAll(".step")].find((e) => e.innerText.includes("RDMA Write")).click()`)
	b.until(`document.querySelector(".packet").innerText.includes("frame.number ==")`)
	b.text("iWARP Direct Data Placement")
	b.screenshot(shot("ladder"))
	if all := b.complaints(); all != "" {
		t.Error(all)
	}
}

// TestLab looks at a lab while it runs, strikes it, and looks at its record.
func TestLab(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	testenv.Must(t, os.WriteFile(file, []byte(`name: struck
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  b: {kind: nic, ip: 10.0.0.2/24}
links: [{between: [a, b], delay: 1ms}]
steps:
  - {run: ping -i 0.2 10.0.0.2, on: a, background: true}
  - {wait: {link: a-b, counter: lost, min: 2}, timeout: 2m}
`), 0o600))
	b := w.open("lab", "run", "--ui", file)
	b.until(`document.querySelectorAll(".topology .node").length === 2 && document.querySelector(".topology .hit[role] title")?.textContent.includes("late: half")`)
	b.until(`document.querySelector(".topology .link.busy")`)
	b.screenshot(shot("lab"))
	b.eval(`document.querySelector(".topology .hit[role]").dispatchEvent(new Event("click"))`)
	b.until(`location.hash === "#node/struck/a-b" && document.querySelector("[role=tab][data-kind=link]")`)
	b.eval(`document.querySelector("[role=tab][data-kind=link]").click()`)
	b.text("delay 1ms")
	b.act("Link down", "tapir lab link a-b down --lab struck")
	b.act("Link up", "tapir lab link a-b up --lab struck")
	b.act("Kill a node", "tapir lab kill a --lab struck")
	b.act("Start a node", "tapir lab start a --lab struck")
	b.act("Step a clock", "tapir lab clock a step=1ms --lab struck")
	b.act("Fault a link", "tapir lab fault a-b loss=1% --lab struck")
	b.text("loss 1%")
	b.act("Heal a link", "tapir lab heal a-b --lab struck")
	w.run(w.tapir, "lab", "fault", "a-b", "loss=100%", "--lab", "struck")

	// The lab has what it waited for: its record takes the place of the page.
	b.text("Lab struck pass")
	b.text("asked fault a-b")
	if all := b.complaints(); all != "" {
		t.Error(all)
	}
}

// thousand writes the record of a lab of as many NICs, on switches in two stages
// and two spines: it never ran.
func thousand(t *testing.T) (dir string) {
	t.Helper()
	r := result.Result{Lab: "thousand", Verdict: result.Passed, Seconds: 1}
	node := func(name, kind string) { r.Nodes = append(r.Nodes, result.Node{Name: name, Kind: kind}) }
	link := func(a, b string) {
		r.Links = append(r.Links, result.Link{Name: a + "-" + b, Ends: [2]string{a, b}})
	}
	node("spine-a", "switch")
	node("spine-b", "switch")
	for leaf := range 4 {
		sw := fmt.Sprintf("leaf-%c", 'a'+leaf)
		node(sw, "switch")
		link(sw, "spine-a")
		link(sw, "spine-b")
		for n := range 250 {
			nic := fmt.Sprintf("%c%d", 'n'+leaf, n+1)
			node(nic, "nic")
			link(nic, sw)
		}
	}
	dir = t.TempDir()
	testenv.Must(t, result.Write(dir, &r))
	return dir
}

// report is the URL of the report in a directory.
func report(t *testing.T, dir string) string {
	t.Helper()
	full, err := filepath.Abs(dir)
	testenv.Must(t, err)
	return "file://" + filepath.Join(full, "report.html")
}

// TestRecord looks at recorded labs: a small one over its time, and a thousand NICs.
func TestRecord(t *testing.T) {
	w := newWorld(t)
	t.Chdir(t.TempDir()) // the page has the path that it was called with
	out := "out/lossy-link"
	w.run(w.tapir, "lab", "run", "--clock", "virtual", "--out", out, labs+"/lossy-link/lab.yaml")
	b := w.page(out)
	b.text("Lab lossy-link pass")
	b.until(`document.querySelectorAll(".topology .node").length === 3`)
	b.until(`document.querySelector(".topology").textContent.includes("struck")`)
	b.eval(`document.querySelector("[type=range]").value = 0.03; document.querySelector("[type=range]").dispatchEvent(new Event("input"))`)
	b.until(`document.querySelector("output").value === "0.030000 s" && document.querySelectorAll(".log .later").length > 5`)
	b.eval(`document.querySelector("[type=range]").focus()`)
	b.press("ArrowRight")
	b.until(`document.querySelector("output").value > "0.05"`)
	b.press("ArrowLeft")
	b.until(`document.querySelector("output").value < "0.031"`)
	// The tables follow the slider: there was a QP then, and at the end there is none.
	b.eval(`document.querySelector(".past [data-kind=qp]").click()`)
	b.eval(`document.querySelector("[type=range]").value = 0.03; document.querySelector("[type=range]").dispatchEvent(new Event("input"))`)
	b.until(`document.querySelector(".past td")`)
	b.eval(`document.querySelector("[type=range]").value = 1; document.querySelector("[type=range]").dispatchEvent(new Event("input"))`)
	b.until(`document.querySelector(".past .table").innerText.includes("Nothing")`)
	b.eval(`document.querySelector("[type=range]").value = 0.03; document.querySelector("[type=range]").dispatchEvent(new Event("input"))`)
	b.until(`document.querySelector(".past td")`)
	b.eval(`[...document.querySelectorAll("button")].find((b) => b.innerText.startsWith("Ladder")).click()`)
	b.until(`document.querySelector(".step")`)
	b.screenshot(shot("record"))
	if all := b.complaints(); all != "" {
		t.Error(all)
	}

	// The report is the same page without a server.
	b.call("Page.navigate", map[string]any{"url": report(t, out)})
	b.until(`document.querySelectorAll(".topology .node").length === 3 && document.querySelectorAll(".steps details").length > 2`)
	b.until(`document.querySelector("figure canvas")`) // the rates of the links
	b.eval(`document.querySelector("[type=range]").value = 0.03; document.querySelector("[type=range]").dispatchEvent(new Event("input"))`)
	b.until(`document.querySelectorAll(".log .later").length > 5`)
	b.until(`document.querySelector(".exchange .step")`)
	b.eval(`document.querySelector(".exchange .step").click()`)
	b.text("Ethernet ") // decoded without a server
	b.press("d")
	b.screenshot(shot("report-dark"))
	b.press("d") // which the tab remembers
	if all := b.complaints(); all != "" {
		t.Error(all)
	}

	// Clocks and the tables of a manager.
	b.size(1280, 1100)
	for _, x := range []struct{ lab, want, name string }{
		{"ptp-tc", `document.querySelectorAll(".clocks figure canvas").length >= 3 && document.querySelectorAll(".clocks .legend .clock").length > 1`, "report-clocks"},
		{"two-vesws", `document.querySelector(".past [data-kind=nic], .past [data-kind=manager]")`, "report-fabric"},
	} {
		out := filepath.Join(t.TempDir(), x.lab)
		w.run(w.tapir, "lab", "run", "--clock", "virtual", "--out", out, labs+"/"+x.lab+"/lab.yaml")
		b.call("Page.navigate", map[string]any{"url": report(t, out)})
		b.until(x.want)
		b.eval(`(document.querySelector(".clocks:not([hidden])") || (choose(), document.querySelector(".past"))).scrollIntoView(); function choose() {
			const s = document.querySelector(".past select"); s.value = "em"; s.dispatchEvent(new Event("change")); document.querySelector(".past [data-kind=member]").click(); }`)
		b.screenshot(shot(x.name))
	}
	if all := b.complaints(); all != "" {
		t.Error(all)
	}

	many := thousand(t)
	if info, err := os.Stat(filepath.Join(many, "report.html")); err != nil || info.Size() > 5<<20 {
		t.Errorf("the report of 1,000 NICs: %v %v", info, err)
	}
	b = w.page(many)
	b.text("Lab thousand pass")
	b.text("1006 nodes, 1008 links, drawn as 10")
	under := `import("./app.js").then((m) => m.state.view.topology.linesUnderNodes())`
	if n := b.eval(under); n != "0" {
		t.Errorf("%s lines pass under nodes", n)
	}
	for n := 4; n > 0; n-- { // a series is drawn one by one when it is chosen
		b.eval(`document.querySelector(".topology .many").dispatchEvent(new Event("click"))`)
		b.until(fmt.Sprintf(`document.querySelectorAll(".topology .many").length === %d`, n-1))
	}
	b.text("1006 nodes, 1008 links")
	if n := b.eval(under); n != "0" {
		t.Errorf("%s lines pass under nodes", n)
	}
	b.screenshot(shot("thousand"))
	if all := b.complaints(); all != "" {
		t.Error(all)
	}
}
