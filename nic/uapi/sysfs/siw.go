package sysfs

import (
	"fmt"
	"os"
	"strings"
)

const (
	moduleDir = "/sys/module/siw"
	paramDir  = moduleDir + "/parameters"
	debugDir  = "/sys/kernel/debug/siw"
)

// Stats counts a device's objects.
type Stats struct{ CXs, PDs, QPs, CQs, SRQs, MRs, CEPs, Sockets, WQEs int }

// QP is a queue pair in the list of siw's.
type QP struct {
	Num          uint32
	State        string // IDLE, RTS, CLOSING, TERMINATE or ERROR
	Sends, Recvs int    // waiting in its queues
	IRD, ORD     int
	Local        string // ends of its connection; empty: none
	Remote       string
}

// CEP is a connection endpoint in the list of siw's.
type CEP struct {
	ID            uint32 // of the connection manager, 0: none
	State         string // what it does
	QP            uint32 // 0: none
	Listening     bool
	Local, Remote string
}

// Parameter is one of the siw driver's.
type Parameter struct {
	Name string
	Get  func() (string, error)
	Set  func(value string) // nil: it cannot be changed
}

// Parameters adds parameters of the siw driver, which all devices share.
func (t *Tree) Parameters(list []Parameter) error {
	t.Show(moduleDir)
	for _, p := range list {
		path := paramDir + "/" + p.Name
		err := t.Live(path, func() (string, error) {
			v, err := p.Get()
			return v + "\n", err
		})
		if err != nil {
			return err
		}
		if p.Set == nil {
			continue
		}
		if err := os.Chmod(t.Root()+path, 0o644); err != nil {
			return err
		}
		t.Take(path, func(text []byte) { p.Set(strings.TrimSpace(string(text))) })
	}
	return nil
}

// siw adds the lists of objects that the siw driver of softiwarp has in
// debugfs.
func (b *builder) siw(d *Device) {
	b.t.Show(debugDir)
	dir := debugDir + "/" + d.Name()
	b.live(dir+"/stats", func() (string, error) {
		s, err := d.Stats()
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Allocated SIW Objects:\nDevice %s (IFF_UP):\tCXs: %d, PDs: %d, QPs: %d, CQs: %d, SRQs: "+
			"%d, MRs: %d, CEPs: %d, TCP sockets: %d, WQEs: %d\n", d.Name(), s.CXs, s.PDs, s.QPs, s.CQs, s.SRQs, s.MRs,
			s.CEPs, s.Sockets, s.WQEs), nil
	})
	b.live(dir+"/qp", func() (string, error) {
		list, err := d.QPs()
		return qpTable(d.Name(), list), err
	})
	b.live(dir+"/cep", func() (string, error) {
		list, err := d.CEPs()
		return cepTable(d.Name(), list), err
	})
}

// qpStates are numbered as siw's.
var qpStates = map[string]int{"IDLE": 0, "RTR": 1, "RTS": 2, "CLOSING": 3, "TERMINATE": 4, "ERROR": 5}

func qpTable(device string, list []QP) string {
	heads := []any{"QP-ID", "State", "SQ", "RQ", "IRQ", "ORQ", "Sock"}
	return table(device, "QPs", "%-7v%-6v%-5v%-5v%-5v%-5v%v\n", heads, list, func(q *QP) []any {
		return []any{q.Num, qpStates[q.State], q.Sends, q.Recvs, q.IRD, q.ORD, sock(q.Local, q.Remote)}
	})
}

func cepTable(device string, list []CEP) string {
	return table(device, "CEPs", "%-7v%-15v%-7v%-3v%v\n", []any{"CM-ID", "State", "QP-ID", "LC", "Sock"}, list,
		func(c *CEP) []any {
			listening, qp := "n", "-1"
			if c.Listening {
				listening = "y"
			}
			if c.QP != 0 {
				qp = fmt.Sprint(c.QP)
			}
			return []any{c.ID, strings.ReplaceAll(c.State, " ", "-"), qp, listening, sock(c.Local, c.Remote)}
		})
}

// table is a list of a device's objects, empty if there are none.
func table[T any](device, objects, row string, heads []any, list []T, cells func(*T) []any) string {
	if len(list) == 0 {
		return ""
	}
	b := fmt.Appendf(nil, "%s: %d %s\n", device, len(list), objects)
	b = fmt.Appendf(b, row, heads...)
	for i := range list {
		b = fmt.Appendf(b, row, cells(&list[i])...)
	}
	return string(b)
}

// sock are the ends of a connection.
func sock(local, remote string) string {
	switch {
	case local == "":
		return "-"
	case remote == "":
		return local
	}
	return local + "-" + remote
}
