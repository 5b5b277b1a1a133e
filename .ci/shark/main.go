// Shark draws what stock tshark says of a capture: the packet list around the first packet of a
// filter, that packet's layers and its octets, in Wireshark's three panes.
//
//	go run ./.ci/shark [-filter F] [-layers L] CAPTURE PNG
//
// The text is tshark's, unchanged; the panes and colors are drawn by a headless Chromium.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const style = `<!DOCTYPE html><meta charset="utf-8"><style>
body { margin: 0; font: 13px/1.35 "DejaVu Sans Mono", monospace; color: #12272e; background: #fff; }
div { border-bottom: 3px solid #c8ccd0; overflow: hidden; }
table { border-collapse: collapse; width: 100%; font: inherit; white-space: nowrap; }
th { text-align: left; background: #e8eaed; font: bold 12px sans-serif; padding: 3px 6px; }
td { padding: 0 6px; background: #e7e6ff; }
tr.chosen td { background: #2a6fb0; color: #fff; }
pre { margin: 0; padding: 4px 8px; font: inherit; }
p { margin: 0; padding: 3px 8px; font: 12px sans-serif; background: #e8eaed; }
</style>`

func main() {
	filter := flag.String("filter", "iwarp_ddp_rdmap", "display `filter` whose first packet is shown")
	layers := flag.String("layers", "iwarp_mpa,iwarp_ddp_rdmap", "`protocols` that are shown with all fields")
	flag.Parse()
	if err := draw(flag.Arg(0), flag.Arg(1), *filter, *layers); err != nil {
		fmt.Fprintln(os.Stderr, "shark:", err)
		os.Exit(1)
	}
}

func tshark(args ...string) (string, error) {
	var complaint bytes.Buffer
	cmd := exec.Command("tshark", append([]string{"--disable-protocol", "rpcordma"}, args...)...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("tshark: %w: %s", err, complaint.String())
	}
	return string(out), err
}

// about is how many packets are listed before the chosen one, and after it.
const about = 5

func draw(capture, picture, filter, layers string) error {
	version, err := tshark("--version")
	if err != nil {
		return err
	}
	found, err := tshark("-r", capture, "-Y", filter, "-T", "fields", "-e", "frame.number", "-c", "2000")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(found, "\n")
	n, err := strconv.Atoi(first)
	if err != nil {
		return fmt.Errorf("%s has no packet of %s", capture, filter)
	}
	last := strconv.Itoa(n + about)
	list, err := tshark("-r", capture, "-c", last, "-Y", fmt.Sprintf("frame.number >= %d", n-about), "-T", "fields",
		"-e", "_ws.col.No.", "-e", "_ws.col.Time", "-e", "_ws.col.Source", "-e", "_ws.col.Destination",
		"-e", "_ws.col.Protocol", "-e", "_ws.col.Length", "-e", "_ws.col.Info")
	if err != nil {
		return err
	}
	one := []string{"-r", capture, "-c", first, "-Y", "frame.number == " + first}
	detail, err := tshark(append(one, "-O", layers)...)
	if err != nil {
		return err
	}
	octets, err := tshark(append(one, "-x")...)
	if err != nil {
		return err
	}
	page := style + "<div><table><tr>"
	for _, head := range []string{"No.", "Time", "Source", "Destination", "Protocol", "Length", "Info"} {
		page += "<th>" + head
	}
	for line := range strings.Lines(list) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if page += "<tr>"; cells[0] == first {
			page = strings.TrimSuffix(page, ">") + ` class="chosen">`
		}
		for _, c := range cells {
			page += "<td>" + html.EscapeString(c)
		}
	}
	rows := strings.SplitAfterN(octets, "\n", 13)
	version, _, _ = strings.Cut(version, "\n")
	page += "</table></div><div><pre>" + html.EscapeString(strings.TrimSpace(detail)) + "</pre></div><div><pre>" +
		html.EscapeString(strings.Join(rows[:min(len(rows), 12)], "")) + "</pre></div><p>" +
		html.EscapeString(filepath.Base(capture)+", filter "+filter+", text of "+version) + "</p>"
	return shoot(page, picture)
}

// shoot makes the picture of a page.
func shoot(page, picture string) error {
	dir, err := os.MkdirTemp("", "shark")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return err
	}
	out, err := exec.Command("chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--window-size=1180,780", "--user-data-dir="+dir, "--screenshot="+picture, "file://"+file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("chromium-headless-shell: %w: %s", err, out)
	}
	return nil
}
