package ui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/inspect"
	"tapir/lab/tool/ui/record"
	"tapir/wire/pcapng"
)

// Bounds of what a page gets: steps of a ladder, and the octets of capture that are
// read for it.
const (
	maxSteps = 2000
	maxRead  = 1 << 30
)

// record reads the recorded lab.
func (s *Server) record(*http.Request) (any, error) {
	dir := s.recorded()
	if dir == "" {
		return nil, problem{errors.New("no recorded lab is shown: tapir ui OUT_DIR"), http.StatusNotFound}
	}
	return record.Read(dir, nil, maxRead)
}

// open opens a capture: that of the recorded lab, or the latest of a node.
func (s *Server) open(node string) (io.ReadCloser, error) {
	if s.recorded() != "" {
		f, err := os.Open(filepath.Join(s.recorded(), capture.LabFile))
		if errors.Is(err, os.ErrNotExist) {
			return nil, problem{errors.New("the lab was not captured: tapir lab run --out"), http.StatusNotFound}
		}
		return f, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if data := s.captures[node]; data != nil {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	return nil, problem{fmt.Errorf("%s was not captured yet", node), http.StatusNotFound}
}

// seconds reads a number of the query; without it, otherwise.
func seconds(r *http.Request, name string, otherwise float64) (float64, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return otherwise, nil
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f < 1e9) {
		return 0, bad("%s=%s: expected seconds", name, v)
	}
	return f, nil
}

// exchange replays the capture of the recorded lab; the ladder is of a window of
// its time, in seconds.
func (s *Server) exchange(r *http.Request) (any, error) {
	from, err := seconds(r, "from", 0)
	if err != nil {
		return nil, err
	}
	to, err := seconds(r, "to", 1e9-1)
	if err != nil {
		return nil, err
	}
	start, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("start"), "0"), 10, 64)
	if err != nil {
		return nil, bad("start: expected nanoseconds since the epoch")
	}
	opt := inspect.Options{Ladder: maxSteps, Start: start}
	if start > 0 {
		opt.Window = inspect.Window{From: start + int64(from*1e9), To: start + int64(to*1e9)}
	}
	return s.replay("", opt, "tapir inspect --ladder "+filepath.Join(s.recorded(), capture.LabFile))
}

func (s *Server) replay(node string, opt inspect.Options, command string) (any, error) {
	f, err := s.open(node)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := inspect.New(opt)
	err = inspect.Read(io.LimitReader(f, maxRead), in)
	rep := in.Finish()
	if rep.Packets == 0 && err != nil {
		return nil, err
	}
	return result.Exchange{Schema: schema, Verdict: rep.Verdict(), Report: rep, Command: command}, nil
}

// Bounds of a capture of a node.
const (
	captureFor    = 2 * time.Second
	captureFrames = 5000
	captureOctets = 16 << 20
	maxCaptures   = 4
)

// full keeps up to captureOctets and then refuses.
type full struct{ bytes.Buffer }

func (f *full) Write(p []byte) (int, error) {
	if f.Len()+len(p) > captureOctets {
		return 0, errors.New("the capture is full")
	}
	return f.Buffer.Write(p)
}

// capture records what a node sends and receives for a moment, and replays it.
func (s *Server) capture(r *http.Request) (any, error) {
	id := r.URL.Query().Get("id")
	c, err := dial(r.Context(), id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(r.Context(), captureFor)
	defer cancel()
	var file full
	if _, err := c.Capture(ctx, ctl.CaptureOptions{Count: captureFrames}, &file); err != nil && file.Len() == 0 {
		return nil, err
	}
	s.mu.Lock()
	for other := range s.captures {
		if other != id && len(s.captures) >= maxCaptures {
			delete(s.captures, other)
		}
	}
	s.captures[id] = file.Bytes()
	s.mu.Unlock()
	_, name, _ := find(id) // it was found before
	return s.replay(id, inspect.Options{Ladder: maxSteps},
		"tapir capture "+name+" -w f.pcapng; tapir inspect --ladder f.pcapng")
}

// Packet is one packet of a capture.
type Packet struct {
	Schema   int      `json:"schema"`
	Number   int      `json:"number"` // as Wireshark has it
	Time     int64    `json:"time_ns"`
	Length   int      `json:"length"` // on the wire
	Comments []string `json:"comments,omitempty"`
	Hex      string   `json:"hex"`
	Decoded  string   `json:"decoded,omitempty"` // by tshark, if that is there
}

// packet finds a packet by its number.
func (s *Server) packet(r *http.Request) (any, error) {
	want, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil || want < 1 {
		return nil, bad("n=%s: expected a packet's number", r.URL.Query().Get("n"))
	}
	f, err := s.open(r.URL.Query().Get("id"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	next, err := capture.Blocks(io.LimitReader(f, maxRead))
	if err != nil {
		return nil, err
	}
	for n := 1; ; {
		b, err := next()
		if err != nil {
			return nil, problem{fmt.Errorf("the capture has no packet %d", want), http.StatusNotFound}
		}
		switch b := b.(type) {
		case *pcapng.Journal: // which Wireshark numbers, too
			n++
		case *pcapng.Packet:
			if n == want {
				return Packet{schema, n, b.Stamp, int(b.OrigLen), b.Comments, hex.Dump(b.Data),
					s.decoded(r.Context(), r.URL.Query().Get("id"), n)}, nil
			}
			n++
		}
	}
}

// decoded is what tshark says of a packet, which it knows by those before; empty:
// it is not there.
func (s *Server) decoded(ctx context.Context, node string, n int) string {
	f, err := s.open(node)
	if err != nil {
		return ""
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	number := strconv.Itoa(n)
	cmd := exec.CommandContext(ctx, "tshark", "-r", "-", "-c", number, "-Y", "frame.number == "+number, "-V")
	cmd.Stdin, cmd.WaitDelay = io.LimitReader(f, maxRead), time.Second
	text, err := cmd.Output()
	if err != nil {
		return "" // the octets are shown without it
	}
	return string(text[:min(len(text), maxOutput)])
}

// file sends a capture.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	f, err := s.open(r.URL.Query().Get("id"))
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="capture.pcapng"`)
	_, _ = io.Copy(w, f) // a client that left needs nothing
}
