package ptprun

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"tapir/ptp"
	"tapir/ptp/msg"
)

// WriteText writes the report as lines for people.
func (r *Report) WriteText(w io.Writer) {
	for _, e := range r.Events {
		fmt.Fprintf(w, "%8.3f port 1: %s\n", r.Elapsed.Seconds(), e)
	}
	fmt.Fprintf(w, "%8.3f %s", r.Elapsed.Seconds(), r.State)
	if r.Samples > 0 {
		fmt.Fprintf(w, " %s rms %.0f max %.0f freq %+.0f delay %.0f", r.Servo, r.RMS, r.Max, r.Freq+0, r.Delay)
	}
	fmt.Fprintf(w, " true offset %d\n", r.TrueOffset)
}

var mechanisms = map[msg.DelayMechanism]string{msg.DelayE2E: "E2E", msg.DelayP2P: "P2P"}

// WriteText writes the status as a list for people.
func (s *Status) WriteText(w io.Writer) error {
	rows := []row{
		{"clock", s.NIC + " " + time.Unix(0, s.Clock.Time).UTC().Format("2006-01-02 15:04:05.000000000")},
		rowf("true offset", "%d ns", s.Clock.TrueOffset),
		rowf("correction", "%+.3f ppb (drift register %#08x)", s.Clock.Correction, s.Clock.DriftNow),
		rowf("true rate", "%+.3f ppb", s.Clock.TrueRate),
	}
	if u := s.Unit; u != nil {
		rows = append(rows, rowf("PTP unit",
			"owner %s, tx %v, rx filter %v, %d Tx stamps, %d skipped, %d Rx stamps, %d missed",
			cmp.Or(s.Owner, "nobody"), u.Config.TxType, u.Config.Filter,
			u.Stats.TxStamps, u.Stats.TxSkipped, u.Stats.RxStamps, u.Stats.RxMissed))
	}
	if s.Instance != nil {
		rows = append(rows, s.instanceRows()...)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\n", r.name, r.text)
	}
	return tw.Flush()
}

// row is a line of a list for people.
type row struct{ name, text string }

func rowf(name, format string, args ...any) row { return row{name, fmt.Sprintf(format, args...)} }

func (s *Status) instanceRows() []row {
	i := s.Instance
	gm, cur := &i.Parent.Grandmaster, &i.Current
	rows := []row{
		rowf("instance", "%s over %s, clock %v, domain %d, priorities %d and %d",
			i.Profile, s.Transport, i.ClockIdentity, i.Domain, i.Default.Priority1, i.Default.Priority2),
		rowf("grandmaster", "%v, class %d, accuracy %#x, priorities %d and %d",
			gm.Identity, gm.Quality.Class, gm.Quality.Accuracy, gm.Priority1, gm.Priority2),
		rowf("parent", "%v, %d steps removed", i.Parent.Port, cur.StepsRemoved),
		rowf("offset from master", "%v", cur.OffsetFromMaster),
		rowf("mean path delay", "%v", cur.MeanDelay),
		rowf("servo", "%s %s, %+.0f ppb", i.Servo.Kind, i.Servo.State, i.Servo.Freq+0), // not -0
	}
	for _, p := range i.Ports {
		fault := ""
		if p.Fault != "" {
			fault = ", last fault: " + p.Fault
		}
		rows = append(rows, rowf(fmt.Sprintf("port %d", p.Port),
			"%s, delay mechanism %s, link delay %v, %d foreign masters%s",
			p.StateName, cmp.Or(mechanisms[p.Mechanism], "none"), p.LinkDelay, p.Foreign, fault))
		if c := p.Corrections; c != (ptp.CorrectionFields{}) {
			rows = append(rows, rowf("  correctionField", "Sync %v, Follow_Up %v, Delay_Resp %v, Pdelay_Resp %v + %v",
				c.Sync, c.FollowUp, c.DelayResp, c.PdelayResp, c.PdelayRespFollowUp))
		}
		rows = append(rows, counters(p.Counters)...)
	}
	return append(append(rows, row{name: "management"}), counters(s.Management)...)
}

// counters are those that are not zero.
func counters(list []ptp.Counter) (rows []row) {
	for _, c := range list {
		if c.Value != 0 {
			rows = append(rows, rowf("  "+c.Name, "%d", c.Value))
		}
	}
	return rows
}
