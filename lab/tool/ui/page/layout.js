// Places nodes so that no line passes under a node that it does not join. What a
// node reaches lies below it, in rows; lines run in the gaps between rows and at
// the left edge. Lines that close a circle are bent around what is in the way.

export const wide = 150, high = 46;
const column = 24, gap = 48, edge = 26;

// How many lines are led around nodes: each is a search over the drawing.
const most = 100;

// layout returns the place of each node, by id, and a path for each link.
// nodes: [{id}], links: [{a, b}].
export function layout(nodes, links) {
	const near = new Map(nodes.map((n) => [n.id, []]));
	links.forEach((l, i) => {
		if (!near.has(l.a) || !near.has(l.b) || l.a === l.b) return;
		near.get(l.a).push([l.b, i]);
		near.get(l.b).push([l.a, i]);
	});
	const at = new Map(), routes = new Map(), blocks = [], alone = [];
	for (const n of [...nodes].sort((a, b) => near.get(b.id).length - near.get(a.id).length || (a.id < b.id ? -1 : 1))) {
		if (at.has(n.id)) continue;
		if (near.get(n.id).length === 0) {
			alone.push({ width: wide, height: high, put: (x, y) => at.set(n.id, { x: x + wide / 2, y: y + high / 2 }) });
			continue;
		}
		blocks.push(part(centre(n.id)));
	}
	rows([...blocks, ...alone]).put(0, 0);
	const box = bounds(at);
	const way = new Way(at, box);
	const paths = links.map((l, i) => {
		const p = routes.get(i);
		if (p) return line(p);
		if (!at.has(l.a) || !at.has(l.b)) return null;
		const curve = bent(l, at);
		if (under(curve, l, at) === 0 || way.turns++ > most) return curve;
		return way.find(l) || curve;
	});
	return { at, paths, box };

	// reach is what a node reaches, the nearest first, and how far the last is.
	function reach(id) {
		const far = new Map([[id, 0]]);
		let last = 0;
		for (const [from, d] of far) {
			last = d;
			for (const [next] of near.get(from)) if (!far.has(next)) far.set(next, d + 1);
		}
		return [far, last];
	}

	// centre is the node from which the farthest is nearest.
	function centre(id) {
		let [best, least] = [id, reach(id)[1]];
		for (const [other] of reach(id)[0]) {
			if (near.get(other).length < 2) continue;
			const far = reach(other)[1];
			if (far < least) [best, least] = [other, far];
		}
		return best;
	}

	// part is the block of what a root reaches. Its nodes get a place when it is put.
	function part(root) {
		const below = new Map([[root, []]]), order = [root];
		for (const id of order) {
			at.set(id, null);
			for (const [next, link] of near.get(id)) {
				if (below.has(next)) continue;
				below.set(next, []);
				below.get(id).push([next, link]);
				order.push(next);
			}
		}
		// Two ends of one line lie side by side.
		if (order.length === 2) {
			const link = below.get(root)[0][1], far = wide + 150;
			return {
				width: far + wide, height: high, put: (x, y) => {
					const [a, b] = [{ x: x + wide / 2, y: y + high / 2 }, { x: x + wide / 2 + far, y: y + high / 2 }];
					at.set(order[0], a);
					at.set(order[1], b);
					routes.set(link, [a, b]);
				},
			};
		}
		const made = new Map();
		for (const id of order.reverse()) made.set(id, block(id, below.get(id), made));
		return made.get(root);
	}

	// block is a node with the blocks below it, in rows.
	function block(id, below, made) {
		if (below.length === 0) {
			return { width: wide, height: high, top: wide / 2, put: (x, y) => at.set(id, { x: x + wide / 2, y: y + high / 2 }) };
		}
		// Leaves come first, so that rows are of one height.
		const list = below.map(([next, link]) => ({ ...made.get(next), next, link }))
			.sort((a, b) => a.height - b.height || (a.next < b.next ? -1 : 1));
		const all = rows(list);
		const top = edge + all.width / 2;
		return {
			width: all.width + edge, height: high + gap + all.height, top, put: (x, y) => {
				const me = { x: x + top, y: y + high / 2 };
				at.set(id, me);
				all.put(x + edge, y + high + gap);
				for (const b of list) {
					const to = at.get(b.next), above = to.y - high / 2 - gap / 2, first = me.y + high / 2 + gap / 2;
					routes.set(b.link, above === first ? [me, { x: me.x, y: first }, { x: to.x, y: above }, to] :
						[me, { x: me.x, y: first }, { x: x + edge / 2, y: first }, { x: x + edge / 2, y: above }, { x: to.x, y: above }, to]);
				}
			},
		};
	}
}

// rows lays blocks beside and below each other, about twice as wide as high.
function rows(list) {
	const area = list.reduce((sum, b) => sum + (b.width + column) * (b.height + gap), 0);
	const most = Math.max(Math.sqrt(area * 2), list.length <= 8 ? 8 * (wide + column) : 0, ...list.map((b) => b.width));
	const places = [];
	let [x, y, tall, width] = [0, 0, 0, 0];
	for (const b of list) {
		if (x > 0 && x + b.width > most) [x, y, tall] = [0, y + tall + gap, 0];
		places.push([b, x, y]);
		width = Math.max(width, x + b.width);
		x += b.width + column;
		tall = Math.max(tall, b.height);
	}
	return { width, height: y + tall, put: (left, top) => places.forEach(([b, px, py]) => b.put(left + px, top + py)) };
}

function bounds(at) {
	let [x, y, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
	for (const p of at.values()) {
		[x, y] = [Math.min(x, p.x - wide / 2 - edge), Math.min(y, p.y - high / 2)];
		[right, bottom] = [Math.max(right, p.x + wide / 2), Math.max(bottom, p.y + high / 2)];
	}
	return at.size ? { x, y, width: right - x, height: bottom - y } : { x: 0, y: 0, width: 1, height: 1 };
}

// line is a path of straight pieces. Its text stands at the last.
function line(points) {
	const [p, q] = points.slice(-2);
	const mid = points.length === 2 ? { x: (p.x + q.x) / 2, y: p.y } : { x: q.x + 6, y: p.y + gap / 2 - 2 };
	return { points, mid, side: points.length > 2, d: "M" + points.map((s) => `${s.x} ${s.y}`).join("L") };
}

// bent is a curve, straight if nothing is in the way.
function bent(l, at) {
	const a = at.get(l.a), b = at.get(l.b);
	const [dx, dy] = [b.x - a.x, b.y - a.y], length = Math.hypot(dx, dy) || 1;
	let best = null, least = Infinity;
	for (const bend of [0, 60, -60, 120, -120, 200, -200, 320, -320, 480, -480, 700, -700, 1000, -1000, 1500, -1500]) {
		const c = { x: (a.x + b.x) / 2 - dy / length * bend, y: (a.y + b.y) / 2 + dx / length * bend };
		const points = [];
		for (let t = 0; t <= 32; t++) points.push(point(a, c, b, t / 32));
		const p = { points, mid: points[16], d: `M${a.x} ${a.y}Q${c.x} ${c.y} ${b.x} ${b.y}` };
		const n = under(p, l, at);
		if (n < least) [best, least] = [p, n];
		if (n === 0) break;
	}
	return best;
}

const cell = 8;
const sides = [[1, 0], [0, 1], [-1, 0], [0, -1]];

// Way finds the shortest way between two nodes around all others, on a grid.
class Way {
	constructor(at, box) {
		this.turns = 0;
		this.at = at;
		[this.left, this.top] = [box.x - 2 * gap, box.y - 2 * gap];
		[this.wide, this.high] = [box.width, box.height].map((v) => Math.ceil((v + 4 * gap) / cell));
		this.number = new Map([...at.keys()].map((id, i) => [id, i + 1]));
	}

	// taken tells whose box covers each cell.
	taken() {
		if (this.grid) return this.grid;
		this.grid = new Uint16Array(this.wide * this.high);
		for (const [id, p] of this.at) {
			const [left, top] = this.cell(p.x - wide / 2 - 4, p.y - high / 2 - 4);
			const [right, bottom] = this.cell(p.x + wide / 2 + 4, p.y + high / 2 + 4);
			for (let y = top; y <= bottom; y++) this.grid.fill(this.number.get(id), y * this.wide + left, y * this.wide + right + 1);
		}
		return this.grid;
	}

	cell(x, y) { return [Math.round((x - this.left) / cell), Math.round((y - this.top) / cell)]; }

	find(l) {
		const grid = this.taken(), own = [this.number.get(l.a), this.number.get(l.b)];
		const index = (id) => { const p = this.at.get(id), [x, y] = this.cell(p.x, p.y); return y * this.wide + x; };
		const [from, to] = [index(l.a), index(l.b)];
		const far = new Int32Array(grid.length).fill(-1), open = [from];
		far[from] = 0;
		for (let k = 0; k < open.length && far[to] < 0; k++) {
			for (const [dx, dy] of sides) {
				const x = open[k] % this.wide + dx, next = open[k] + dx + dy * this.wide;
				if (x < 0 || x >= this.wide || far[next] !== -1 || grid[next] === undefined) continue;
				if (grid[next] && !own.includes(grid[next])) continue;
				far[next] = far[open[k]] + 1;
				open.push(next);
			}
		}
		if (far[to] < 0) return null;
		// Back to the start, straight on where that is as short.
		const points = [this.at.get(l.b)];
		for (let i = to, way = 0; i !== from;) {
			const on = [way, 0, 1, 2, 3].find((k) => far[i + sides[k][0] + sides[k][1] * this.wide] === far[i] - 1);
			if (on !== way) points.push(this.place(i));
			way = on;
			i += sides[on][0] + sides[on][1] * this.wide;
		}
		points.push(this.at.get(l.a));
		return { ...line(points), side: false, mid: points[Math.floor(points.length / 2)] };
	}

	place(i) { return { x: this.left + (i % this.wide) * cell, y: this.top + Math.floor(i / this.wide) * cell }; }
}

function point(a, c, b, t) {
	const [u, v, w] = [(1 - t) * (1 - t), 2 * t * (1 - t), t * t];
	return { x: u * a.x + v * c.x + w * b.x, y: u * a.y + v * c.y + w * b.y };
}

// under counts the nodes that a path passes under but does not join.
export function under(path, l, at) {
	let n = 0;
	for (const [id, q] of at) {
		if (id !== l.a && id !== l.b && path.points.some((p, i) => i > 0 && crosses(path.points[i - 1], p, q))) n++;
	}
	return n;
}

// crosses tells whether a straight piece enters a node's box.
function crosses(p, q, box) {
	let [from, to] = [0, 1];
	for (const [s, d, middle, half] of [[p.x, q.x - p.x, box.x, wide / 2 + 2], [p.y, q.y - p.y, box.y, high / 2 + 2]]) {
		const [low, top] = [middle - half - s, middle + half - s];
		if (d === 0) {
			if (low > 0 || top < 0) return false;
			continue;
		}
		const [t, u] = d > 0 ? [low / d, top / d] : [top / d, low / d];
		[from, to] = [Math.max(from, t), Math.min(to, u)];
		if (from > to) return false;
	}
	return true;
}
