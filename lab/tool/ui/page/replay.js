// A recorded lab over its time.

import { el, get, short } from "./dom.js";
import { ladder } from "./exchange.js";
import { clocks, ladders, links, nodes, rates, step } from "./told.js";
import { Topology } from "./topology.js";

// Replay has a slider over the time of a record, as of get("record"); alone without a
// server that reads its capture.
export class Replay {
	constructor(record, alone) {
		this.record = record;
		const r = this.result = record.result;
		for (const list of ["steps", "nodes", "links"]) r[list] ||= [];
		this.traffic = new Map((record.traffic?.links || []).map((f) => [f.end, f]));
		this.topology = new Topology(() => {});
		this.topology.again = () => this.draw();
		this.slider = el("input", {
			type: "range", min: 0, max: r.seconds, step: "any", value: r.seconds, "aria-label": "Time of the lab", oninput: () => this.draw(),
			onkeydown: (e) => {
				const to = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
				if (!to) return;
				e.preventDefault();
				this.step(to);
			},
		});
		this.time = el("output");
		this.steps = el("ol", { class: "steps" }, r.steps.map((s) => el("li", { class: s.verdict }, el("button", {
			class: "plain", onclick: () => this.go(s.start),
		}, `${s.verdict === "skip" ? "" : s.start.toFixed(3)} ${s.text} `, el("b", {}, s.verdict)), ...step(record, s))));
		this.log = el("ol", { class: "log" }, record.log.map((l) => el("li", {}, el("button", {
			class: "plain", onclick: () => this.go(l.at),
		}, `${l.at.toFixed(3)} ${l.text}`))));
		this.exchange = el("div", { class: "around" });
		this.root = el("div", {},
			el("h1", {}, `Lab ${r.lab} `, el("span", { class: r.verdict === "pass" ? "good" : "bad" }, r.verdict),
				el("small", {}, ` ${r.clock} clock, seed ${r.seed}`)),
			r.error ? el("pre", { class: "error" }, r.error) : "",
			el("div", { class: "bar time" },
				el("button", { title: "Earlier event", onclick: () => this.step(-1) }, "◀"), this.slider,
				el("button", { title: "Later event", onclick: () => this.step(1) }, "▶"), this.time,
				alone ? "" : el("button", { onclick: () => this.around() }, "Ladder around here")),
			this.topology.root, this.exchange, ...ladders(r.ladders),
			el("div", { class: "split" }, el("section", {}, el("h2", {}, "Steps"), this.steps),
				el("section", {}, el("h2", {}, "Log"), this.log)),
			r.compare ? el("section", {}, el("h2", {}, "Workloads"), el("pre", { class: "hex" }, r.compare)) : "",
			clocks(r), el("section", {}, el("h2", {}, "Links"), rates(record), links(r)), el("section", {}, el("h2", {}, "Nodes"), nodes(r)));
		this.draw();
	}

	stop() {}

	go(at) {
		this.slider.value = at;
		this.draw();
	}

	// step goes to the next event of the log, or the one before.
	step(by) {
		const now = Number(this.slider.value), close = 1e-9;
		const all = this.record.log.map((l) => l.at);
		const to = by > 0 ? all.find((t) => t > now + close) : all.findLast((t) => t < now - close);
		if (to !== undefined) this.go(to);
		else this.go(by > 0 ? this.result.seconds : 0);
	}

	draw() {
		const now = Number(this.slider.value), r = this.result;
		this.time.textContent = now.toFixed(3) + " s";
		const last = r.steps.findLastIndex((s) => s.verdict !== "skip" && s.start <= now);
		[...this.steps.children].forEach((li, i) => li.toggleAttribute("aria-current", i === last));
		[...this.log.children].forEach((li, i) => li.classList.toggle("later", this.record.log[i].at > now));
		const rates = new Map(), slice = this.slice(now);
		const links = r.links.map((l) => {
			const sum = { octets: 0, struck: 0 };
			for (const end of l.ends) {
				const f = this.traffic.get(l.name + ":" + end);
				f?.slices.forEach((at, k) => {
					if (at === slice) sum.octets += f.octets[k];
					if (at <= slice) sum.struck += f.struck[k];
				});
			}
			const rate = this.record.traffic ? sum.octets * 8 / this.record.traffic.slice : 0;
			for (const end of l.ends) rates.set(end, (rates.get(end) || 0) + rate);
			return {
				a: l.ends[0], b: l.ends[1], busy: rate > 0, bad: sum.struck > 0,
				text: [rate ? short(rate, "b/s") : "", sum.struck ? sum.struck + " struck" : ""].filter(Boolean).join(", "), title: l.name,
			};
		});
		this.topology.show(r.nodes.map((n) => ({
			id: n.name, name: n.name, kind: n.kind, rate: rates.get(n.name), bad: !!n.error, text: n.addresses?.[0] || n.kind,
		})), links);
	}

	slice(at) {
		return Math.floor(at / (this.record.traffic?.slice || 1));
	}

	async around() {
		const now = Number(this.slider.value), width = Math.max(this.result.seconds / 50, 1e-3);
		this.exchange.replaceChildren(el("p", { class: "note" }, "Reading the capture…"));
		try {
			const x = await get("exchange", { from: Math.max(0, now - width), to: now + width, start: this.record.traffic?.start_ns || 0 });
			this.exchange.replaceChildren(ladder(x, ""));
		} catch (err) {
			this.exchange.replaceChildren(el("p", { class: "error" }, err.message));
		}
	}
}
