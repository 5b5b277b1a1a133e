package node

import "sync"

// Cards are devices with several functions that run in one process.
type Cards struct {
	mu  sync.Mutex
	all map[any]any
}

// NewCards returns none.
func NewCards() *Cards { return &Cards{all: map[any]any{}} }

// Get returns the device of a configuration, or what start makes.
func (c *Cards) Get(config any, start func() (any, error)) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.all[config]; d != nil {
		return d, nil
	}
	d, err := start()
	if err == nil {
		c.all[config] = d
	}
	return d, err
}

// Forget takes a device that has ended out.
func (c *Cards) Forget(config any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, config)
}
