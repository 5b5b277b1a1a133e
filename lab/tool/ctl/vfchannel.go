package ctl

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"tapir/lab/tool/vfsocket"
	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// vfProtocol is what a connection becomes that carries the channel of a VF.
const vfProtocol = "tapir-vf"

// vfHost is a NIC with virtual functions.
type vfHost interface {
	// VFPlace is the PF's end of the channel of a VF. Error: there is no such VF.
	VFPlace(vf int) (vfsocket.PF, error)
}

// vfChannel turns the connection into the channel between a VF, whose driver the client
// is, and its PF.
func (s *Server) vfChannel(w http.ResponseWriter, r *http.Request) {
	host, ok := s.nic.(vfHost)
	if !ok {
		fail(w, &Error{Status: http.StatusNotFound, What: s.name + " has no virtual functions"})
		return
	}
	n, err := strconv.Atoi(r.PathValue("vf"))
	if err != nil || r.Header.Get("Upgrade") != vfProtocol {
		fail(w, &Error{Status: http.StatusBadRequest,
			What: "expected the number of a VF and an upgrade to " + vfProtocol})
		return
	}
	pf, err := host.VFPlace(n)
	if err != nil {
		fail(w, err)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		fail(w, err)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", vfProtocol)
	if err := vfsocket.Serve(conn, rw.Reader, pf, s.quit); err != nil && s.Log != nil {
		fmt.Fprintf(s.Log, "the driver of VF %d: %v\n", n, err)
	}
}

// VFChannel makes the caller the driver of a VF of the NIC.
func (c *Client) VFChannel(ctx context.Context, vf int) (*vfsocket.Client, error) {
	conn, err := c.dial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://nic/v1/vf/%d/channel", vf), nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", vfProtocol)
	r := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	if err = req.Write(conn); err == nil {
		var resp *http.Response
		if resp, err = http.ReadResponse(r, req); err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
			err = decode(resp, nil)
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return vfsocket.NewClient(conn, r), nil
}

// vfPlace is a VF as a session of its driver uses it.
type vfPlace struct {
	d *served
	n int
}

// VFPlace implements vfHost.
func (d *served) VFPlace(n int) (vfsocket.PF, error) {
	p := vfPlace{d, n}
	return p, p.on(func(*fastlinq.VF, frame.Time) error { return nil })
}

// on runs fn with the VF, on the NIC's thread. Error: the VF has gone.
func (p vfPlace) on(fn func(v *fastlinq.VF, now frame.Time) error) error {
	return p.d.on(func(now frame.Time) error {
		h := fastlinq.Of(p.d.Device.Hardware)
		if h == nil || h.Bridge() == nil {
			return p.d.lacks("virtual functions")
		}
		if _, err := h.Bridge().IOV().VFInfo(p.n); err != nil {
			return &Error{What: err.Error(), Errno: fastlinq.VFErrno(err), Remedy: "see: tapir vf show NIC"}
		}
		return fn(h.Bridge().VFs()[p.n], now)
	})
}

// Attach implements vfsocket.PF. A reset that is under way ends before.
func (p vfPlace) Attach(write func(addr uint64, b []byte) error) (err error) {
	for end := time.Now().Add(attachTimeout); ; time.Sleep(attachRetry) {
		err = p.on(func(v *fastlinq.VF, _ frame.Time) error { return v.Hand(write) })
		if !fastlinq.VFBusy(err) || time.Now().After(end) {
			return err
		}
	}
}

// How long, and how often, a driver tries to get a VF that is being reset.
const (
	attachTimeout = 5 * time.Second
	attachRetry   = 20 * time.Millisecond
)

// Deliver implements vfsocket.PF.
func (p vfPlace) Deliver(msg []byte) error {
	return p.on(func(v *fastlinq.VF, _ frame.Time) error { return v.Deliver(msg) })
}

// Detach implements vfsocket.PF.
func (p vfPlace) Detach() {
	_ = p.on(func(v *fastlinq.VF, now frame.Time) error { // fails if the VF has gone
		v.TakeBack(now)
		return nil
	})
}
