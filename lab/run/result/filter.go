package result

import (
	"context"
	"io"
	"os"
	"sync"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/tshark"
	"tapir/lab/topo"
)

// Filter counts the frames of a link in a lab's complete capture that the
// condition's display filter lets through.
func Filter(ctx context.Context, lab string, c *topo.Condition) error {
	in, err := os.Open(lab)
	if err != nil {
		return err
	}
	defer in.Close()
	link, feed := io.Pipe()
	var fed sync.WaitGroup
	fed.Go(func() {
		_, err := capture.Select(feed, in, capture.Entering(c.Link))
		feed.CloseWithError(err)
	})
	defer fed.Wait()
	defer link.Close()
	// The dissector of RPC guesses that short Sends are its own.
	rows, err := tshark.Fields(ctx, tshark.Input, tshark.Options{Input: link, Filter: c.Filter,
		Disable: []string{"rpcordma"}}, "frame.number")
	if err != nil {
		return err
	}
	return c.Bounds(uint64(len(rows)))
}
