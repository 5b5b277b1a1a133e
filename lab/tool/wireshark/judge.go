package wireshark

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"tapir/lab/tool/tshark"
)

// Verdict is what tshark thinks of the capture of a fabric, in whose frames
// packets travel in NSH, in Geneve or behind their EtherTypes.
type Verdict struct {
	Frames     int
	Packets16B int
	Packets9B  int
	Inner      int      // 16B packets in whose Ethernet frame stock dissectors found a protocol
	GoodICRC   int      // of both formats
	BadICRC    []string // frames
	Malformed  []string // frames, by stock dissectors or by ours
	Complaints []string // what our dissector has to say, after frame and colon
}

// Judge reads the capture twice: as stock tshark does, and with the dissector.
func Judge(ctx context.Context, file string) (v Verdict, err error) {
	home, err := os.MkdirTemp("", "tapir-judge-")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(home)
	stock := tshark.Options{Env: []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "config")}}
	if err := v.stock(ctx, file, stock); err != nil {
		return v, err
	}
	script := filepath.Join(home, scriptName)
	if err := os.WriteFile(script, []byte(Script), 0o600); err != nil {
		return v, err
	}
	stock.Script = script
	return v, v.ours(ctx, file, stock)
}

// stock counts the frames in which a second Ethernet header is followed by a
// protocol.
func (v *Verdict) stock(ctx context.Context, file string, o tshark.Options) error {
	rows, err := tshark.Fields(ctx, file, o, "frame.number", "frame.protocols", "_ws.malformed")
	for _, r := range rows {
		v.Frames++
		_, inner, carried := strings.Cut(strings.TrimPrefix(r[1], "eth:"), ":eth:")
		inner = strings.TrimPrefix(inner, "ethertype:")
		if carried && inner != "" && inner != "data" {
			v.Inner++
		}
		if r[2] != "" {
			v.Malformed = append(v.Malformed, r[0])
		}
	}
	return err
}

func (v *Verdict) ours(ctx context.Context, file string, o tshark.Options) error {
	rows, err := tshark.Fields(ctx, file, o, "frame.number", "opa16b.slid", "opa9b.icrc", "opa16b.icrc.status",
		"opa9b.icrc.status", "_ws.malformed", "_ws.expert.message")
	for _, r := range rows {
		status := r[3] + r[4]
		switch {
		case r[1] != "":
			v.Packets16B++
		case r[2] != "":
			v.Packets9B++
		default:
			continue
		}
		if status == "1" {
			v.GoodICRC++
		} else {
			v.BadICRC = append(v.BadICRC, r[0])
		}
		if r[5] != "" {
			v.Malformed = append(v.Malformed, r[0])
		}
		if r[6] != "" && status != "1" {
			v.Complaints = append(v.Complaints, r[0]+": "+r[6])
		}
	}
	return err
}
