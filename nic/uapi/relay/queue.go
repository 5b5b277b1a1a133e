package relay

import "sync"

// queue runs functions one after the other on a goroutine of its own.
type queue struct {
	mu    sync.Mutex
	news  sync.Cond
	fns   []func()
	over  bool
	ended chan struct{}
}

func (q *queue) init() {
	q.news.L = &q.mu
	q.ended = make(chan struct{})
	go q.run()
}

func (q *queue) add(fn func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fns = append(q.fns, fn)
	q.news.Signal()
}

// end returns when all that was added has run.
func (q *queue) end() {
	q.mu.Lock()
	q.over = true
	q.news.Signal()
	q.mu.Unlock()
	<-q.ended
}

func (q *queue) run() {
	defer close(q.ended)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.fns) == 0 {
			if q.over {
				return
			}
			q.news.Wait()
		}
		fns := q.fns
		q.fns = nil
		q.mu.Unlock()
		for _, fn := range fns {
			fn()
		}
		q.mu.Lock()
	}
}
