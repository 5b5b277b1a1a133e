// What a recorded lab tells beside its drawing: steps, links, nodes and clocks.

import { Legend, curves, explained, hue, plot, words } from "./clocks.js";
import { copyable, count, el, nanoseconds, short } from "./dom.js";
import { ladder } from "./exchange.js";

// chart draws curves, [{name, x, y, dash}], of one axis of time.
export function chart(title, unit, curves, options = {}) {
	const at = [...new Set(curves.flatMap((c) => c.x))].sort((a, b) => a - b);
	const place = new Map(at.map((x, i) => [x, i]));
	const data = curves.map((c) => {
		const y = new Array(at.length).fill(null);
		c.x.forEach((x, i) => { y[place.get(x)] = c.y[i]; });
		return y;
	});
	const box = el("div", { class: "chart" });
	const root = el("figure", {}, el("figcaption", {}, `${title} (${unit})`), box);
	const draw = () => {
		const color = getComputedStyle(box).color;
		box.replaceChildren();
		new uPlot({
			width: Math.max(300, Math.min(box.clientWidth, 900)), height: 220, scales: { x: { time: false, distr: options.log ? 3 : 1 }, y: { distr: options.log ? 3 : 1 } },
			legend: { show: curves.length > 1 },
			series: [{ label: options.x || "s" }, ...curves.map((c, i) => ({ label: c.name, stroke: c.color || hue(i), width: 1.5, dash: c.dash, spanGaps: true }))],
			axes: [0, 1].map((side) => ({ stroke: color, grid: { stroke: "#8884" }, ticks: { stroke: "#8884" }, size: side ? 80 : 40 })),
		}, [at, ...data], box);
	};
	addEventListener("theme", () => { if (box.clientWidth) draw(); });
	new ResizeObserver((_, self) => { if (box.clientWidth) { self.disconnect(); draw(); } }).observe(box);
	return root;
}

function table(heads, rows) {
	return el("table", {}, el("thead", {}, el("tr", {}, heads.map((h) => el("th", { scope: "col" }, h)))),
		el("tbody", {}, rows.map((r) => el("tr", {}, r.map((c) =>
			el("td", { class: typeof c === "number" ? "n" : null }, c ?? ""))))));
}

// packets are the numbers of the first and the last packet of a span of time, or null. Of a
// capture that was not read to its end they are those of what was read.
export function packets(record, from, to) {
	const t = record.traffic;
	if (!t?.first) return null;
	const slice = (at) => Math.min(Math.max(Math.floor(at / t.slice), 0), t.first.length - 2);
	const [first, last] = [t.first[slice(from)], t.first[slice(to) + 1] - 1];
	return last >= first ? [first, last] : null;
}

// step is what is said of a step; empty: nothing.
export function step(record, s) {
	const parts = [];
	if (s.error) parts.push(el("pre", { class: "error" }, s.error));
	else if (s.disturbed) parts.push(el("p", { class: "bad" }, s.disturbed));
	if (s.verdict !== "skip") {
		const p = packets(record, s.start, s.start + s.seconds);
		if (p) parts.push(el("details", {}, el("summary", {}, `packets ${p[0]} to ${p[1]}`), copyable(`frame.number >= ${p[0]} && frame.number <= ${p[1]}`)));
	}
	if (s.summary) parts.push(el("p", {}, s.summary));
	const l = s.perf?.latency;
	if (l) {
		parts.push(table(["min", "median", "mean", "99 %", "99.9 %", "max"], [["min_ns", "median_ns", "mean_ns", "p99_ns", "p999_ns", "max_ns"].map((k) => nanoseconds(l[k]))]));
		if (l.histogram?.length > 1) {
			const all = l.histogram.reduce((sum, b) => sum + b.count, 0);
			parts.push(chart("half round trip", "%", [{ name: "share", x: l.histogram.map((b) => b.most_ns / 1e3), y: l.histogram.map((b) => 100 * b.count / all) }], { x: "µs" }));
		}
	}
	const rates = s.perf?.op === "verify" ? [] : s.perf?.flows?.length ? s.perf.flows.slice(0, 6).map((f) => rate(f.client + " to " + f.server, f.progress)) : s.perf?.progress ? [rate("all", s.perf.progress)] : [];
	if (rates.some((c) => c.x.length > 2)) parts.push(chart("rate", "Gb/s", rates.filter((c) => c.x.length)));
	for (const x of s.samples || []) parts.push(chart(x.what, x.unit, x.curves.slice(0, 12)));
	if (s.perf?.checks?.length) {
		parts.push(el("details", {}, el("summary", {}, `${count(s.perf.checks.length, "operation")}, target memory compared by SHA-256`),
			table(["operation", "octets", "memory"], s.perf.checks.map((c) => [c.operation, c.size, c.verified ? "equal" : el("strong", {}, "differs")]))));
	}
	if (s.output) parts.push(el("details", { open: !!s.error }, el("summary", {}, `output${s.name ? " of " + s.name : ""}${s.exit != null ? ", exit code " + s.exit : ""}`), el("pre", {}, s.output)));
	parts.push(...ladders(s.ladders));
	return parts;
}

function rate(name, progress) {
	const c = { name, x: [], y: [] };
	let last = { elapsed_ns: 0, bytes: 0 };
	for (const p of progress || []) {
		if (p.elapsed_ns > last.elapsed_ns) {
			c.x.push(p.elapsed_ns / 1e9);
			c.y.push((p.bytes - last.bytes) * 8 / (p.elapsed_ns - last.elapsed_ns));
			last = p;
		}
	}
	return c;
}

// ladders are those of a failure, one for each link.
export function ladders(all) {
	return (all || []).map((l) => el("section", {}, el("h3", {}, "On link " + l.link), l.note ? el("p", { class: "note" }, l.note) : "",
		l.exchange ? ladder(l.exchange, null) : ""));
}

// links is the table of what links did.
export function links(r) {
	const late = (v) => v === undefined ? "" : nanoseconds(1000 * v);
	return table(["link", "between", "frames", "lost", "duplicated", "corrupted", "reordered", "refused", "late 99 %", "at most", "rules"], r.links.map((l) => {
		const c = l.counts;
		return [l.name, l.ends.join(", "), c.frames, c.lost, c.duplicated, c.corrupted, c.reordered, c.refused, late(c.late?.p99_us), late(c.late?.max_us),
			(c.rules || []).map((x) => `${x.name}: struck ${x.struck} of ${x.matched}` + (x.missed ? `, missed ${x.missed}` : "")).join("; ")];
	}));
}

// nodes is the table of what became of nodes.
export function nodes(r) {
	return table(["node", "kind", "addresses", ""], r.nodes.map((n) => [n.name, n.kind, (n.addresses || []).join(", "), el("div", {},
		n.error ? el("pre", { class: "error" }, n.error + (n.output ? "\n\n" + n.output : "")) : "",
		n.counters?.length ? el("details", {}, el("summary", {}, count(n.counters.length, "counter") + " not zero"), table(["", ""], n.counters.map((c) => [c.name, c.value]))) : "",
		...Object.entries(n.tables || {}).map(([kind, rows]) => el("details", {}, el("summary", {}, kind), rowsOf(rows))))]));
}

function rowsOf(rows) {
	if (!Array.isArray(rows)) rows = [rows];
	const columns = [...new Set(rows.flatMap((x) => Object.keys(x)))];
	return table(columns.map((c) => c.replaceAll("_", " ")), rows.map((x) => columns.map((c) => typeof x[c] === "object" ? JSON.stringify(x[c]) : x[c] ?? "")));
}

// RecordedClocks are curves of clocks with a legend that has their values at a time, and their
// stability.
export class RecordedClocks {
	constructor(all) {
		this.all = all || [];
		this.charts = [];
		this.root = el("section", { class: "clocks" });
		this.root.hidden = !this.all.length;
		if (!this.all.length) return;
		this.legend = new Legend(() => this.choose());
		const draws = [];
		for (const name of new Set(curves.map((c) => c[1]))) draws.push([name, { height: 180, seconds: true }, this.lines(name), this.all[0].at]);
		const stable = this.all.map((c, i) => [c, i]).filter(([c]) => c.stability?.length);
		for (const key of ["mtie", "tdev"]) {
			const taus = [...new Set(stable.flatMap(([c]) => c.stability.map((s) => s.tau)))].sort((a, b) => a - b);
			draws.push([key.toUpperCase() + ", by tau in s", { height: 180, seconds: true, log: true }, stable.map(([c, i]) => ({ id: c.name, label: c.name, color: hue(i),
				values: taus.map((t) => c.stability.find((s) => s.tau === t)?.[key] || null) })), taus]);
		}
		this.root.append(el("h2", {}, "Clocks"), el("p", { class: "note" }, explained + " MTIE and TDEV are of the second half."), this.legend.root,
			...draws.filter(([, , lines]) => lines.some((l) => l.values.some((v) => v !== null))).map((d) => this.chart(...d)));
		for (const c of this.all) this.legend.add(c.name);
	}

	lines(name) {
		return curves.filter((c) => c[1] === name).flatMap(([key, , label, dash]) => this.all.map((c, i) =>
			({ id: c.name, label: `${c.name} ${label}`, color: hue(i), dash, values: c[key] || c.at.map(() => null) })));
	}

	chart(title, options, lines, at) {
		const box = el("div", { class: "chart" }), c = { lines, over: title.includes("tau") ? "" : "time" };
		const draw = () => {
			box.replaceChildren();
			c.plot = plot(box, at, lines, (id) => this.legend.shown(id), options);
			this.at(this.now);
		};
		addEventListener("theme", () => { if (box.clientWidth) draw(); });
		new ResizeObserver((_, self) => { if (box.clientWidth) { self.disconnect(); draw(); } }).observe(box);
		this.charts.push(c);
		return el("figure", {}, el("figcaption", {}, title + " (ns)"), box);
	}

	choose() {
		for (const c of this.charts) c.lines.forEach((l, i) => c.plot?.setSeries(1 + i, { show: this.legend.shown(l.id) }));
	}

	// at goes to a time, in seconds.
	at(now) {
		this.now = now;
		for (const c of this.all) {
			const k = c.at.findLastIndex((t) => t <= now + 1e-9), get = (key) => c[key]?.[k];
			this.legend.say(c.name, k < 0 ? "not sampled yet" : words(Object.fromEntries(["state", "servo", "freq_ppb", ...curves.map((x) => x[0])].map((key) => [key, get(key)]))));
		}
		for (const c of this.charts) if (c.plot && c.over) c.plot.setCursor({ left: c.plot.valToPos(now, "x"), top: 10 });
	}
}

// rates are those of links over time, of the busiest.
export function rates(record) {
	const t = record.traffic, sums = new Map();
	for (const f of t?.links || []) {
		const link = f.end.split(":")[0];
		if (!sums.has(link)) sums.set(link, new Map());
		const of = sums.get(link);
		f.slices.forEach((at, k) => of.set(at, (of.get(at) || 0) + f.octets[k]));
	}
	const total = (m) => [...m.values()].reduce((a, b) => a + b, 0);
	const busiest = [...sums].filter(([, m]) => m.size > 1).sort((a, b) => total(b[1]) - total(a[1])).slice(0, 6);
	if (!busiest.length) return "";
	const last = Math.max(...busiest.flatMap(([, m]) => [...m.keys()]));
	return chart("rates of links" + (sums.size > 6 ? ", of the busiest six" : "") + (t.partial ? ", of the capture's beginning" : ""), "Mb/s", busiest.map(([name, m]) => ({
		name, x: Array.from({ length: last + 1 }, (_, i) => i * t.slice), y: Array.from({ length: last + 1 }, (_, i) => (m.get(i) || 0) * 8 / t.slice / 1e6),
	})));
}

// overview is a table of several labs.
export function overview(records, choose) {
	return table(["lab", "verdict", "steps", "seconds", "why"], records.map((x, i) => {
		const r = x.result, failed = (r.steps || []).find((s) => s.verdict === "fail");
		return [el("button", { class: "plain", onclick: () => choose(i) }, r.lab), el("span", { class: r.verdict === "pass" ? "good" : "bad" }, r.verdict),
			`${(r.steps || []).filter((s) => s.verdict !== "skip").length} of ${(r.steps || []).length}`, short(r.seconds, "s"),
			r.error || (failed ? `line ${failed.line}: ${failed.text}: ${failed.error}` : "")];
	}));
}
