package settings

import (
	"cmp"

	"tapir/nic/fastlinq/storage"
	"tapir/nic/param"
	"tapir/nic/verbs"
)

// Defaults of the storage functions: those that the public drivers and the guide have.
const (
	defaultConnTasks = 256
	defaultCQ        = 2048
	defaultRQ        = 16
	defaultTargetRQ  = 128
	maxPages         = 16
)

// Storage are the parameters that storage functions have in common, and how that of the
// completion queues is called; nil: the personality is another one.
func (c *NIC) Storage() (p *storage.Params, queues string) {
	switch c.RDMA {
	case verbs.ISCSI:
		return &new(c.ISCSI.Values()).Params, "num_queues"
	case verbs.FCoE:
		return &new(c.FCoE.Values(c.MTU)).Params, "num_cqs"
	}
	return nil, ""
}

// storageDefaults fills in the parameters that storage functions have in common.
func storageDefaults(p *storage.Params, maxTasks int) {
	p.Conns, p.Tasks = cmp.Or(p.Conns, storage.MaxConns), cmp.Or(p.Tasks, maxTasks)
	p.ConnTasks = cmp.Or(p.ConnTasks, min(defaultConnTasks, p.Tasks))
	p.SQPages = cmp.Or(p.SQPages, p.PagesNeeded())
	p.Queues, p.CQEntries = max(p.Queues, 1), cmp.Or(p.CQEntries, defaultCQ)
	if p.RQEntries == 0 {
		if p.RQEntries = defaultRQ; p.Target {
			p.RQEntries = defaultTargetRQ
		}
	}
	p.CmdQEntries = cmp.Or(p.CmdQEntries, p.Tasks)
}

// storageNames are the words that the settings of a storage function have of their own.
type storageNames struct {
	prefix, function string
	sqPages, queues  string // settings, without the prefix
	element          string // of a send queue
	buffered         string // what receive buffers are for
	commands         string // what the queue of commands bounds
	tasks            int    // at most
}

// storageRows are the settings that storage functions have in common.
func storageRows(p *storage.Params, n *storageNames) []*param.Row {
	row := func(name, help string) param.Row {
		return param.Row{Name: n.prefix + "_" + name, Origin: param.FastLinQ, Help: help}
	}
	return []*param.Row{
		param.Bool(row("is_target",
			"the sessions of the "+n.function+" function are those of targets, else of initiators"), &p.Target, false),
		param.Number(row("num_cons",
			"connections of the "+n.function+" function"), &p.Conns, storage.MaxConns, 1, storage.MaxConns),
		param.Number(row("num_tasks",
			"tasks of the "+n.function+" function, all connections together"), &p.Tasks, n.tasks, 1, n.tasks),
		param.Number(row("conn_tasks",
			"tasks of a connection of the "+n.function+" function; 0: 256, or all if there are fewer"), &p.ConnTasks,
			0, 0, n.tasks),
		param.Number(row(n.sqPages,
			"pages of a send queue, each with 512 "+n.element+"s; 0: as many as "+n.prefix+"_conn_tasks need"),
			&p.SQPages, 0, 0, maxPages),
		param.Number(row(n.queues,
			"completion queues, each with a vector of its own"), &p.Queues, 1, 1, storage.MaxQueues),
		param.Number(row("cq_num_entries",
			"entries of a completion queue"), &p.CQEntries, defaultCQ, 16, 1<<16),
		param.Number(row("rq_num_entries",
			"buffers of a queue for "+n.buffered+"; 0: 16 of an initiator, 128 of a target"), &p.RQEntries, 0, 0, 1024),
		param.Number(row("cmdq_num_entries",
			n.commands+"; 0: as many as there are tasks"),
			&p.CmdQEntries, 0, 0, n.tasks),
	}
}
