package topo

import (
	"cmp"
	"slices"

	"tapir/lab/conf"
	"tapir/lab/host/fault"
)

// qpFields name a queue pair.
func (r *ruleDraft) qpFields() []conf.Field {
	return []conf.Field{
		{Name: "nic", Expect: "a NIC", Schema: name, Node: func(n conf.Node) error {
			return r.refer(&r.NIC, n, isNIC)
		}},
		{Name: "qpn", Expect: qpnExpect, Schema: conf.Schema{"type": "integer"}, Set: r.setQPN},
	}
}

const qpnExpect = "the number of a QP, from 1, as `tapir show NIC qp` has it"

func qpSchema() conf.Schema {
	mapping := conf.Object(new(ruleDraft).qpFields(), "nic", "qpn")
	return conf.Schema{"anyOf": []conf.Schema{{"type": "integer"}, mapping}}
}

// readQP reads the number of a queue pair, or a mapping that says whose it is.
func (r *ruleDraft) readQP(n conf.Node) error {
	if text, brief := n.Text(); brief {
		return n.ErrorIf(r.setQPN(text) != nil, "qp: expected %s, or such as {nic: a, qpn: 5}", qpnExpect)
	}
	err := conf.Decode(n, "a QP, such as {nic: a, qpn: 5}", r.qpFields())
	return cmp.Or(err, n.ErrorIf(r.QPN == 0, "qp: say which: qpn"))
}

func (r *ruleDraft) setQPN(s string) error { return conf.Number(&r.QPN, 1, 1<<24-1)(s) }

// finishQP completes a number that stands alone: it is of the NIC at the end
// that from names.
func (r *ruleDraft) finishQP(entries []conf.Entry) {
	if r.QPN == 0 || r.NIC != "" || r.From == fault.Either {
		return
	}
	r.NIC = r.ends[r.From]
	key := entries[slices.IndexFunc(entries, func(e conf.Entry) bool { return e.Name == "qp" })].Key
	nic := r.NIC
	r.later(func() error {
		of := r.Node(nic)
		return key.ErrorIf(of == nil || of.Kind != NIC, "qp: %s is no NIC: say whose it is, such as {nic: a, qpn: %d}",
			nic, r.QPN)
	})
}
