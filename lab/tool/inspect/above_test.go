package inspect_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tapir/lab/tool/inspect"
)

// aboveLab is a disk by RDMA that is written and read, over a link that loses, doubles and reorders.
const aboveLab = `
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, personality: PERSONALITY}
  b: {kind: nic, ip: 10.0.0.2/24, personality: PERSONALITY}
links: [{between: [a, b], delay: 50us}]
steps:
  - {run: SERVE, on: a, name: target, background: true}
  - wait: {step: target, output: serves}
  - {fault: a-b, delay: 50us, loss: LOSS, reorder: LOSS, duplicate: LOSS}
  - {run: WRITE --size 256K --length 256K --seed 5, on: b}
  - {run: VERIFY --size 4K --length 256K --seed 5, on: b}
`

var aboveCommands = map[string][]string{
	"NVMe": {"SERVE", "tapir nvme target a --lun mem:8M",
		"WRITE", "tapir nvme initiator write b nvme://10.0.0.1/nqn.2026-11.tapir:a/1",
		"VERIFY", "tapir nvme initiator verify b nvme://10.0.0.1/nqn.2026-11.tapir:a/1"},
	"iSER": {"SERVE", "tapir iscsi target a --lun mem:8M --iser",
		"WRITE", "tapir iscsi initiator write b iser://10.0.0.1/iqn.2026-11.tapir:a/0",
		"VERIFY", "tapir iscsi initiator verify b iser://10.0.0.1/iqn.2026-11.tapir:a/0"},
}

func aboveTrace(t *testing.T, program, personality, loss, end string) ([]inspect.Packet, []string) {
	t.Helper()
	words := append([]string{"PERSONALITY", personality, "LOSS", loss}, aboveCommands[program]...)
	return labTrace(t, strings.NewReplacer(words...).Replace(aboveLab), end)
}

// TestAboveTraces: what our NVMe and iSER say over both transports breaks no rule at either end of a bad link, and a
// worse capture of it no rule above RDMA.
func TestAboveTraces(t *testing.T) {
	t.Parallel()
	for program, message := range map[string]string{"NVMe": "NVMe Write", "iSER": "SCSI Command"} {
		for _, personality := range []string{"iwarp", "roce"} {
			for _, end := range []string{"a-b:a", "a-b:b"} {
				list, _ := aboveTrace(t, program, personality, "1%", end)
				for k := range list { // no two packets of a NIC are on the wire at once
					list[k].Time += int64(k)
				}
				r := inspect.Judge(list)
				commands, agreed := 0, false
				for _, f := range r.Flows {
					for _, s := range f.Sides {
						commands += s.Messages[message]
					}
					agreed = agreed || strings.Contains(f.Agreed, program)
				}
				if v := r.Verdict(); v != inspect.Clean || commands == 0 || !agreed {
					t.Errorf("%s, %s, %s: %v, %d commands: %v", program, personality, end, v, commands, r.First())
					for _, f := range r.Findings {
						t.Error(f)
					}
				}
				for seed := range uint64(3) {
					for worse, list := range inspect.Degraded(rand.New(rand.NewPCG(seed, 7145)), list) {
						for _, f := range inspect.Judge(list).Findings {
							if !f.Note && !strings.HasPrefix(f.Clause, "IBTA") {
								t.Errorf("%s, %s, %s, %v, seed %d: %v", program, personality, end, worse, seed, f)
							}
						}
					}
				}
			}
		}
	}
}
