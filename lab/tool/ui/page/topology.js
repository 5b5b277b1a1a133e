// The drawing of nodes and links, with what passes them.

import { bySeries, count, el, short, svg } from "./dom.js";
import { high, layout, under, wide } from "./layout.js";

// What is drawn one by one: series are drawn as one node where there are more.
const few = 24;

// Topology draws into an element. go is called with the id of a chosen node, join, which
// may be missing, with a chosen link of a lab.
export class Topology {
	constructor(go, join) {
		this.go = go;
		this.join = join;
		this.open = new Set(); // series that are drawn one by one
		this.key = "";
		this.view = null;
		this.lines = svg("g");
		this.boxes = svg("g");
		this.drawing = svg("svg", { class: "topology", role: "group", "aria-label": "Topology", tabindex: 0 },
			this.lines, this.boxes);
		this.note = el("p", { class: "note" });
		this.root = el("div", { class: "fill" },
			el("div", { class: "bar" },
				el("button", { onclick: () => this.zoom(1.25) }, "Zoom in"),
				el("button", { onclick: () => this.zoom(0.8) }, "Zoom out"),
				el("button", { onclick: () => this.fit() }, "All"), this.note),
			this.drawing);
		this.handle();
	}

	handle() {
		const d = this.drawing;
		d.addEventListener("wheel", (e) => {
			e.preventDefault();
			this.zoom(e.deltaY < 0 ? 1.15 : 1 / 1.15, this.place(e));
		}, { passive: false });
		let from = null;
		d.addEventListener("pointerdown", (e) => { if (!e.target.closest(".node")) from = this.place(e); });
		d.addEventListener("pointermove", (e) => {
			if (!from) return;
			const to = this.place(e);
			this.move(from.x - to.x, from.y - to.y);
		});
		for (const end of ["pointerup", "pointerleave"]) d.addEventListener(end, () => { from = null; });
		d.addEventListener("keydown", (e) => {
			const step = this.view ? this.view.width / 10 : 0;
			const act = {
				"+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.fit(),
				ArrowLeft: () => this.move(-step, 0), ArrowRight: () => this.move(step, 0),
				ArrowUp: () => this.move(0, -step), ArrowDown: () => this.move(0, step),
			}[e.key];
			if (!act) return;
			e.preventDefault();
			act();
		});
	}

	// place is where a pointer is in the drawing.
	place(e) {
		const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(this.drawing.getScreenCTM().inverse());
		return { x: p.x, y: p.y };
	}

	zoom(by, around) {
		const v = this.view;
		if (!v) return;
		const p = around || { x: v.x + v.width / 2, y: v.y + v.height / 2 };
		this.look({ x: p.x - (p.x - v.x) / by, y: p.y - (p.y - v.y) / by, width: v.width / by, height: v.height / by });
	}

	move(x, y) {
		const v = this.view;
		if (v) this.look({ ...v, x: v.x + x, y: v.y + y });
	}

	fit() {
		const b = this.placed.box, m = 30;
		// A small drawing is not blown up.
		const width = Math.max(b.width + 2 * m, 760), height = Math.max(b.height + 2 * m, 420);
		this.look({ x: b.x + b.width / 2 - width / 2, y: b.y + b.height / 2 - height / 2, width, height });
	}

	look(v) {
		this.view = v;
		this.drawing.setAttribute("viewBox", `${v.x} ${v.y} ${v.width} ${v.height}`);
	}

	// show draws nodes, [{id, name, kind, text, bad}], and links, [{a, b, text, bad}].
	show(nodes, links) {
		const [n, l] = this.collapse(nodes, links);
		const key = JSON.stringify([n.map((x) => x.id), l.map((x) => [x.a, x.b])]);
		if (key !== this.key) {
			this.key = key;
			this.draw(n, l);
		}
		n.forEach((x) => this.update(this.parts.get(x.id), x));
		l.forEach((x, i) => {
			const part = this.joins[i];
			if (!part) return;
			part.line.setAttribute("class", "link" + (x.fabric ? " fabric" : "") + (x.bad ? " bad" : "") + (x.busy ? " busy" : ""));
			part.text.textContent = x.text || "";
			part.title.textContent = [x.title, x.more].filter(Boolean).join("\n");
		});
		this.note.textContent = nodes.length === 0 ? "" :
			`${count(nodes.length, "node")}, ${count(links.length, "link")}` + (n.length < nodes.length ? `, drawn as ${n.length}` : "");
	}

	// collapse makes one node of each series if there are many nodes.
	collapse(nodes, links) {
		if (nodes.length <= few) return [nodes, links];
		const of = new Map();
		for (const [series, ids] of bySeries(nodes.map((n) => n.id), 4)) {
			if (!this.open.has(series)) for (const id of ids) of.set(id, series);
		}
		const all = new Map();
		for (const n of nodes) {
			const series = of.get(n.id);
			if (series === undefined) {
				all.set(n.id, n);
				continue;
			}
			const g = all.get("*" + series) ||
				{ id: "*" + series, series, name: series.replace(/.*\//, "") + "*", kind: n.kind, count: 0, rate: 0 };
			g.count++;
			g.rate += n.rate || 0;
			g.bad = g.bad || n.bad;
			g.text = `${g.count} × ${g.kind}` + (g.rate ? ", " + short(g.rate, "b/s") : "");
			all.set(g.id, g);
		}
		const end = (id) => of.has(id) ? "*" + of.get(id) : id;
		const joined = new Map();
		for (const l of links) {
			const [a, b] = [end(l.a), end(l.b)];
			if (a === l.a && b === l.b) {
				joined.set(l, l);
				continue;
			}
			if (a === b) continue;
			const g = joined.get(a + " " + b) || { a, b, count: 0, fabric: l.fabric };
			g.count++;
			g.bad = g.bad || l.bad;
			g.busy = g.busy || l.busy;
			g.text = count(g.count, "link");
			joined.set(a + " " + b, g);
		}
		return [[...all.values()], [...joined.values()]];
	}

	draw(nodes, links) {
		this.placed = layout(nodes, links);
		this.links = links;
		this.parts = new Map();
		this.boxes.replaceChildren(...nodes.map((n) => this.box(n)));
		this.joins = links.map((l, i) => {
			const p = this.placed.paths[i];
			if (!p) return null;
			const title = svg("title"), choose = this.join && l.lab ? () => this.join(this.links[i]) : null;
			const hit = svg("path", {
				d: p.d, class: "hit", ...(choose ? {
					tabindex: 0, role: "link", "data-link": l.title, "aria-label": "link " + l.title, onclick: choose,
					onkeydown: (e) => { if (e.key === "Enter") choose(); },
				} : {}),
			}, title);
			return {
				title, hit, line: svg("path", { d: p.d }),
				text: svg("text", { x: p.mid.x, y: p.mid.y - 4, class: p.side ? "rate side" : "rate" }),
			};
		});
		this.lines.replaceChildren(...this.joins.filter(Boolean).flatMap((j) => [j.line, j.hit, j.text]));
		this.fit();
	}

	box(n) {
		const p = this.placed.at.get(n.id);
		const choose = () => {
			if (n.series === undefined) return this.go(n.id);
			this.open.add(n.series);
			this.again();
		};
		const part = { name: svg("text", { y: -4, class: "name" }), text: svg("text", { y: 13 }) };
		part.g = svg("g", {
			class: "node " + n.kind, transform: `translate(${p.x} ${p.y})`, tabindex: 0, role: "link", "data-id": n.id,
			onclick: choose, onkeydown: (e) => { if (e.key === "Enter") choose(); },
		}, svg("rect", { x: -wide / 2, y: -high / 2, width: wide, height: high, rx: n.kind === "sw" || n.kind === "switch" ? 18 : 5 }),
			part.name, part.text);
		this.parts.set(n.id, part);
		return part.g;
	}

	update(part, n) {
		part.name.textContent = n.name;
		part.text.textContent = n.text || n.kind;
		part.g.classList.toggle("bad", !!n.bad);
		part.g.classList.toggle("many", n.series !== undefined);
	}

	// again is set by who shows: it shows once more.
	again() {}

	// linesUnderNodes counts lines that pass under nodes that they do not join.
	linesUnderNodes() {
		return this.links.reduce((sum, l, i) => {
			const p = this.placed.paths[i];
			return sum + (p ? under(p, l, this.placed.at) : 0);
		}, 0);
	}
}
