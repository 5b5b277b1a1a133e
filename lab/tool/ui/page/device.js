// One node: its tables as they change, its events and its log.

import { Act } from "./act.js";
import { count, el, follow, short } from "./dom.js";

// Tables in the order in which people look at them; others follow.
const order = ["nic", "link", "queue", "irq", "qp", "cep", "cq", "mr", "counters", "params", "events", "log", "port",
	"vport", "mac", "member", "vesw", "traffic", "device", "stats"];
const rank = (kind) => order.includes(kind) ? order.indexOf(kind) : order.length;
export const titles = { nic: "Summary", link: "Link", queue: "Queues", irq: "Interrupts", qp: "QPs", cep: "Connections",
	cq: "CQs", mr: "MRs", mw: "MWs", counters: "Counters", params: "Parameters", events: "Events", log: "Log" };
const states = { RTS: "good", ESTABLISHED: "good", MPA_REQ_RCVD: "busy", ERROR: "bad", ERR: "bad", TERMINATE: "bad", SQE: "bad",
	up: "good", down: "bad" };

// How many events and lines of the log are kept.
const most = 2000;

export class Device {
	constructor(id, about) {
		this.id = id;
		this.tables = new Map();
		this.lists = { events: [], log: [] };
		this.last = new Map(); // counters before: name to [value, time]
		this.rates = new Map();
		this.kind = "nic";
		this.act = new Act(id, about);
		this.tabs = el("div", { class: "tabs", role: "tablist", "aria-label": "Tables" });
		this.words = el("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", oninput: () => this.draw() });
		this.nonzero = el("input", { type: "checkbox", checked: true, onchange: () => this.draw() });
		this.zero = el("label", {}, this.nonzero, " without zeros");
		this.body = el("div", { class: "table", role: "tabpanel", tabindex: 0 });
		this.heading = el("h1", {}, id);
		this.root = el("div", {}, this.heading, this.act.root, this.tabs,
			el("div", { class: "bar" }, this.words, this.zero), this.body);
		this.tabs.addEventListener("keydown", (e) => this.keys(e));
		for (const kind of ["events", "log"]) this.tables.set(kind, this.lists[kind]);
		this.stop = follow("node", { id }, {
			hello: (h) => { this.heading.textContent = `${id} `; this.heading.append(el("small", {}, `process ${h.pid}, tapir ${h.version}`)); },
			table: (t) => this.table(t.kind, t.rows),
			events: (rows) => this.more("events", rows),
			log: (rows) => this.more("log", rows),
			problem: (text) => this.root.prepend(el("p", { class: "error" }, text)),
		});
	}

	table(kind, rows) {
		if (kind === "counters") this.rate(rows);
		if (kind === "params") this.act.offer(rows);
		else if (!this.tables.has("params")) this.act.offer([]);
		this.tables.set(kind, rows);
		this.changed(kind);
	}

	more(kind, rows) {
		const list = this.lists[kind];
		list.push(...rows);
		list.splice(0, list.length - most);
		this.changed(kind);
	}

	rate(rows) {
		const now = performance.now();
		for (const c of rows) {
			const before = this.last.get(c.name);
			if (before) this.rates.set(c.name, (c.value - before[0]) * 1000 / (now - before[1]));
			this.last.set(c.name, [c.value, now]);
		}
	}

	changed(kind) {
		const kinds = [...this.tables.keys()].sort((a, b) => rank(a) - rank(b));
		const key = kinds.map((k) => k + this.count(k)).join();
		if (key !== this.key) {
			this.key = key;
			const held = this.tabs.contains(document.activeElement);
			this.tabs.replaceChildren(...kinds.map((k) => el("button", {
				role: "tab", "data-kind": k, "aria-selected": String(k === this.kind), tabindex: k === this.kind ? 0 : -1,
				onclick: () => this.choose(k),
			}, titles[k] || k, el("small", {}, this.count(k)))));
			if (held) this.tabs.querySelector("[aria-selected=true]")?.focus();
		}
		if (kind === this.kind) this.draw();
	}

	count(kind) {
		const rows = this.tables.get(kind);
		return Array.isArray(rows) && !["counters", "params", "link", "mfw", "device", "nvm", "tlv", "stats"].includes(kind) ?
			" " + rows.length : "";
	}

	choose(kind) {
		this.kind = kind;
		this.key = "";
		this.changed(kind);
	}

	keys(e) {
		const all = [...this.tabs.children], i = all.indexOf(document.activeElement);
		const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: all.length - 1 }[e.key];
		if (to === undefined || i < 0) return;
		e.preventDefault();
		this.choose(all[(to + all.length) % all.length].dataset.kind);
		this.tabs.querySelector("[aria-selected=true]").focus();
	}

	draw() {
		let rows = this.tables.get(this.kind);
		this.zero.hidden = this.kind !== "counters";
		if (!rows || typeof rows === "string") {
			this.body.replaceChildren(el("p", {}, rows || "No such table."));
			return;
		}
		if (!Array.isArray(rows)) rows = Object.entries(rows).map(([attribute, value]) => ({ attribute, value }));
		if (this.kind === "counters") {
			rows = rows.filter((c) => c.value || !this.nonzero.checked).map((c) =>
				({ ...c, "per second": this.rates.get(c.name) ? short(this.rates.get(c.name), "") : "" }));
		}
		const word = this.words.value.toLowerCase();
		if (word) rows = rows.filter((r) => JSON.stringify(r).toLowerCase().includes(word));
		if (["events", "log"].includes(this.kind)) rows = rows.toReversed();
		this.body.replaceChildren(rows.length ? this.html(rows.slice(0, 1000)) : el("p", { class: "note" }, "Nothing."),
			rows.length > 1000 ? el("p", { class: "note" }, `${count(rows.length - 1000, "more row")}: filter them`) : "");
	}

	html(rows) {
		const columns = [...new Set(rows.flatMap((r) => Object.keys(r)))];
		const numeric = (c) => rows.every((r) => r[c] === undefined || typeof r[c] === "number");
		return el("table", {},
			el("thead", {}, el("tr", {}, columns.map((c) => el("th", { class: numeric(c) ? "n" : null, scope: "col" }, c.replaceAll("_", " "))))),
			el("tbody", {}, rows.map((r) => el("tr", {}, columns.map((c) => this.cell(r, c, numeric(c)))))));
	}

	cell(r, c, number) {
		const v = r[c];
		if (this.kind === "params" && c === "name" && r.runtime) {
			return el("td", {}, el("button", { class: "plain", onclick: () => this.act.propose(v) }, v));
		}
		const text = v == null ? "" : typeof v === "object" ? (Array.isArray(v) && v.every((x) => typeof x !== "object") ?
			v.join(", ") : JSON.stringify(v)) : String(v);
		return el("td", { class: number ? "n" : states[text] || null }, text);
	}
}
