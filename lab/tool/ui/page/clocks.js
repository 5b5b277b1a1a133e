// Clocks over time: what is true beside what each clock believes.

import { el, nanoseconds } from "./dom.js";

const most = 600; // points of a curve

export class Clocks {
	constructor() {
		this.at = [];
		this.series = new Map(); // id: {color, shown, true: [], believed: [], delay: [], clock}
		this.legend = el("div", { class: "legend" });
		this.offsets = el("div", { class: "chart" });
		this.delays = el("div", { class: "chart" });
		this.none = el("p", { class: "note" }, "No clock is known yet.");
		this.root = el("div", { class: "clocks" }, el("h1", {}, "Clocks"), this.none,
			el("p", { class: "note" }, "A full line is the true offset, from the system's clock; a dashed one is the offset " +
				"from the master that the clock believes."),
			el("h2", {}, "Offset (ns)"), this.offsets, el("h2", {}, "Path delay (ns)"), this.delays,
			el("h2", {}, "Clocks"), this.legend);
		this.key = "";
		this.resize = new ResizeObserver(() => this.charts?.forEach((c) => c.setSize(this.size())));
		this.resize.observe(this.offsets);
	}

	stop() {
		this.resize.disconnect();
		this.charts?.forEach((c) => c.destroy());
	}

	size() { return { width: Math.max(300, this.offsets.clientWidth), height: 240 }; }

	// show adds what the nodes say at a time, in milliseconds.
	show(at, nodes) {
		this.at.push(at / 1000);
		const before = this.at.length - 1;
		for (const n of nodes) {
			if (!n.clock) continue;
			let s = this.series.get(n.id);
			if (!s) {
				const empty = () => new Array(before).fill(null);
				s = { color: `hsl(${this.series.size * 137.5 % 360} 65% 50%)`, shown: true, true: empty(), believed: empty(), delay: empty() };
				this.series.set(n.id, s);
			}
			s.clock = n.clock;
			s.true.push(n.clock.true_ns);
			s.believed.push(n.clock.believed_ns ?? null);
			s.delay.push(n.clock.delay_ns ?? null);
		}
		for (const s of this.series.values()) {
			for (const list of [s.true, s.believed, s.delay]) {
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
			this.build();
		}
		const all = [...this.series.values()];
		this.charts?.[0].setData([this.at, ...all.map((s) => s.true), ...all.map((s) => s.believed)]);
		this.charts?.[1].setData([this.at, ...all.map((s) => s.delay)]);
		for (const [id, s] of this.series) this.tell(id, s);
	}

	build() {
		this.charts?.forEach((c) => c.destroy());
		const entries = [...this.series];
		const line = (id, s, dash) => ({ label: id, stroke: s.color, width: 1.5, dash, show: s.shown, spanGaps: false });
		const chart = (into, series) => new uPlot({
			...this.size(), legend: { show: false }, series: [{}, ...series],
			axes: [0, 1].map((side) => ({ stroke: () => getComputedStyle(into).color, grid: { stroke: "#8884" }, ticks: { stroke: "#8884" }, size: side ? 80 : 56 })),
		}, [[], ...series.map(() => [])], into);
		this.charts = [
			chart(this.offsets, [...entries.map(([id, s]) => line(id, s)), ...entries.map(([id, s]) => line(id, s, [5, 4]))]),
			chart(this.delays, entries.map(([id, s]) => line(id, s))),
		];
		this.legend.replaceChildren(...entries.map(([id, s], i) => {
			const mark = el("span", { class: "mark" });
			mark.style.background = s.color;
			s.text = el("span");
			return el("label", {}, el("input", {
				type: "checkbox", checked: s.shown, onchange: (e) => {
					s.shown = e.target.checked;
					this.charts[0].setSeries(1 + i, { show: s.shown });
					this.charts[0].setSeries(1 + entries.length + i, { show: s.shown });
					this.charts[1].setSeries(1 + i, { show: s.shown });
				},
			}), mark, el("b", {}, id), s.text);
		}));
	}

	tell(id, s) {
		const c = s.clock;
		s.text.textContent = ` ${c.state || "free"} ${c.servo || ""} true ${nanoseconds(c.true_ns)}` +
			(c.believed_ns === undefined ? "" : `, believed ${nanoseconds(c.believed_ns)}, delay ${nanoseconds(c.delay_ns)}`) +
			`, ${c.correction_ppb.toFixed(1)} ppb`;
	}
}
