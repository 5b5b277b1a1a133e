// Clocks over time: what is true next to what each clock believes.

import { el, nanoseconds } from "./dom.js";

const most = 600; // points of a curve

// The curves of a clock, by the key of its values: the chart, its name and the dashes of its line.
export const curves = [
	["true_ns", "offset", "true"], ["believed_ns", "offset", "believed", [5, 4]], ["delay_ns", "path delay", ""],
	["sync_ns", "correctionField", "Sync"], ["follow_up_ns", "correctionField", "Follow_Up", [8, 3]],
	["delay_resp_ns", "correctionField", "Delay_Resp", [2, 3]],
];
export const explained = "Offset: a full line is the true offset, a dashed one the offset from the master that the clock believes. " +
	"correctionField: full of Sync, dashed of Follow_Up, dotted of Delay_Resp (peer to peer: Pdelay_Resp with its Follow_Up).";

export const hue = (i) => `hsl(${i * 137.5 % 360} 65% 45%)`;

// words say what a clock knows at a time.
export function words(c) {
	const ns = (name, v) => v == null ? "" : `, ${name} ${nanoseconds(v)}`;
	return `${c.state || "free"} ${c.servo || ""}` + ns("true", c.true_ns) + ns("believed", c.believed_ns) + ns("delay", c.delay_ns) +
		ns("Sync", c.sync_ns) + ns("Follow_Up", c.follow_up_ns) + ns("Delay_Resp", c.delay_resp_ns) +
		(c.freq_ppb == null ? "" : `, ${c.freq_ppb.toFixed(1)} ppb`);
}

// Legend lists many clocks: a filter, a box to show each, and a name that shows one alone.
// changed is called after the choice has changed.
export class Legend {
	constructor(changed) {
		this.changed = changed;
		this.items = new Map(); // id: {shown, box, text, row}
		this.alone = "";
		this.filter = el("input", { type: "search", placeholder: "Filter clocks", "aria-label": "Filter clocks", oninput: () => this.filtered() });
		this.list = el("div", { class: "legend", role: "group", "aria-label": "Clocks", onkeydown: (e) => this.keys(e) });
		this.count = el("span", { class: "note" });
		this.root = el("section", {}, el("div", { class: "bar" }, this.filter,
			el("button", { onclick: () => this.all(true) }, "Show all"), el("button", { onclick: () => this.all(false) }, "Hide all"), this.count), this.list);
	}

	add(id) {
		const box = el("input", { type: "checkbox", checked: true, "aria-label": "Show " + id, onchange: () => { this.items.get(id).shown = box.checked; this.told(); } });
		const mark = el("span", { class: "mark" }), text = el("span");
		mark.style.background = hue(this.items.size);
		const row = el("div", { class: "clock" }, box, mark,
			el("button", { class: "plain", title: "Show this clock alone, or all again", onclick: () => this.only(id) }, id), " ", text);
		this.items.set(id, { shown: true, box, text, row });
		this.list.append(row);
		this.filtered();
	}

	shown(id) { return this.items.get(id).shown; }

	say(id, text) { this.items.get(id).text.textContent = text; }

	only(id) {
		const others = [...this.items].some(([other, x]) => other !== id && x.shown);
		for (const [other, x] of this.items) x.shown = !others || other === id;
		this.told();
	}

	// all shows or hides those that the filter lets through.
	all(shown) {
		for (const x of this.items.values()) if (!x.row.hidden) x.shown = shown;
		this.told();
	}

	filtered() {
		const word = this.filter.value.toLowerCase();
		for (const [id, x] of this.items) x.row.hidden = !(id + " " + x.text.textContent).toLowerCase().includes(word);
		this.told(true);
	}

	told(quiet) {
		for (const x of this.items.values()) x.box.checked = x.shown;
		const n = [...this.items.values()].filter((x) => x.shown).length;
		this.count.textContent = `${n} of ${this.items.size} shown`;
		if (!quiet) this.changed();
	}

	// keys go from name to name.
	keys(e) {
		const names = [...this.list.querySelectorAll(".clock:not([hidden]) button")], at = names.indexOf(document.activeElement);
		const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: names.length - 1 }[e.key];
		if (to === undefined || !names[to]) return;
		e.preventDefault();
		names[to].focus();
	}
}

// lately is the span of an axis of time: at least ten seconds. uPlot makes years of one sample.
function lately(at, from, to) { return at.length === 1 ? [at[0] - 10, at[0]] : [Math.min(from, to - 10), to]; }

// plot draws curves, [{id, label, dash, values}], into an element, which it makes when that is wide.
export function plot(into, at, lines, shown, options = {}) {
	return new uPlot({
		width: Math.max(300, into.clientWidth), height: options.height || 220, legend: { show: false }, cursor: { y: false },
		scales: {
			x: { time: !options.seconds, distr: options.log ? 3 : 1, ...(options.seconds ? {} : { range: (u, from, to) => lately(u.data[0], from, to) }) },
			y: { distr: options.log ? 3 : 1 },
		},
		series: [{}, ...lines.map((l) => ({ label: l.label, stroke: l.color, width: 1.5, dash: l.dash, show: shown(l.id), spanGaps: !!options.seconds }))],
		axes: [0, 1].map((side) => ({ stroke: () => getComputedStyle(into).color, grid: { stroke: "#8884" }, ticks: { stroke: "#8884" }, size: side ? 80 : 44 })),
	}, [at, ...lines.map((l) => l.values)], into);
}

export class Clocks {
	constructor() {
		this.at = [];
		this.series = new Map(); // id: lists of values by key
		this.legend = new Legend(() => this.choose());
		this.boxes = new Map([...new Set(curves.map((c) => c[1]))].map((name) => [name, el("div", { class: "chart" })]));
		this.none = el("p", { class: "note" }, "No clock is known yet.");
		this.root = el("div", { class: "clocks" }, el("h1", {}, "Clocks"), this.none, el("p", { class: "note" }, explained), this.legend.root,
			...[...this.boxes].flatMap(([name, box]) => [el("h2", {}, `${name[0].toUpperCase()}${name.slice(1)} (ns)`.replace("CorrectionField", "correctionField")), box]));
		this.key = "";
		this.charts = [];
		this.resize = new ResizeObserver(() => this.charts.forEach((c) => c.plot.setSize({ width: Math.max(300, c.box.clientWidth), height: 220 })));
		this.resize.observe(this.root);
	}

	stop() {
		this.resize.disconnect();
		this.charts.forEach((c) => c.plot.destroy());
	}

	// show adds what the nodes say at a time, in milliseconds.
	show(at, nodes) {
		this.at.push(at / 1000);
		const before = this.at.length - 1;
		for (const n of nodes) {
			if (!n.clock) continue;
			if (!this.series.has(n.id)) {
				this.series.set(n.id, Object.fromEntries(curves.map(([key]) => [key, new Array(before).fill(null)])));
				this.legend.add(n.id);
			}
			const s = this.series.get(n.id);
			for (const [key] of curves) s[key].push(n.clock[key] ?? null);
			this.legend.say(n.id, words({ freq_ppb: n.clock.correction_ppb, ...n.clock }));
		}
		for (const s of this.series.values()) {
			for (const list of Object.values(s)) {
				while (list.length < this.at.length) list.push(null);
				if (list.length > most) list.shift();
			}
		}
		if (this.at.length > most) this.at.shift();
		this.draw();
	}

	draw() {
		this.none.hidden = this.series.size > 0;
		const key = [...this.series.keys()].join() + getComputedStyle(document.documentElement).colorScheme;
		if (key !== this.key && this.series.size) {
			this.key = key;
			this.charts.forEach((c) => c.plot.destroy());
			this.charts = [...this.boxes].map(([name, box]) => ({ box, name, plot: plot(box, [], this.lines(name), (id) => this.legend.shown(id)) }));
		}
		for (const c of this.charts) c.plot.setData([this.at, ...this.lines(c.name).map((l) => l.values)]);
	}

	lines(chart) {
		return curves.filter((c) => c[1] === chart).flatMap(([key, , label, dash]) => [...this.series].map(([id, s], i) =>
			({ id, label: `${id} ${label}`, dash, color: hue(i), values: s[key] })));
	}

	choose() {
		for (const c of this.charts) this.lines(c.name).forEach((l, i) => c.plot.setSeries(1 + i, { show: this.legend.shown(l.id) }));
	}
}
