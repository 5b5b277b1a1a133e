// SPDX-License-Identifier: GPL-2.0
// dcbops gives an interface the operations of dcbnl that its driver lacks, so that lldpad
// negotiates DCBX on it. They keep what they are told: dcb(8) shows it. What CEE DCBX sets
// shows there, too, as the tables of IEEE that do the same.
#include <linux/bitops.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/dcbnl.h>
#include <net/net_namespace.h>

static char *dev = "eth0";
module_param(dev, charp, 0444);

static struct net_device *port;
static const struct dcbnl_rtnl_ops *before;
static u8 mode = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE | DCB_CAP_DCBX_VER_CEE;
static struct ieee_ets ets;
static struct ieee_pfc pfc;
static u8 state, pfc_state;

// The priority groups of CEE, which take effect with setall.
#define STRICT_GROUP 15
static u8 group[IEEE_8021QAZ_MAX_TCS], bandwidth[IEEE_8021QAZ_MAX_TCS], lossless;

static int get_ets(struct net_device *d, struct ieee_ets *e)
{
	*e = ets;
	e->ets_cap = IEEE_8021QAZ_MAX_TCS;
	return 0;
}

static int set_ets(struct net_device *d, struct ieee_ets *e)
{
	ets = *e;
	return 0;
}

static int get_pfc(struct net_device *d, struct ieee_pfc *p)
{
	*p = pfc;
	p->pfc_cap = IEEE_8021QAZ_MAX_TCS;
	return 0;
}

static int set_pfc(struct net_device *d, struct ieee_pfc *p)
{
	pfc = *p;
	return 0;
}

static u8 get_dcbx(struct net_device *d)
{
	return mode;
}

static u8 set_dcbx(struct net_device *d, u8 to)
{
	if (!(to & DCB_CAP_DCBX_HOST))
		return 1;
	mode = to;
	return 0;
}

static u8 get_state(struct net_device *d)
{
	return state;
}

static u8 set_state(struct net_device *d, u8 to)
{
	state = to;
	return 0;
}

static void get_address(struct net_device *d, u8 *to)
{
	memcpy(to, d->dev_addr, ETH_ALEN);
}

static u8 get_cap(struct net_device *d, int which, u8 *to)
{
	switch (which) {
	case DCB_CAP_ATTR_PG:
	case DCB_CAP_ATTR_PFC:
	case DCB_CAP_ATTR_UP2TC:
		*to = 1;
		break;
	case DCB_CAP_ATTR_PG_TCS:
	case DCB_CAP_ATTR_PFC_TCS:
		*to = 1 << (IEEE_8021QAZ_MAX_TCS - 1);
		break;
	case DCB_CAP_ATTR_DCBX:
		*to = mode;
		break;
	default:
		*to = 0;
	}
	return 0;
}

static int get_classes(struct net_device *d, int which, u8 *to)
{
	*to = IEEE_8021QAZ_MAX_TCS;
	return 0;
}

static u8 get_pfc_state(struct net_device *d)
{
	return pfc_state;
}

static void set_pfc_state(struct net_device *d, u8 to)
{
	pfc_state = to;
}

// lldpad gives the priorities of a class as a bitmap, and its group.
static void set_class(struct net_device *d, int tc, u8 type, u8 pg, u8 percent, u8 priorities)
{
	int i;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		if (priorities & BIT(i))
			group[i] = type == 2 ? STRICT_GROUP : pg; // 2: link strict
}

static void get_class(struct net_device *d, int tc, u8 *type, u8 *pg, u8 *percent, u8 *priorities)
{
	*type = *pg = *percent = *priorities = 0;
}

static void set_bandwidth(struct net_device *d, int pg, u8 to)
{
	if (pg >= 0 && pg < IEEE_8021QAZ_MAX_TCS)
		bandwidth[pg] = to;
}

static void get_bandwidth(struct net_device *d, int pg, u8 *to)
{
	*to = pg >= 0 && pg < IEEE_8021QAZ_MAX_TCS ? bandwidth[pg] : 0;
}

static void set_priority(struct net_device *d, int priority, u8 to)
{
	if (to)
		lossless |= BIT(priority);
	else
		lossless &= ~BIT(priority);
}

static void get_priority(struct net_device *d, int priority, u8 *to)
{
	*to = !!(lossless & BIT(priority));
}

static u8 set_all(struct net_device *d)
{
	int i;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		ets.tc_tx_bw[i] = bandwidth[i];
		ets.tc_tsa[i] = bandwidth[i] ? IEEE_8021QAZ_TSA_ETS : IEEE_8021QAZ_TSA_STRICT;
		ets.prio_tc[i] = min_t(u8, group[i], IEEE_8021QAZ_MAX_TCS - 1);
	}
	pfc.pfc_en = pfc_state ? lossless : 0;
	return 0;
}

// An application of CEE has a set of priorities, and as its selector 0 for an EtherType
// and 1 for a port; IEEE has 1 and 4.
static struct dcb_app of_cee(u8 selector, u16 protocol)
{
	return (struct dcb_app){
		.selector = selector ? IEEE_8021QAZ_APP_SEL_ANY : IEEE_8021QAZ_APP_SEL_ETHERTYPE,
		.protocol = protocol,
	};
}

static int set_app(struct net_device *d, u8 selector, u16 protocol, u8 priorities)
{
	struct dcb_app app = of_cee(selector, protocol);
	u8 had = dcb_ieee_getapp_mask(d, &app);
	int i;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		app.priority = i;
		if (had & ~priorities & BIT(i))
			dcb_ieee_delapp(d, &app);
		else if (priorities & ~had & BIT(i))
			dcb_ieee_setapp(d, &app);
	}
	return 0;
}

static int get_app(struct net_device *d, u8 selector, u16 protocol)
{
	struct dcb_app app = of_cee(selector, protocol);

	return dcb_ieee_getapp_mask(d, &app);
}

static const struct dcbnl_rtnl_ops ops = {
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_setapp = dcb_ieee_setapp,
	.ieee_delapp = dcb_ieee_delapp,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
	.getstate = get_state,
	.setstate = set_state,
	.getpermhwaddr = get_address,
	.getcap = get_cap,
	.getnumtcs = get_classes,
	.getpfcstate = get_pfc_state,
	.setpfcstate = set_pfc_state,
	.setpgtccfgtx = set_class,
	.setpgtccfgrx = set_class,
	.getpgtccfgtx = get_class,
	.getpgtccfgrx = get_class,
	.setpgbwgcfgtx = set_bandwidth,
	.setpgbwgcfgrx = set_bandwidth,
	.getpgbwgcfgtx = get_bandwidth,
	.getpgbwgcfgrx = get_bandwidth,
	.setpfccfg = set_priority,
	.getpfccfg = get_priority,
	.setall = set_all,
	.setapp = set_app,
	.getapp = get_app,
};

static int __init start(void)
{
	port = dev_get_by_name(&init_net, dev);
	if (!port)
		return -ENODEV;
	rtnl_lock();
	before = port->dcbnl_ops;
	port->dcbnl_ops = &ops;
	rtnl_unlock();
	return 0;
}

static void __exit end(void)
{
	rtnl_lock();
	port->dcbnl_ops = before;
	rtnl_unlock();
	dev_put(port);
}

module_init(start);
module_exit(end);
MODULE_LICENSE("GPL");
