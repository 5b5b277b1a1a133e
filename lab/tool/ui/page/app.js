// The page: what runs on the left, and one view of it. The address names the view.

import { Clocks } from "./clocks.js";
import { Device } from "./device.js";
import { bySeries, count, dark, el, follow, get, nanoseconds, short, theme } from "./dom.js";
import { Exchange } from "./exchange.js";
import { Replay } from "./replay.js";
import { overview as labs } from "./told.js";
import { Topology } from "./topology.js";

const $ = (id) => document.getElementById(id);
const state = { nodes: [], links: [], view: null, name: "", id: "", rates: new Map(), before: null, at: 0 };
const views = [["topology", "Topology"], ["node", "Device"], ["clocks", "Clocks"], ["exchange", "Ladder"]];

function address(name, id) { return "#" + name + (id ? "/" + encodeURIComponent(id) : ""); }

// route shows what the address names.
function route() {
	const [name, id, link] = location.hash.slice(1).split("/");
	state.name = views.some((v) => v[0] === name) ? name : "topology";
	state.id = id ? decodeURIComponent(id) : "";
	state.link = link ? decodeURIComponent(link) : "";
	if (["node", "exchange"].includes(state.name) && !state.id) {
		state.id = state.nodes.find((n) => n.pid)?.id || "";
	}
	state.view?.stop?.();
	state.view = make();
	$("main").replaceChildren(state.view.root);
	for (const a of $("views").children) {
		if (a.dataset.view === state.name) a.setAttribute("aria-current", "page");
		else a.removeAttribute("aria-current");
		a.href = address(a.dataset.view, ["node", "exchange"].includes(a.dataset.view) ? state.id : "");
	}
	watch();
	show();
}

function make() {
	if (state.name === "clocks") return new Clocks();
	if (state.name === "topology") {
		const t = new Topology(chosen, (l) => { location.hash = address("node", l.lab) + "/" + encodeURIComponent(l.title); });
		t.again = show;
		return t;
	}
	if (!state.id) return { root: el("p", { class: "note" }, "Nothing runs. Start a NIC: tapir nic --tap tap0 --ip 10.0.0.1/24") };
	return state.name === "node" ? new Device(state.id, about(state.id)) : new Exchange(state.id);
}

// chosen shows a node; one without a process is shown by its lab.
function chosen(id) {
	const n = state.nodes.find((x) => x.id === id);
	location.hash = address("node", n && !n.pid && n.lab ? n.lab : id);
}

// about is what can be done with a node beside what its parameters say.
function about(id) {
	const node = state.nodes.find((n) => n.id === id);
	return {
		others: () => others(id), lab: node?.kind === "lab", link: state.link,
		links: () => state.links.filter((l) => l.lab === id).map((l) => l.name),
		nodes: () => state.nodes.filter((n) => n.lab === id).map((n) => n.name).sort(),
	};
}

function others(id) {
	return state.nodes.filter((n) => n.id !== id && ["nic", "target"].includes(n.kind) && n.addrs?.length).map((n) => n.id);
}

// watch follows the overview, with clocks if they are shown.
function watch() {
	const clocks = state.name === "clocks";
	if (state.watching === clocks) return;
	state.unwatch?.();
	state.watching = clocks;
	state.unwatch = follow("overview", clocks ? { clocks: 1 } : {}, { overview, record: () => location.replace("."), lost: () => { $("state").textContent = "tapir ui has ended"; } });
}

function overview(o) {
	const seconds = (o.at_ms - state.at) / 1000;
	const before = new Map(state.nodes.map((n) => [n.id, n]));
	state.rates = new Map(o.nodes.filter((n) => before.has(n.id) && seconds > 0).map((n) => {
		const b = before.get(n.id), per = (key) => Math.max(0, n[key] - b[key]) / seconds;
		return [n.id, { rx: 8 * per("rx_bytes"), tx: 8 * per("tx_bytes"), drops: per("drops") }];
	}));
	const first = state.at === 0, was = new Map(state.links.map((l) => [l.lab + "/" + l.name, l]));
	for (const l of o.links) {
		const b = was.get(l.lab + "/" + l.name);
		l.rate = b && l.state && seconds > 0 ? Math.max(0, l.octets - b.octets) * 8 / seconds : 0;
		l.losing = b && l.state && seconds > 0 ? Math.max(0, l.lost - b.lost) / seconds : 0;
	}
	[state.nodes, state.links, state.at] = [o.nodes, o.links, o.at_ms];
	$("state").textContent = count(o.nodes.length, "node");
	list();
	if (state.name === "clocks") state.view.show(o.at_ms, o.nodes);
	if (first && ["node", "exchange"].includes(state.name) && !state.view.stop) route();
	show();
}

function show() {
	if (state.name !== "topology" || state.at === 0) return;
	const rate = (id) => state.rates.get(id) || { rx: 0, tx: 0, drops: 0 };
	// What passes a link is told by an end that has no other.
	const degree = new Map();
	for (const l of state.links) for (const id of [l.a, l.b]) degree.set(id, (degree.get(id) || 0) + 1);
	state.view.show(state.nodes.filter((n) => n.kind !== "lab").map((n) => {
		const r = rate(n.id);
		return {
			id: n.id, name: n.name, kind: n.kind, rate: r.rx + r.tx, bad: r.drops > 0,
			text: r.drops > 0 ? short(r.drops, "drops/s") : r.rx + r.tx > 0 ? `↓${short(r.rx, "b/s")} ↑${short(r.tx, "b/s")}` : n.addrs?.[0] || n.kind,
		};
	}), state.links.map((l) => {
		if (l.state) return ofLab(l);
		const end = [l.a, l.b].find((id) => degree.get(id) === 1 && state.rates.has(id));
		const r = end ? rate(end) : { rx: 0, tx: 0, drops: 0 };
		return {
			a: l.a, b: l.b, fabric: l.fabric, busy: r.rx + r.tx > 0, bad: r.drops > 0,
			text: r.rx + r.tx > 0 ? short(r.rx + r.tx, "b/s") : "", title: l.name || "neighbors",
		};
	}));
}

// ofLab is a link that tells what it does: its rate, what it loses, and how late frames leave.
function ofLab(l) {
	const words = [l.state === "down" ? "down" : l.rate > 0 ? short(l.rate, "b/s") : ""];
	if (l.losing > 0) words.push(short(l.losing, "lost/s"));
	if (l.late_us_p99 >= 100) words.push(nanoseconds(1000 * l.late_us_p99) + " late");
	return {
		a: l.a, b: l.b, fabric: l.fabric, lab: l.lab, busy: l.rate > 0, bad: l.losing > 0 || l.state === "down", title: l.name,
		text: words.filter(Boolean).join(", "),
		more: `faults: ${l.fault}\nlost or refused: ${l.lost}, otherwise struck: ${l.struck}\nlate: half ${nanoseconds(1000 * l.late_us_p50)}, ` +
			`99 % ${nanoseconds(1000 * l.late_us_p99)}, 99.9 % ${nanoseconds(1000 * l.late_us_p999)}, at most ${nanoseconds(1000 * l.late_us_max)}`,
	};
}

// list draws the names on the left; long series are folded.
function list() {
	const word = $("filter").value.toLowerCase();
	const nodes = state.nodes.filter((n) => n.id.toLowerCase().includes(word));
	const key = JSON.stringify([word, nodes.map((n) => n.id), state.id]);
	if (key !== state.listed) {
		state.listed = key;
		const folded = new Set();
		const items = [];
		const series = word ? new Map() : bySeries(nodes.map((n) => n.id), 9);
		for (const ids of series.values()) for (const id of ids) folded.add(id);
		for (const n of nodes) if (!folded.has(n.id)) items.push(item(n));
		for (const [name, ids] of series) {
			items.push(el("li", {}, el("details", { open: ids.includes(state.id) }, el("summary", {}, `${name}* (${ids.length})`),
				el("ul", {}, ids.map((id) => item(nodes.find((n) => n.id === id)))))));
		}
		$("nodes").replaceChildren(...items);
	}
	for (const a of $("nodes").querySelectorAll("a")) {
		const r = state.rates.get(a.dataset.id);
		a.querySelector("small").textContent = r && r.rx + r.tx > 0 ? short(r.rx + r.tx, "b/s") : a.dataset.kind;
	}
}

function item(n) {
	const at = state.name === "exchange" ? "exchange" : "node";
	return el("li", {}, n.pid ? el("a", {
		href: address(at, n.id), "data-id": n.id, "data-kind": n.kind, "aria-current": n.id === state.id ? "true" : null,
	}, el("span", {}, n.id), el("small", {}, n.kind)) : el("span", { class: "note" }, `${n.id} (${n.kind})`));
}

// next goes to a node further down the list, or up.
function next(by) {
	const all = [...$("nodes").querySelectorAll("a")];
	const i = all.findIndex((a) => a.dataset.id === state.id);
	const to = all[Math.min(Math.max(i + by, 0), all.length - 1)];
	if (to) location.hash = to.hash;
}

function keys(e) {
	const typing = e.target.closest("input:not([type=checkbox]):not([type=range]), select, textarea");
	if (e.key === "Escape" && typing) typing.blur();
	if (typing || e.ctrlKey || e.altKey || e.metaKey) return;
	const act = {
		j: () => next(1), k: () => next(-1), d: dark, "?": () => $("help").showModal(),
		"/": () => $("filter").focus(),
	}[e.key] || (views[e.key - 1] && (() => $("views").children[e.key - 1]?.click()));
	if (!act) return;
	e.preventDefault();
	act();
}

async function start() {
	theme();
	$("theme").addEventListener("click", dark);
	$("keys").addEventListener("click", () => $("help").showModal());
	$("filter").addEventListener("input", list);
	document.addEventListener("keydown", keys);
	const data = $("data"); // of a report, which has no server
	$("documents").hidden = !!data;
	if (data) return report(JSON.parse(data.textContent).records);
	const about = await get("about");
	if (about.record) return replay(await get("record"));
	$("views").replaceChildren(...views.map(([name, text]) => el("a", { href: "#" + name, "data-view": name }, text)));
	if (about.open && !location.hash) history.replaceState(null, "", address("node", about.open));
	addEventListener("hashchange", route);
	route();
}

function replay(record, alone) {
	document.body.classList.add("record");
	state.view = new Replay(record, alone);
	$("main").replaceChildren(state.view.root);
	$("state").textContent = alone ? "" : record.name;
}

// report shows one lab, or a list of several.
function report(records) {
	if (records.length === 1) return replay(records[0], true);
	document.body.classList.add("record");
	const shown = el("div");
	$("main").replaceChildren(el("h1", {}, count(records.length, "lab")), labs(records, (i) => {
		state.view = new Replay(records[i], true);
		shown.replaceChildren(state.view.root);
		shown.scrollIntoView();
	}), shown);
}

start().catch((err) => $("main").replaceChildren(el("p", { class: "error" }, err.message)));

export { state };
