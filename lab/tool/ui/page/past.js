// The tables of the nodes of a recorded lab, as they were at a time.

import { el } from "./dom.js";
import { titles } from "./device.js";

// unpack is the document of base64 of gzip.
async function unpack(text) {
	const octets = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
	return new Response(new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

// Past shows one table of one node. ready is called when the tables can be read.
export class Past {
	constructor(tables, ready) {
		this.nodes = new Map(); // name: {kind: [changes]}
		this.sample = -1;
		this.node = this.kind = "";
		this.which = el("select", { "aria-label": "Node", onchange: () => this.choose(this.which.value) });
		this.tabs = el("div", { class: "tabs", role: "tablist", "aria-label": "Tables", onkeydown: (e) => this.keys(e) });
		this.words = el("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", oninput: () => this.draw() });
		this.body = el("div", { class: "table", role: "tabpanel", tabindex: 0 });
		this.note = el("p", { class: "note" });
		this.root = el("section", { class: "past" }, el("h2", {}, "Tables at this time"), el("div", { class: "bar" }, this.which, this.words), this.tabs, this.note, this.body);
		this.root.hidden = !tables;
		if (tables) unpack(tables).then((h) => this.read(h, ready)).catch((err) => { this.note.textContent = err.message; });
	}

	read(h, ready) {
		this.times = h.at;
		this.full = h.full;
		for (const n of h.nodes) if (Object.keys(n.tables).length) this.nodes.set(n.name, n.tables);
		this.which.replaceChildren(...[...this.nodes.keys()].map((name) => el("option", { value: name }, name || "all links")));
		ready();
		this.choose([...this.nodes.keys()].find((name) => name) ?? "");
	}

	// rows are those of a table by key, and the keys that changed at this sample.
	rows(node, kind) {
		const rows = {}, fresh = new Set();
		let more = 0;
		for (const c of this.nodes.get(node)?.[kind] || []) {
			if (c.s > this.sample) break;
			more = c.more || 0;
			for (const [key, row] of Object.entries(c.r)) {
				if (row === null) delete rows[key];
				else rows[key] = row;
				if (c.s === this.sample && c.s > 0) fresh.add(key);
			}
		}
		return { rows, fresh, more };
	}

	// value is one row of a table of a node now.
	value(node, kind, key) {
		if (!this.times) return undefined;
		const of = [node, kind, this.sample].join("/");
		if (this.of !== of) [this.of, this.found] = [of, this.rows(node, kind).rows];
		return this.found[key];
	}

	// choose shows a node, if it has tables.
	choose(node) {
		if (!this.nodes.has(node)) return;
		this.node = this.which.value = node;
		const kinds = Object.keys(this.nodes.get(node)), order = Object.keys(titles);
		const rank = (k) => order.includes(k) ? order.indexOf(k) : order.length;
		kinds.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
		if (!kinds.includes(this.kind)) this.kind = kinds.includes("manager") ? "manager" : kinds[0];
		this.tabs.replaceChildren(...kinds.map((k) => el("button", {
			role: "tab", "data-kind": k, "aria-selected": String(k === this.kind), tabindex: k === this.kind ? 0 : -1,
			onclick: () => { this.kind = k; this.choose(node); this.tabs.querySelector("[aria-selected=true]").focus(); },
		}, titles[k] || k[0].toUpperCase() + k.slice(1))));
		this.draw();
	}

	keys(e) {
		const all = [...this.tabs.children], i = all.indexOf(document.activeElement);
		const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: all.length - 1 }[e.key];
		if (to === undefined || i < 0) return;
		e.preventDefault();
		all[(to + all.length) % all.length].click();
	}

	// at goes to a time, in seconds.
	at(now) {
		if (!this.times) return;
		const sample = this.times.findLastIndex((t) => t <= now + 1e-9);
		if (sample === this.sample) return;
		this.sample = sample;
		this.draw();
	}

	draw() {
		if (!this.times || !this.kind) return;
		const { rows, fresh, more } = this.rows(this.node, this.kind), word = this.words.value.toLowerCase();
		const list = Object.entries(rows).filter(([key, row]) => !word || (key + JSON.stringify(row)).toLowerCase().includes(word));
		this.note.textContent = (this.sample < 0 ? "Before the first sample." : `As sampled at ${this.times[this.sample].toFixed(6)} s.`) +
			(more ? ` ${more} more rows are not recorded.` : "") + (this.full ? " Later changes are not recorded, for they are too many." : "");
		const flat = list.every(([, row]) => row && typeof row === "object" && !Array.isArray(row));
		const named = flat && list.some(([key]) => isNaN(key));
		const columns = flat ? [...new Set(list.flatMap(([, row]) => Object.keys(row)))] : ["value"];
		const heads = [...(named || !flat ? [this.node ? "name" : "link"] : []), ...columns];
		this.body.replaceChildren(list.length ? el("table", {},
			el("thead", {}, el("tr", {}, heads.map((h) => el("th", { scope: "col" }, h.replaceAll("_", " "))))),
			el("tbody", {}, list.slice(0, 500).map(([key, row]) => el("tr", { class: fresh.has(key) ? "fresh" : null },
				(named || !flat ? [el("td", {}, key)] : []).concat(columns.map((c) => cell(flat ? row[c] : row, flat))))))) :
			el("p", { class: "note" }, "Nothing."));
	}
}

function cell(v, column) {
	const plain = (x) => x === null || typeof x !== "object";
	const text = v == null ? "" : plain(v) ? String(v) : Array.isArray(v) && v.every(plain) ? v.join(", ") : JSON.stringify(v);
	return el("td", { class: column && typeof v === "number" ? "n" : ["down", "ERROR", "killed"].includes(v) ? "bad" : null }, text);
}
