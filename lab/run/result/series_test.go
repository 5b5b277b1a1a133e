package result

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func example() []Series {
	s := Series{Name: "slave", Tau: time.Second}
	for i := range 12 {
		p := Point{At: time.Duration(i) * time.Second, True: 5, Believed: -2, Delay: 500.25, Freq: -37000.5, State: "SLAVE"}
		switch {
		case i == 0:
			p = Point{True: 1230000, Believed: math.NaN(), Delay: math.NaN(), State: "LISTENING"}
		case i%2 == 0:
			p.True = -5
		}
		s.Points = append(s.Points, p)
	}
	return []Series{s}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCSV(&b, example()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 14 || lines[1] != "slave,0.000000,1230000.000,,,0.000,LISTENING" ||
		lines[3] != "slave,2.000000,-5.000,-2.000,500.250,-37000.500,SLAVE" {
		t.Fatalf("%q", lines)
	}
}

func TestSummaryAndStability(t *testing.T) {
	var b bytes.Buffer
	if err := WriteSummary(&b, example(), 4*time.Second, 100); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("slave SLAVE 5.00 0.00 5.00 5.00 5.00 2.00 2.00 -37000.5 1.0 s")
	lines := strings.Split(b.String(), "\n")
	if got := strings.Fields(lines[1]); strings.Join(got, " ") != strings.Join(want, " ") || !strings.Contains(lines[0], "|err| < 100ns after") {
		t.Errorf("summary\n%s", b.String())
	}
	b.Reset()
	if err := WriteStability(&b, example(), 4*time.Second); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(b.String(), "\n"); len(lines) != 4 || strings.Join(strings.Fields(lines[2]), " ") != "slave 2 s 10.00 0.000 0.0000" {
		t.Errorf("stability\n%s", b.String())
	}
	never := example()
	never[0].Points[11].True = 100
	if _, ok := never[0].Converged(100); ok {
		t.Error("converged at the bound")
	}
}

func TestSVG(t *testing.T) {
	var b, again bytes.Buffer
	if err := WriteSVG(&b, "two clocks", example(), 4*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := WriteSVG(&again, "two clocks", example(), 4*time.Second); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Fatalf("drawn twice, differs: %v", err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"two clocks", "slave, true", "slave, believed", "offset (ns)",
		"#0072B2", "opacity"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the plot does not say %q", want)
		}
	}
	if err := WriteSVG(&b, "nothing", example(), time.Hour); err == nil {
		t.Error("a plot of nothing")
	}
}
