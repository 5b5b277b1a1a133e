package storage

import "tapir/nic/fastlinq/status"

// Params are what the parameters of storage functions have in common. All are set.
type Params struct {
	Target    bool // is_target: sessions are those of targets
	Conns     int  // num_cons
	Tasks     int  // num_tasks, of all connections together
	ConnTasks int  // of a connection
	SQPages   int  // of a connection's send queue
	Queues    int  // completion queues
	// CQEntries, RQEntries and CmdQEntries are the sizes of the queues that connections
	// share.
	CQEntries, RQEntries, CmdQEntries int
}

// Limits of a function.
const (
	MaxConns  = 1024
	MaxQueues = 16
)

// size is that of a queue that connections share.
func (p *Params) size(k Kind) int {
	return [PerQueue]int{CQ: p.CQEntries, RQ: p.RQEntries, CmdQ: p.CmdQEntries}[k]
}

// PagesNeeded are those of a send queue that holds the tasks of a connection.
func (p *Params) PagesNeeded() int { return (p.ConnTasks + PerPage - 1) / PerPage }

// Validate refuses what contradicts itself. pages is how the parameter SQPages is called. INVAL.
func (p *Params) Validate(pages string) error {
	switch {
	case p.ConnTasks > p.Tasks:
		return status.Inval.Errorf("%d tasks of a connection: the function has %d", p.ConnTasks, p.Tasks)
	case p.SQPages < p.PagesNeeded():
		return status.Inval.Errorf("%s %d: %d tasks of %d octets need %d pages", pages, p.SQPages, p.ConnTasks,
			EntrySize, p.PagesNeeded())
	case p.CmdQEntries > p.Tasks:
		return status.Inval.Errorf("cmdq_num_entries %d: the function has %d tasks", p.CmdQEntries, p.Tasks)
	}
	return nil
}
