// A recorded lab over its time.

import { el, get, short } from "./dom.js";
import { ladder } from "./exchange.js";
import { Past } from "./past.js";
import { RecordedClocks, ladders, links, nodes, rates, step } from "./told.js";
import { Topology } from "./topology.js";

// Replay has a slider over the time of a record, as of get("record"); alone without a
// server that reads its capture.
export class Replay {
	constructor(record, alone) {
		this.record = record;
		const r = this.result = record.result;
		for (const list of ["steps", "nodes", "links"]) r[list] ||= [];
		this.traffic = new Map((record.traffic?.links || []).map((f) => [f.end, f]));
		this.topology = new Topology((id) => { this.past.choose(id); this.past.root.scrollIntoView({ block: "nearest" }); });
		this.past = new Past(record.tables, () => this.draw());
		this.clocks = new RecordedClocks(r.clocks);
		this.topology.again = () => this.draw();
		this.slider = el("input", {
			type: "range", min: 0, max: r.seconds, step: "any", value: r.seconds, "aria-label": "Time of the lab", oninput: () => this.draw(),
			onkeydown: (e) => {
				const to = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
				if (!to) return;
				e.preventDefault();
				if (e.shiftKey) this.go(this.now() + to * this.size());
				else this.step(to);
			},
		});
		this.time = el("output");
		this.by = el("select", { "aria-label": "Step of time" }, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10].filter((s) => s <= Math.max(r.seconds, 1e-6)).map((s) =>
			el("option", { value: s, selected: s <= r.seconds / 100 }, short(s * 1e6 >= 1000 ? s * 1e3 >= 1000 ? s : s * 1e3 : s * 1e6, s * 1e6 >= 1000 ? s * 1e3 >= 1000 ? "s" : "ms" : "µs"))));
		this.times = [...new Set([0, ...record.log.map((l) => l.at), ...r.steps.filter((s) => s.verdict !== "skip").flatMap((s) => [s.start, s.start + s.seconds]), r.seconds])].sort((a, b) => a - b);
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
				el("button", { title: "Previous event (left arrow)", onclick: () => this.step(-1) }, "◀ Event"), this.slider,
				el("button", { title: "Next event (right arrow)", onclick: () => this.step(1) }, "Event ▶"), this.time,
				el("button", { title: "Back by this time (Shift and left arrow)", onclick: () => this.go(this.now() - this.size()) }, "−"), this.by,
				el("button", { title: "On by this time (Shift and right arrow)", onclick: () => this.go(this.now() + this.size()) }, "+"),
				alone ? "" : el("button", { onclick: () => this.around() }, "Ladder around here")),
			this.topology.root, this.exchange, this.past.root,
			el("div", { class: "split" }, el("section", {}, el("h2", {}, "Steps"), this.steps),
				el("section", {}, el("h2", {}, "Log"), this.log)),
			r.compare ? el("section", {}, el("h2", {}, "Workloads"), el("pre", { class: "hex" }, r.compare)) : "",
			...ladders(r.ladders), this.clocks.root, el("section", {}, el("h2", {}, "Links"), rates(record), links(r)), el("section", {}, el("h2", {}, "Nodes"), nodes(r)));
		this.draw();
	}

	stop() {}

	now() { return Number(this.slider.value); }

	size() { return Number(this.by.value) || 1e-6; }

	go(at) {
		this.slider.value = Math.min(Math.max(at, 0), this.result.seconds);
		this.draw();
	}

	// step goes to the next line of the log, or beginning or end of a step, or the one before.
	step(by) {
		const now = this.now(), close = 1e-9;
		const to = by > 0 ? this.times.find((t) => t > now + close) : this.times.findLast((t) => t < now - close);
		if (to !== undefined) this.go(to);
	}

	draw() {
		const now = this.now(), r = this.result;
		this.time.textContent = now.toFixed(r.seconds < 1 ? 6 : 3) + " s";
		this.past.at(now);
		this.clocks.at(now);
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
			const is = this.past.value("", "link", l.name), down = is?.state === "down";
			return {
				a: l.ends[0], b: l.ends[1], busy: rate > 0, bad: sum.struck > 0 || down,
				more: is && `faults: ${is.fault}\nframes: ${is.frames}, lost: ${is.lost}, refused: ${is.refused}`,
				text: [down ? "down" : "", rate ? short(rate, "b/s") : "", sum.struck ? sum.struck + " struck" : ""].filter(Boolean).join(", "), title: l.name,
			};
		});
		this.topology.show(r.nodes.map((n) => {
			const killed = this.past.value(n.name, "nic", "state") === "killed", role = this.past.value(n.name, "manager", "role");
			return {
				id: n.name, name: n.name, kind: n.kind, rate: rates.get(n.name), bad: !!n.error || killed,
				text: killed ? "killed" : role || n.addresses?.[0] || n.kind,
			};
		}), links);
	}

	slice(at) {
		return Math.floor(at / (this.record.traffic?.slice || 1));
	}

	async around() {
		const now = this.now(), width = Math.max(this.result.seconds / 50, 1e-3);
		this.exchange.replaceChildren(el("p", { class: "note" }, "Reading the capture…"));
		try {
			const x = await get("exchange", { from: Math.max(0, now - width), to: now + width, start: this.record.traffic?.start_ns || 0 });
			this.exchange.replaceChildren(ladder(x, ""));
		} catch (err) {
			this.exchange.replaceChildren(el("p", { class: "error" }, err.message));
		}
	}
}
