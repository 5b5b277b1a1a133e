// What the modules of the page share: elements, numbers as text, and requests.

export function el(name, attrs = {}, ...children) {
	return fill(document.createElement(name), attrs, children);
}

export function svg(name, attrs = {}, ...children) {
	return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attrs, children);
}

function fill(e, attrs, children) {
	for (const [k, v] of Object.entries(attrs)) {
		if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
		else if (v === true) e.setAttribute(k, "");
		else if (v !== false && v != null) e.setAttribute(k, v);
	}
	e.append(...children.flat().filter((c) => c != null));
	return e;
}

const units = ["", "k", "M", "G", "T"];

// short is a number with three digits and a unit.
export function short(v, unit) {
	let i = 0;
	for (; Math.abs(v) >= 1000 && i < units.length - 1; i++) v /= 1000;
	const text = v >= 100 || v === Math.round(v) ? v.toFixed(0) : v.toPrecision(3);
	return text + (i > 0 || unit ? " " : "") + units[i] + unit;
}

// count is a number of things: 1 flow, 2 flows.
export function count(n, thing) { return `${n} ${thing}${n === 1 ? "" : "s"}`; }

// nanoseconds is a time as text.
export function nanoseconds(v) {
	const a = Math.abs(v);
	if (a >= 1e9) return (v / 1e9).toPrecision(4) + " s";
	if (a >= 1e6) return (v / 1e6).toPrecision(4) + " ms";
	if (a >= 1e3) return (v / 1e3).toPrecision(4) + " µs";
	return v.toFixed(a < 10 ? 1 : 0) + " ns";
}

// get and post return a document, or throw its error.
export async function get(path, query = {}) {
	return answer(await fetch("/api/v1/" + path + "?" + new URLSearchParams(query)));
}

export async function post(path, body) {
	return answer(await fetch("api/v1/" + path, {
		method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
	}));
}

async function answer(response) {
	const v = await response.json();
	if (!response.ok) throw new Error(v.error);
	return v;
}

// follow calls a function for each kind of event until the result is called.
export function follow(path, query, on) {
	const source = new EventSource("api/v1/" + path + "?" + new URLSearchParams(query));
	for (const [event, call] of Object.entries(on)) {
		if (event === "lost") source.onerror = call;
		else source.addEventListener(event, (e) => call(JSON.parse(e.data)));
	}
	// What has ended is not asked for again.
	source.addEventListener("problem", () => source.close());
	return () => source.close();
}

// bySeries tells names apart that end in a number: n1 to n16 are a series, n.
export function bySeries(names, least) {
	const of = new Map();
	for (const name of names) {
		const m = /^(.*[^0-9])([0-9]+)$/.exec(name);
		if (!m) continue;
		if (!of.has(m[1])) of.set(m[1], []);
		of.get(m[1]).push(name);
	}
	for (const [k, list] of of) if (list.length < least) of.delete(k);
	return of;
}

// copyable is a command line with a button that copies it.
export function copyable(text) {
	return el("div", { class: "command" }, el("code", {}, text),
		el("button", { onclick: (e) => copy(text, e.target) }, "Copy"));
}

// copy puts a text on the clipboard. A page that came by plain HTTP from elsewhere than
// loopback has no clipboard, but can copy what is selected.
export async function copy(text, button) {
	if (navigator.clipboard) await navigator.clipboard.writeText(text);
	else {
		const field = el("textarea", {});
		field.value = text;
		button.after(field);
		field.select();
		document.execCommand("copy");
		field.remove();
	}
	button.textContent = "Copied";
}

// dark changes from light to dark or back, for all pages of this tab.
export function dark() {
	const root = document.documentElement;
	const is = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
	root.dataset.theme = is === "dark" ? "light" : "dark";
	try { sessionStorage.setItem("theme", root.dataset.theme); } catch { /* a page in a sandbox has no storage */ }
	dispatchEvent(new Event("theme"));
}

// theme is as another page of this tab had it.
export function theme() {
	try {
		const was = sessionStorage.getItem("theme");
		if (was) document.documentElement.dataset.theme = was;
	} catch { /* as above */ }
}
