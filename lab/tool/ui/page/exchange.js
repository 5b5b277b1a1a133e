// The ladder of connections: each step an arrow between the two ends, with what
// tapir inspect finds; a click shows the packet.

import { decode, dump } from "./decode.js";
import { copyable, count, el, get } from "./dom.js";

const page = 200; // steps that are drawn at a time

// ladder draws an exchange. id is the node of the capture; empty: the record's, null: no
// server has it.
export function ladder(x, id) {
	const detail = el("aside", { class: "packet", "aria-label": "Packet" }, el("p", { class: "note" }, "Choose a step to see its packet."));
	const rows = el("div", { class: "ladder" });
	const flows = x.flows.filter((f) => x.ladder?.some((e) => e.flow === f.number));
	const which = el("select", { "aria-label": "Connection", onchange: () => draw() },
		flows.map((f) => el("option", { value: f.number }, `${f.number}: ${f.protocol} ${f.a} – ${f.b || ""}` +
			(f.violations ? ", " + count(f.violations, "violation") : ""))));
	// What went wrong first is in the middle; without that, connections come before PTP.
	const packets = x.ladder?.map((e) => e.packet) || [];
	const [low, top] = [packets.at(0), packets.at(-1)];
	const findings = (x.findings || []).filter((f) => f.packet >= low && f.packet <= top);
	const first = findings.find((f) => !f.note && flows.some((g) => g.number === f.flow));
	const shown = first?.flow || x.centre || flows.find((f) => f.protocol !== "PTP")?.number;
	if (shown) which.value = shown;
	const root = el("div", { class: "exchange" },
		el("p", {}, count(x.packets, "packet") + ": ", el("b", { class: x.verdict === "violations" ? "bad" : null }, x.verdict),
			x.ladder_beyond ? `; ${count(x.ladder_beyond, "more step")} not drawn` : "", " ",
			id === null ? el("a", { href: "lab.pcapng" }, "lab.pcapng") :
				el("a", { href: "api/v1/file?" + new URLSearchParams({ id }), download: "capture.pcapng" }, "capture.pcapng")),
		copyable(x.command),
		flows.length ? which : el("p", { class: "note" }, "Nothing to draw: no RDMA or PTP was seen."),
		el("div", { class: "split" }, rows, detail));
	let from = 0;
	if (flows.length) draw(true);
	return root;

	function draw(centre) {
		const flow = flows.find((f) => f.number === Number(which.value));
		const steps = x.ladder.filter((e) => e.flow === flow.number).map((e) => ({ packet: e.packet, event: e }));
		for (const f of findings) if (f.flow === flow.number) steps.push({ packet: f.packet, finding: f });
		steps.sort((a, b) => a.packet - b.packet);
		const at = first ? steps.findIndex((s) => s.finding === first) : -1;
		from = centre && at >= 0 ? Math.max(0, at - page / 2) : 0;
		more(flow, steps, at);
	}

	function more(flow, steps, at) {
		const turn = (to, text) => el("button", { onclick: () => { from = to; more(flow, steps, at); } }, text);
		rows.replaceChildren(
			el("div", { class: "ends" }, el("b", {}, flow.a), el("b", {}, flow.b || "all")),
			from > 0 ? turn(Math.max(0, from - page), "Earlier steps") : "",
			...steps.slice(from, from + page).map((s) => step(s, flow)),
			steps.length > from + page ? turn(from + page, "Later steps") : "");
		if (at >= from && at < from + page) rows.children[at - from + (from > 0 ? 2 : 1)]?.scrollIntoView({ block: "center" });
	}

	function step(s, flow) {
		if (s.finding) {
			const f = s.finding;
			return el("button", { class: "finding" + (f.note ? " note" : ""), onclick: (e) => packet(s.packet, e.currentTarget, f) },
				`packet ${f.packet}: ${f.clause || "note"}: ${f.says || f.detail}`);
		}
		const e = s.event, right = e.from === flow.a;
		return el("button", { class: "step " + (right ? "right" : "left"), onclick: (ev) => packet(s.packet, ev.currentTarget) },
			el("span", { class: "number" }, e.packet), el("span", { class: "at" }, (e.time_ns / 1e6).toFixed(3) + " ms"),
			el("span", { class: "arrow" }, el("span", {}, e.name + (e.detail ? " " : ""), el("small", {}, e.detail || ""))));
	}

	// offline is a packet of which the report has the beginning.
	function offline(n) {
		const octets = x.octets?.[n];
		const said = (x.ladder || []).filter((e) => e.packet === n).map((e) => `${e.name} ${e.detail || ""}`);
		return octets ? { number: n, decoded: [decode(octets), ...said].join("\n"), hex: dump(octets) } : { number: n, decoded: said.join("\n") };
	}

	async function packet(n, row, finding) {
		rows.querySelector("[aria-current]")?.removeAttribute("aria-current");
		row.setAttribute("aria-current", "true");
		try {
			const p = id === null ? offline(n) : await get("packet", { n, id });
			detail.replaceChildren(el("h2", {}, "Packet " + p.number),
				finding ? el("p", { class: "error" }, `${finding.clause || ""} ${finding.says || ""} ${finding.detail || ""}`) : "",
				...(x.findings || []).filter((f) => f.packet === n && f !== finding).map((f) =>
					el("p", { class: f.note ? "note" : "error" }, `${f.clause || ""} ${f.says || ""} ${f.detail || ""}`)),
				...(p.comments || []).map((c) => el("p", { class: "note" }, c)),
				el("p", {}, p.length ? `${count(p.length, "octet")}; in Wireshark:` : "In Wireshark:"), copyable("frame.number == " + p.number),
				p.decoded ? el("pre", {}, p.decoded) : "", p.hex ? el("pre", { class: "hex" }, p.hex) : "");
		} catch (err) {
			detail.replaceChildren(el("p", { class: "error" }, err.message));
		}
	}
}

// Exchange records a node for a moment and draws it.
export class Exchange {
	constructor(id) {
		this.id = id;
		this.body = el("div");
		this.button = el("button", { onclick: () => this.take() }, "Capture 2 seconds");
		this.root = el("div", {}, el("h1", {}, "Exchange of " + id), el("div", { class: "bar" }, this.button), this.body);
	}

	async take() {
		this.button.disabled = true;
		this.body.replaceChildren(el("p", { class: "note" }, "Capturing…"));
		try {
			this.body.replaceChildren(ladder(await get("capture", { id: this.id }), this.id));
		} catch (err) {
			this.body.replaceChildren(el("p", { class: "error" }, err.message));
		}
		this.button.disabled = false;
	}

	stop() {}
}
