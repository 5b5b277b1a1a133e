package wireshark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

// prefix begins the names by which Wireshark knows our interfaces, beside
// those of the system.
const prefix = "tapir-"

// Each of the following answers one call of Wireshark's protocol for extcap
// programs (its manual page extcap(4)).

// WriteInterfaces lists the NICs of those names as interfaces.
func WriteInterfaces(w io.Writer, version string, nics []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "extcap {version=%s}{display=Tapir NICs}\n", version)
	for _, name := range nics {
		fmt.Fprintf(&b, "interface {value=%s%s}{display=Tapir NIC %s}\n", prefix, name, name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteDLTs lists the link types that an interface delivers: what the capture
// says itself counts.
func WriteDLTs(w io.Writer) error {
	_, err := io.WriteString(w, "dlt {number=1}{name=EN10MB}{display=Ethernet}\n")
	return err
}

// WriteConfig lists what can be chosen before a capture: flags of tapir
// wireshark extcap.
func WriteConfig(w io.Writer) error {
	for i, arg := range []struct{ call, display, tooltip string }{
		{"--host", "Host TAP too", "Capture the host TAP as a second interface"},
		{"--raw", "Keep super-frames whole", "Do not split what gso and jumbo pass in one piece"},
		{"--inner", "Frames inside Omni-Path packets",
			"Of a fabric: the Ethernet frames inside, the packets' fields as comments"},
	} {
		_, err := fmt.Fprintf(w, "arg {number=%d}{call=%s}{display=%s}{type=boolflag}{tooltip=%s}\n",
			i, arg.call, arg.display, arg.tooltip)
		if err != nil {
			return err
		}
	}
	return nil
}

// NICOf is the NIC that an interface of ours stands for.
func NICOf(iface string) (string, error) {
	name, ok := strings.CutPrefix(iface, prefix)
	if !ok || name == "" {
		return "", fmt.Errorf("%q is no interface of Tapir's; expected %sNAME", iface, prefix)
	}
	return name, nil
}

// Capture captures into a FIFO until Wireshark closes it or ends this process;
// with inner the frames inside the packets of a fabric.
func Capture(ctx context.Context, iface, fifo string, opt ctl.CaptureOptions, inner bool) error {
	name, err := NICOf(iface)
	if err != nil {
		return usage.Wrap(err)
	}
	client, err := ctl.Dial(name)
	if err != nil {
		return err
	}
	defer client.Close()
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if inner {
		_, err = client.Export(ctx, opt, f, capture.FormInner)
	} else {
		_, err = client.Capture(ctx, opt, f)
	}
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
