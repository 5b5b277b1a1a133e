package vf

import (
	"encoding/json"
	"strings"
	"testing"

	"tapir/nic/fastlinq"
	"tapir/wire/ether"
)

// VFs are printed as ip link show (iproute2 6.1) prints those of netdevsim, in text and in
// JSON.
func TestAsIPLink(t *testing.T) {
	rows := []fastlinq.VFRow{
		{VF: 0, MAC: ether.Addr{2, 0, 0, 0, 0, 5}, VLAN: 100, QoS: 3, State: "auto"},
		{VF: 1, MaxTxRate: 300, MinTxRate: 50, State: "disable"},
		{VF: 2, SpoofChk: true, Trust: true, State: "auto"}, {VF: 3, QueryRSS: true, State: "enable"},
	}
	const want = `    vf 0     link/ether 02:00:00:00:00:05 brd ff:ff:ff:ff:ff:ff, vlan 100, qos 3, spoof checking off, link-state auto, trust off, query_rss off
    vf 1     link/ether 00:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff, tx rate 300 (Mbps), max_tx_rate 300Mbps, min_tx_rate 50Mbps, spoof checking off, link-state disable, trust off, query_rss off
    vf 2     link/ether 00:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff, spoof checking on, link-state auto, trust on, query_rss off
    vf 3     link/ether 00:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff, spoof checking off, link-state enable, trust off, query_rss on
`
	if got := Text("eth1", "a6:65:15:79:c6:fa", 1500, rows); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s", got)
	}
	b, err := json.Marshal(linkOf(pf{}, rows[1:2]).VFs)
	const asJSON = `[{"vf":1,"link_type":"ether","address":"00:00:00:00:00:00","broadcast":"ff:ff:ff:ff:ff:ff","vlan_list":[{}],"tx_rate":300,"rate":{"max_tx":300,"min_tx":50},"spoofchk":false,"link_state":"disable","trust":false,"query_rss_en":false}]`
	if err != nil || string(b) != asJSON {
		t.Errorf("%s: %v", b, err)
	}
}
