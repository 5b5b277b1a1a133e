package interop

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"tapir/lab/check/linuxptp"
	"tapir/lab/tool/ptpuds"
	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// known are the ids that pmc of linuxptp 3.1 can GET; it has no commands, and
// the last three ids came with 4.0.
func known() (ids []msg.ManagementID) {
	for _, id := range msg.ManagementIDs() {
		switch id {
		case msg.IDEnablePort, msg.IDDisablePort, msg.IDPortServiceStats, msg.IDUnicastMasterTable, msg.IDPortHWClock:
		default:
			ids = append(ids, id)
		}
	}
	return ids
}

// ask has stock pmc send requests until each has its answer: it waits for a
// tenth of a second only, which a busy machine may need itself.
func ask(ctx context.Context, t *testing.T, h *linuxptp.Host, args []string, requests ...string) []linuxptp.Reply {
	t.Helper()
	for {
		replies, err := h.PMC(ctx, args, requests...)
		if err != nil {
			t.Fatalf("pmc %v: %d answers to %d requests: %v", args, len(replies), len(requests), err)
		}
		if len(replies) == len(requests) {
			return replies
		}
	}
}

// Stock pmc reads all data sets of a NIC over every transport, where it may
// not write, and over the Unix socket, where it may.
func TestPMC(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := NewBed(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	var gets []string
	for _, id := range known() {
		gets = append(gets, "GET "+id.String())
	}
	for kind, flag := range map[transport.Kind]string{transport.Ethernet: "-2", transport.UDPv4: "-4", transport.UDPv6: "-6"} {
		if _, err := b.StartPTP(ptp.DefaultE2E, 1, func(c *unit.InstanceConfig) { c.Transport = kind }); err != nil {
			t.Fatal(err)
		}
		args := []string{flag, "-i", tapName}
		for i, r := range ask(ctx, t, b.Host, args, gets...) {
			if r.Kind != "MANAGEMENT" || (r.ID != known()[i].String() && r.ID != "") || (len(r.Fields) == 0) != (r.ID == "") {
				t.Errorf("%v: %s: %+v", kind, gets[i], r)
			}
		}
		if r := ask(ctx, t, b.Host, args, "SET PRIORITY1 3"); r[0].Kind != "MANAGEMENT_ERROR_STATUS" {
			t.Errorf("%v: anybody may write: %+v", kind, r)
		}
		if kind == transport.UDPv4 {
			b.testUnixSocket(ctx, t, gets)
		}
		if err := b.NIC.DoWait(func(frame.Time) { b.NIC.Device.PTP.Stop() }); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *Bed) testUnixSocket(ctx context.Context, t *testing.T, gets []string) {
	s, err := ptpuds.Listen(filepath.Join(t.TempDir(), "ptp"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := b.NIC.DoWait(func(frame.Time) {
		server := b.NIC.Device.PTP.Manager()
		server.SetLocal(s)
		s.Serve(b.NIC.Do, server)
	}); err != nil {
		t.Fatal(err)
	}
	args := []string{"-u", "-b", "0", "-s", s.Path()}
	replies := ask(ctx, t, b.Host, args, gets...)
	i := slices.IndexFunc(replies, func(r linuxptp.Reply) bool { return r.ID == "PORT_PROPERTIES_NP" })
	if i < 0 || replies[i].Get("interface") != tapName || replies[i].Get("timestamping") != "HARDWARE" {
		t.Errorf("PORT_PROPERTIES_NP among %+v", replies)
	}
	if r := ask(ctx, t, b.Host, args, "SET PRIORITY1 3"); r[0].Get("priority1") != "3" {
		t.Errorf("%+v", r)
	}
	if r := ask(ctx, t, b.Host, args, "GET PARENT_DATA_SET"); r[0].Get("grandmasterPriority1") != "3" {
		t.Errorf("%+v", r)
	}
}
