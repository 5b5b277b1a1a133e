package topo

import (
	"cmp"
	"fmt"
	"strings"

	"tapir/lab/conf"
)

// linkDraft is a Link while it is read.
type linkDraft struct {
	*draft
	Link
	impaired
}

func (l *linkDraft) fields() []conf.Field {
	return append([]conf.Field{
		{Name: "between", Node: l.readEnds, Schema: pairOfNodes},
		{Name: "name", Expect: nameExpect + " (default: those of the ends)", Set: conf.Name(&l.Name)},
		{Name: "mtu", Expect: "octets of IP from 576 to 16000 (default 1500, or as much as the ends need)",
			Set: conf.Int(&l.MTU, 576, 16000)},
		l.wireField(&l.Wire),
		conf.Truth("capture", "false: not captured", &l.Capture),
		{Name: "compensate", Expect: "residence: correctionField of PTP event messages grows by how late they leave",
			Schema: conf.Choice("residence"), Set: conf.Choose(&l.Compensate, map[string]bool{"residence": true})},
	}, l.impaired.fields()...)
}

var pairOfNodes = conf.Schema{"type": "array", "items": conf.Schema{"type": "string"}, "minItems": 2, "maxItems": 2}

func (d *draft) addLinks(n conf.Node) error {
	return n.Each(0, "links: expected a list of links, such as [a, b]", func(n conf.Node, _ int) error {
		err := d.addLink(n)
		d.broken = d.broken || err != nil
		return d.note(err)
	})
}

func (d *draft) addLink(n conf.Node) (err error) {
	d.part++
	l := linkDraft{draft: d, Link: Link{Capture: true}}
	if _, brief := n.List(); brief {
		err = l.readEnds(n)
	} else {
		err = conf.Decode(n, "two nodes, such as [a, b], or the settings of a link", l.fields())
	}
	if err != nil {
		return err
	}
	if l.Ends[0] == "" {
		return n.Errorf("a link is `between: [a, b]`")
	}
	l.Name = cmp.Or(l.Name, l.Ends[0]+"-"+l.Ends[1])
	if d.Lab.Link(l.Name) != nil {
		return n.Errorf("two links are called %s: give one a name", l.Name)
	}
	d.later(func() error { return d.checkWire(&l.Link, n) })
	l.Fault, l.Rules, err = l.impaired.finish(d, &l.Link)
	d.Links, d.linkKeys = append(d.Links, l.Link), append(d.linkKeys, n)
	return err
}

func (l *linkDraft) readEnds(n conf.Node) error {
	list, _ := n.List()
	if len(list) != 2 {
		return n.Errorf("expected two nodes, such as [a, b]")
	}
	for i, n := range list {
		if err := l.referAll(&l.Ends[i], n, anyNode); err != nil {
			return err
		}
	}
	return n.ErrorIf(l.Ends[0] == l.Ends[1], "%s: a link joins two nodes", l.Ends[0])
}

// refer reads the name of a node that suits: suits says what is wrong with it.
func (d *draft) refer(name *string, n conf.Node, suits func(*Node) string) error {
	return d.referTo(name, n, suits, false)
}

// referAll is refer for the name of a node, or of an entry with a count.
func (d *draft) referAll(name *string, n conf.Node, suits func(*Node) string) error {
	return d.referTo(name, n, suits, true)
}

// referList is referAll for a name or a list of them, which are joined.
func (d *draft) referList(names *string, n conf.Node, suits func(*Node) string) error {
	list, ok := n.List()
	if !ok {
		return d.referAll(names, n, suits)
	}
	each := make([]string, len(list))
	for i, n := range list {
		if err := d.referAll(&each[i], n, suits); err != nil {
			return err
		}
	}
	*names = strings.Join(each, listSep)
	return n.ErrorIf(len(list) == 0, "expected the name of a node, or a list")
}

func (d *draft) referTo(name *string, n conf.Node, suits func(*Node) string, all bool) error {
	text, ok := n.Text()
	if !ok {
		return n.Errorf("expected the name of a node")
	}
	*name = text
	d.later(func() error {
		one := text
		if all {
			one = d.members(text)[0]
		}
		found := d.Node(one)
		if found == nil || strings.Contains(text, listSep) {
			return n.Errorf("there is no node %s: %s", text,
				conf.OneOf(text, texts(d.Nodes, func(n Node) string { return n.Name })))
		}
		why := suits(found)
		return n.ErrorIf(why != "", "%s: %s", text, why)
	})
	return nil
}

// referLink reads the name of a link.
func (d *draft) referLink(name *string, n conf.Node) error {
	text, ok := n.Text()
	if !ok {
		return n.Errorf("expected the name of a link")
	}
	*name = text
	d.later(func() error {
		names := texts(d.Links, func(l Link) string { return l.Name })
		return n.ErrorIf(d.Lab.Link(text) == nil, "there is no link %s: %s", text, conf.OneOf(text, names))
	})
	return nil
}

func anyNode(*Node) string { return "" }

// hasControl suits a reference to a node that tells what it does.
func hasControl(n *Node) string {
	if n.Kind == Host || n.Kind == Peer {
		return fmt.Sprintf("a %s has no counters of its own: run ip -s link there", n.Kind)
	}
	return isOne(n)
}

// isOne suits a reference to a node that is no card.
func isOne(n *Node) string {
	if n.Kind == Card {
		return "a card: name one of its functions"
	}
	return ""
}

// isNIC suits a reference to a NIC.
func isNIC(n *Node) string {
	if n.Kind == Peer {
		return "a peer has no NIC of ours: programs there find its siw device, without `rdma`"
	}
	if n.Kind != NIC {
		return fmt.Sprintf("a %s has no RDMA: a NIC is needed", n.Kind)
	}
	return ""
}

// hasPrograms suits a reference to a node where programs run.
func hasPrograms(n *Node) string {
	if n.Kind == Switch {
		return "no programs run on a switch"
	}
	return isOne(n)
}
