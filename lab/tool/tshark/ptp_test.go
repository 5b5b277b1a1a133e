package tshark

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/mgmt"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// ptpFrames is a capture of PTP messages that this house has encoded.
type ptpFrames struct {
	names []string
	file  []byte
}

func (p *ptpFrames) add(name string, f []byte) {
	p.names = append(p.names, name)
	p.file = (&pcapng.Packet{Stamp: int64(len(p.names)) * 1e6, Data: f, OrigLen: uint32(len(f))}).AppendTo(p.file)
}

var ptpMAC = ether.Addr{2, 0, 0, 0, 0, 1}

// ptpPorts has every kind of carriage.
var ptpPorts = map[string]transport.Port{
	"L2":     {MAC: ptpMAC},
	"local":  {MAC: ptpMAC, Local: true},
	"tagged": {MAC: ptpMAC, Tagged: true, Tag: ether.Tag{TPID: ether.TypeVLAN, TCI: 7<<13 | 100}},
	"UDPv4":  {Kind: transport.UDPv4, MAC: ptpMAC, IP: netip.MustParseAddr("10.0.0.1"), DSCP: 46},
	"UDPv6":  {Kind: transport.UDPv6, MAC: ptpMAC, IP: netip.MustParseAddr("fe80::1")},
}

// ptpTLVs are messages with every TLV that goes into them.
func ptpTLVs() map[string]msg.Message {
	id := msg.IdentityOf(ptpMAC)
	port := msg.PortIdentity{Clock: id, Port: 1}
	signal := func(tlvs []byte) msg.Message {
		return msg.Message{Header: msg.Header{Type: msg.Signaling}, Port: msg.AllPorts, TLVs: tlvs}
	}
	announce := func(tlvs []byte) msg.Message {
		return msg.Message{Header: msg.Header{Type: msg.Announce}, TLVs: tlvs}
	}
	stamp := msg.Timestamp{Seconds: 1_700_000_000, Nanoseconds: 1}
	return map[string]msg.Message{
		"unicast": signal((&msg.CancelUnicast{Type: msg.Sync}).Append((&msg.CancelUnicast{Type: msg.Announce}).Append(
			(&msg.GrantUnicast{Type: msg.DelayResp, Duration: 60, Renewal: true}).Append((&msg.RequestUnicast{Type: msg.Sync, LogInterval: -4, Duration: 60}).Append(nil)),
			msg.TLVCancelUnicast), msg.TLVAckCancelUnicast)),
		"intervals":     signal((&msg.IntervalRequest{TimeSync: -3}).Append(nil)),
		"gPTP capable":  signal((&msg.GPTPCapable{}).Append(nil)),
		"rate":          signal((&msg.InterfaceRate{BitPeriod: 1e9}).Append(nil)),
		"L1 sync":       signal((&msg.L1Sync{Flags: 1}).Append((&msg.L1Sync{Extended: true, Flags: 8, PhaseAt: stamp}).Append(nil))),
		"availability":  signal((&msg.PortAvailability{Sync: 3, DelayResp: 1}).Append(nil)),
		"address":       signal((&msg.PortAddress{Protocol: msg.NetworkUDPv4, Address: []byte{10, 0, 0, 1}}).Append(nil)),
		"monitoring":    signal((&msg.SlaveTxEvents{Source: port, Records: []msg.TxEvent{{Egress: stamp}}}).Append((&msg.SlaveRxSyncComputed{Source: port, Records: make([]msg.RxSyncComputed, 2)}).Append((&msg.SlaveRxSyncTiming{Source: port, Records: make([]msg.RxSyncTiming, 2)}).Append(nil)))),
		"path":          announce(msg.AppendPathTrace(nil, []msg.ClockIdentity{id}, id)),
		"local time":    announce((&msg.AlternateTimeOffset{Key: 1, CurrentOffset: 3600, JumpSeconds: -7200, NextJump: 1 << 33, Name: []byte("CET")}).Append(nil)),
		"power 2011":    announce((&msg.Power{Year: 2011, GrandmasterID: 254, GrandmasterInaccuracy: 50, NetworkInaccuracy: 200}).Append(nil)),
		"power 2017":    announce((&msg.Power{Year: 2017, GrandmasterID: 3, TotalInaccuracy: 250}).Append(nil)),
		"authenticated": announce((&msg.Authentication{KeyID: 1, Rest: make([]byte, 16)}).Append(msg.AppendPad(nil, 6))),
		"organization":  announce((&msg.Organization{ID: [3]byte{1, 2, 3}, Data: []byte{1, 2}}).Append(nil, msg.TLVOrganizationPropagate)),
		"rate ratio":    {Header: msg.Header{Type: msg.FollowUp}, Timestamp: stamp, TLVs: msg.CumulativeRateRatio(5).Append(nil)},
		"Follow_Up information": {Header: msg.Header{Type: msg.FollowUp, SdoID: 0x100}, Timestamp: stamp,
			TLVs: (&msg.FollowUpInfo{CumulativeRateOffset: 5}).Append(nil)},
	}
}

// managed keeps what passes between a client and the server of a clock.
type managed struct{ messages [][]byte }

func (m *managed) Send(_ string, b []byte) { m.messages = append(m.messages, slices.Clone(b)) }

type nowhere struct{}

func (nowhere) Send(int, ptp.Outgoing) {}

// ptpManagement is every GET with its answer, and a SET, a COMMAND and errors.
func ptpManagement(t *testing.T) [][]byte {
	phc, err := clock.New(clock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := ptp.New(ptp.NewConfig(ptp.DefaultE2E, msg.IdentityOf(ptpMAC), 1), phc, nowhere{})
	if err != nil {
		t.Fatal(err)
	}
	var m managed
	srv := mgmt.New(mgmt.Config{Ports: []mgmt.PortInfo{{Interface: "nic0", MAC: ptpMAC}}, Product: "Tapir;NIC;nic0", Revision: "1;1;1"}, inst)
	srv.SetLocal(&m)
	client := mgmt.Client{Identity: msg.PortIdentity{Clock: msg.ClockIdentity{1}, Port: 1}}
	ask := func(r mgmt.Request) {
		b := client.Append(nil, r, 0)
		m.messages = append(m.messages, b)
		srv.Local("client", b, frame.Time(0))
	}
	for _, id := range msg.ManagementIDs() {
		ask(mgmt.Request{ID: id})
	}
	ask(mgmt.Request{ID: 0x1234})
	ask(mgmt.Request{Action: msg.Set, ID: msg.IDPriority1, Data: &msg.Octet{Value: 1}})
	ask(mgmt.Request{Action: msg.Command, ID: msg.IDDisablePort})
	return m.messages
}

// The stock dissector finds nothing malformed in any message that this house
// encodes, over any transport, nor a wrong checksum.
func TestDissectorReadsPTP(t *testing.T) {
	t.Parallel()
	if err := Available(); err != nil {
		t.Fatal(err)
	}
	p := &ptpFrames{}
	p.file = (&pcapng.Section{}).AppendTo(p.file)
	p.file = (&pcapng.Interface{LinkType: pcapng.LinkEthernet, Name: "ptp"}).AppendTo(p.file)
	source := msg.PortIdentity{Clock: msg.IdentityOf(ptpMAC), Port: 1}
	for name, port := range ptpPorts {
		for typ := range msg.Type(16) {
			if typ.Len() > 0 && typ != msg.Management {
				m := msg.Message{Header: msg.Header{Type: typ, Source: source, Control: typ.Control()}, Timestamp: msg.Timestamp{Seconds: 1}}
				f := port.Append(nil, m.Append(nil), transport.Addr{}, ether.Addr{})
				if typ == msg.Sync {
					edited, _ := transport.Find(f)
					edited.AddCorrection(12345 << 16)
					edited.SetTimestamp(msg.Timestamp{Seconds: 1_700_000_000, Nanoseconds: 999_999_999})
				}
				p.add(name+" "+typ.String(), f)
			}
		}
		for what, m := range ptpTLVs() {
			m.Source, m.Control = source, m.Type.Control()
			p.add(name+" "+what, port.Append(nil, m.Append(nil), transport.Addr{}, ether.Addr{}))
		}
		for i, b := range ptpManagement(t) {
			p.add(fmt.Sprintf("%s management %d", name, i), port.Append(nil, b, transport.Addr{}, ether.Addr{}))
		}
	}
	file := filepath.Join(t.TempDir(), "ptp.pcapng")
	if err := os.WriteFile(file, p.file, 0o600); err != nil {
		t.Fatal(err)
	}
	rows, err := Fields(t.Context(), file, Options{}, "_ws.malformed", "_ws.expert.message", "ip.checksum.status", "udp.checksum.status", "ptp.v2.messagelength")
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(p.names) || len(rows) < 300 {
		t.Fatalf("tshark sees %d frames of %d", len(rows), len(p.names))
	}
	for i, r := range rows {
		udp := strings.HasPrefix(p.names[i], "UDP")
		if r[0] != "" || r[1] != "" || (udp && r[3] != "1") || (strings.HasPrefix(p.names[i], "UDPv4") && r[2] != "1") || r[4] == "" {
			t.Errorf("%s: %q", p.names[i], r)
		}
	}
	meansWhatWasMeant(t, file)
}

// meansWhatWasMeant compares fields of TLVs with what was encoded.
func meansWhatWasMeant(t *testing.T, file string) {
	t.Helper()
	for _, c := range []struct {
		filter string
		fields []string
		want   []string
	}{
		{"ptp.v2.an.atoi.keyField", []string{"ptp.v2.an.atoi.keyField", "ptp.v2.an.atoi.currentOffset", "ptp.v2.an.atoi.jumpSeconds", "ptp.v2.an.atoi.timeOfNextJump", "ptp.v2.an.atoi.displayName"},
			[]string{"1", "3600", "-7200", "000200000000", "CET,CET"}},
		{"ptp.v2.an.oe.networkTimeInaccuracy", []string{"ptp.v2.an.oe.grandmasterID", "ptp.v2.an.oe.grandmasterTimeInaccuracy", "ptp.v2.an.oe.networkTimeInaccuracy"}, []string{"254", "50", "200"}},
		{"ptp.v2.an.oe.totalTimeInaccuracy", []string{"ptp.v2.an.oe.grandmasterID", "ptp.v2.an.oe.totalTimeInaccuracy"}, []string{"3", "250"}},
		{"ptp.v2.sig.tlv.renewalInvited", []string{"ptp.v2.sig.tlv.messageType", "ptp.v2.sig.tlv.logInterMessagePeriod", "ptp.v2.sig.tlv.durationField"}, []string{"0x00,0x09,0x0b,0x00", "-4,0", "60,60"}},
		{"ptp.v2.an.pathsequence", []string{"ptp.v2.an.pathsequence"}, []string{"0x020000fffe000001,0x020000fffe000001"}},
	} {
		rows, err := Fields(t.Context(), file, Options{Filter: c.filter}, c.fields...)
		if err != nil || len(rows) != len(ptpPorts) {
			t.Errorf("%s: %d frames, %v", c.filter, len(rows), err)
			continue
		}
		for _, r := range rows {
			if !slices.Equal(r, c.want) {
				t.Errorf("%s: %q, want %q", c.filter, r, c.want)
			}
		}
	}
}
