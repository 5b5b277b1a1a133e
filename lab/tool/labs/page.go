package labs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tapir/lab/tool/ui"
	"tapir/lab/topo"
)

// watch has run run the lab while a page shows it: a lab of the real clock as it runs, and
// any when it has ended, as it was recorded, until ctx ends. A lab of the real clock begins
// when the page has been opened.
func (o *One) watch(ctx context.Context, run func() error) error {
	lab, w := o.Lab, o.Print
	if o.Out == "" {
		dir, err := os.MkdirTemp("", "tapir-record")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.Out = dir
		os.Args = append(os.Args, "--out="+dir) // for this program in a user namespace
	}
	page, err := ui.Listen("127.0.0.1:0", ui.Options{Version: o.Version})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- page.Serve(ctx) }()
	if lab.Clock == topo.Real {
		fmt.Fprintf(w, "ready %s\nThe lab begins when the page is opened.\n", page.URL())
		select {
		case <-page.Opened():
		case <-ctx.Done():
			return <-served
		}
	}
	err = run()
	if _, lost := os.Stat(filepath.Join(o.Out, "result.json")); lost != nil { // it never began
		return err
	}
	page.Replay(o.Out)
	if lab.Clock != topo.Real {
		fmt.Fprintln(w, "ready", page.URL())
	}
	fmt.Fprintln(w, "The page shows the record until Ctrl-C.")
	return errors.Join(err, <-served)
}
