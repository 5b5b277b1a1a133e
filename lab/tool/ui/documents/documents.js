// The documents: a list of all on the left, one on the right. The address is the path in
// the repository, so that links between documents and to pictures are used as they stand.

import { copy, count, dark, el, get, theme } from "/dom.js";
import { marked } from "./marked.esm.js";

const $ = (id) => document.getElementById(id);
const state = { pages: {}, files: new Set(), order: [], sections: null, shown: null };

// groups are the headings of the list, each with the paths below it.
const groups = [
	["Overview", /^(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md$|^docs\/[^/]*$/], ["Start", /^docs\/start\//],
	["How to", /^docs\/howto\//], ["Reference", /^docs\/reference\//], ["Concepts", /^docs\/concepts\//],
	["Evidence", /^docs\/evidence\//], ["Labs", /^lab\/examples\//], ["Programs and exercises", /^examples\//],
];

const pathOf = (url) => decodeURIComponent(url.pathname).replace(/^\/|\/$/g, "");

// below are the documents of a directory.
const below = (dir) => state.order.filter((p) => p.startsWith(dir + "/"));

// plain is Markdown of one line as text.
function plain(line) {
	return new DOMParser().parseFromString(marked.parseInline(line), "text/html").body.textContent;
}

// slugs names headings as GitHub does; a name that was there gets a number.
function slugs() {
	const seen = new Map();
	return (text) => {
		const slug = text.toLowerCase().replace(/[^\p{L}\p{N}\p{M} _-]/gu, "").replaceAll(" ", "-");
		const n = seen.get(slug) || 0;
		seen.set(slug, n + 1);
		return n ? `${slug}-${n}` : slug;
	};
}

// cut divides a document at its headings.
function cut(path, text) {
	const name = slugs();
	const sections = [];
	let fence = "";
	for (const line of text.split("\n")) {
		const mark = /^ *(```+|~~~+)/.exec(line)?.[1];
		if (mark && (!fence || mark.startsWith(fence))) fence = fence ? "" : mark;
		const m = !fence && /^(#{1,6}) +(.*?)(?: +#+)?$/.exec(line);
		if (m) {
			const heading = plain(m[2]);
			sections.push({ path, level: m[1].length, heading, slug: name(heading), lines: [] });
		} else sections.at(-1)?.lines.push(line);
	}
	for (const s of sections) s.text = s.lines.join("\n");
	return sections;
}

// sections are those of all documents, in the order of the list.
function sections() {
	state.sections ||= new Map(state.order.map((path) => [path, cut(path, state.pages[path])]));
	return state.sections;
}

const title = (path) => sections().get(path)[0]?.heading || path;

// search finds sections that have all words: in the heading first, then in the text.
function search(query) {
	const words = query.toLowerCase().split(/\s+/).filter((w) => w);
	if (words.length === 0) return [];
	const hits = [];
	for (const list of sections().values()) {
		for (const s of list) {
			const heading = s.heading.toLowerCase(), text = s.text.toLowerCase(), of = title(s.path).toLowerCase();
			if (!words.every((w) => heading.includes(w) || text.includes(w) || of.includes(w))) continue;
			if (!words.some((w) => heading.includes(w) || text.includes(w))) continue;
			let score = 0;
			for (const w of words) {
				score += (heading.includes(w) ? 20 / s.level : 0) + (of.includes(w) ? 5 : 0) + Math.min(text.split(w).length - 1, 5);
			}
			hits.push({ s, score: s.path.startsWith("docs/evidence/") ? score / 4 : score }); // long tables
		}
	}
	return hits.sort((a, b) => b.score - a.score).map((h) => h.s).slice(0, 40);
}

// excerpt is what stands around the first word, with the words marked.
function excerpt(s, words) {
	const text = s.text.replace(/\]\([^)\s]*\)|-{3,}|[|`*[\]]/g, " ").replace(/\s+/g, " ");
	const at = Math.max(0, ...words.map((w) => text.toLowerCase().indexOf(w)).filter((i) => i >= 0).slice(0, 1)) - 40;
	const part = text.slice(Math.max(0, at), Math.max(0, at) + 130).replace(at > 0 ? /^\S+ / : "", "");
	const any = new RegExp(words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "gi");
	const out = [];
	let from = 0;
	for (const m of part.matchAll(any)) {
		out.push(part.slice(from, m.index), el("mark", {}, m[0]));
		from = m.index + m[0].length;
	}
	return [...out, part.slice(from)];
}

function find() {
	const query = $("search").value.trim();
	const words = query.toLowerCase().split(/\s+/);
	const hits = search(query);
	$("hits").hidden = !query;
	$("contents").hidden = !!query;
	$("hits").replaceChildren(...hits.map((s) => el("li", {}, el("a", { href: `/${s.path}#${encodeURIComponent(s.slug)}` },
		s.level === 1 ? s.heading : `${title(s.path)} › ${s.heading}`, el("small", {}, excerpt(s, words))))));
	$("state").textContent = query ? count(hits.length, "section") : "";
}

// article is a document as elements.
function article(path) {
	const root = el("article"), inert = el("template");
	inert.innerHTML = marked.parse(state.pages[path]); // from this program, as all it shows
	const from = new URL("/" + path, location.href);
	for (const i of inert.content.querySelectorAll("img")) i.src = new URL(i.getAttribute("src"), from);
	root.append(inert.content);
	const name = slugs();
	for (const h of root.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
		h.id = name(h.textContent);
		h.append(el("a", { class: "here", href: "#" + encodeURIComponent(h.id), "aria-label": "Link to this heading" }));
	}
	for (const table of root.querySelectorAll("table")) {
		const wide = el("div", { class: "wide" });
		table.replaceWith(wide);
		wide.append(table);
	}
	for (const pre of root.querySelectorAll("pre")) {
		const block = el("div", { class: "block" });
		pre.replaceWith(block);
		block.append(pre, el("button", { onclick: (e) => copy(pre.textContent.replace(/\n$/, ""), e.target) }, "Copy"));
	}
	for (const a of root.querySelectorAll("a[href]")) {
		const to = new URL(a.getAttribute("href"), from);
		if (to.origin !== location.origin) {
			Object.assign(a, { target: "_blank", rel: "noopener" });
		} else if (!state.files.has(pathOf(to)) && below(pathOf(to)).length === 0) {
			a.replaceWith(el("span", { class: "absent", title: `${pathOf(to)} is in the repository, not in this program` }, ...a.childNodes));
		}
	}
	return root;
}

// listing shows a directory.
function listing(dir) {
	const list = below(dir);
	return el("article", {}, el("h1", {}, dir), list.length === 0 ? el("p", { class: "error" }, "There is no such document.") :
		el("ul", {}, list.map((p) => el("li", {}, el("a", { href: "/" + p }, title(p)), el("small", {}, " " + p)))));
}

// show shows what the address names.
function show() {
	let path = pathOf(location);
	if (!(path in state.pages) && path + "/README.md" in state.pages) {
		path += "/README.md";
		history.replaceState(null, "", "/" + path + location.hash);
	}
	if (path !== state.shown) {
		state.shown = path;
		const known = path in state.pages;
		$("main").replaceChildren(known ? article(path) : listing(path));
		document.title = (known ? title(path) : path) + " - Tapir";
		contents();
	}
	const at = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
	if (at) at.scrollIntoView();
	else $("main").scrollTop = 0;
	for (const a of $("contents").querySelectorAll("ul ul a")) {
		if (a.hash === location.hash) a.setAttribute("aria-current", "true");
		else a.removeAttribute("aria-current");
	}
}

// contents lists all documents, and the headings of the one that is shown.
function contents() {
	const item = (path) => {
		const here = path === state.shown;
		const inside = here ? sections().get(path).filter((s) => s.level === 2 || s.level === 3 && sections().get(path).length < 40) : [];
		return el("li", {}, el("a", { href: "/" + path, "aria-current": here ? "page" : null }, title(path)),
			inside.length ? el("ul", {}, inside.map((s) => el("li", {}, el("a", { href: `/${path}#${encodeURIComponent(s.slug)}` }, s.heading)))) : null);
	};
	$("contents").replaceChildren(...groups.map(([name, which]) => {
		const list = state.order.filter((p) => which.test(p));
		const open = list.includes(state.shown) || !/^(lab\/)?examples/.test(list[0]);
		return el("details", { open }, el("summary", {}, name), el("ul", {}, list.map(item)));
	}));
	$("contents").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

function go(url) {
	history.pushState(null, "", url);
	show();
}

// click follows a link to a document without loading the page again.
function click(e) {
	const a = e.target.closest("a[href]");
	if (!a || e.button !== 0 || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || a.target || a.origin !== location.origin) return;
	const path = pathOf(a);
	if (!(path in state.pages) && (!path || state.files.has(path) || below(path).length === 0)) return;
	e.preventDefault();
	go(a.href);
	$("main").focus({ preventScroll: true });
}

function next(by) {
	const i = state.order.indexOf(state.shown);
	const to = state.order[Math.min(Math.max(i + by, 0), state.order.length - 1)];
	if (to !== state.shown) go("/" + to);
}

function keys(e) {
	if (e.ctrlKey || e.altKey || e.metaKey) return;
	const field = $("search"), hits = [...$("hits").querySelectorAll("a")];
	const i = hits.indexOf(document.activeElement);
	if ((e.target === field || i >= 0) && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
		e.preventDefault();
		(hits[e.key === "ArrowDown" ? i + 1 : i - 1] || (e.key === "ArrowUp" ? field : hits[i]))?.focus();
		return;
	}
	if (e.target === field) {
		if (e.key === "Enter") hits[0]?.click();
		if (e.key === "Escape") {
			field.value = "";
			find();
			$("main").focus();
		}
		return;
	}
	const act = {
		j: () => next(1), k: () => next(-1), d: dark, "?": () => $("help").showModal(), "/": () => field.focus(),
	}[e.key];
	if (!act) return;
	e.preventDefault();
	act();
}

async function start() {
	theme();
	$("theme").addEventListener("click", dark);
	$("keys").addEventListener("click", () => $("help").showModal());
	$("search").addEventListener("input", find);
	document.addEventListener("click", click);
	document.addEventListener("keydown", keys);
	addEventListener("popstate", show);
	const d = await get("documents");
	state.pages = d.pages;
	state.files = new Set(d.files);
	const first = ["docs/README.md", "README.md"];
	for (const [, which] of groups) {
		const list = Object.keys(d.pages).filter((p) => which.test(p)).sort((a, b) => first.indexOf(b) - first.indexOf(a) || (a < b ? -1 : 1));
		state.order.push(...list);
	}
	show();
}

start().catch((err) => $("main").replaceChildren(el("p", { class: "error" }, err.message)));

export { article, search, sections, state };
