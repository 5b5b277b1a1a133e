package page

import (
	"encoding/json"
	"testing"

	"tapir/lab/check/testenv"
)

// leftovers looks at each document as the page draws it: Markdown that was not
// understood, elements that HTML does not have, names of headings that the search has
// otherwise, and links that lead nowhere. It returns what it finds.
const leftovers = `(async () => {
	const { article, sections, state } = await import("/lab/tool/ui/documents/documents.js");
	const drawn = new Map(state.order.map((p) => [p, article(p)]));
	const found = [];
	for (const [path, a] of drawn) {
		const say = (what) => found.push(path + ": " + what);
		const ids = [...a.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((h) => h.id).join();
		if (ids !== sections().get(path).map((s) => s.slug).join()) say("the search has other headings");
		for (const e of a.querySelectorAll("*")) if (e instanceof HTMLUnknownElement) say("element " + e.localName);
		const text = a.cloneNode(true);
		text.querySelectorAll("pre, code").forEach((e) => e.remove());
		for (const m of text.textContent.matchAll(/.*(\]\(|\*\*|` + "`" + `|^\s*\|.*\||^#+ ).*/gm)) say("left over: " + m[0]);
		for (const pre of a.querySelectorAll("pre")) if (!pre.parentNode.querySelector("button")) say("no button copies a block");
		for (const l of a.querySelectorAll("a[href]")) {
			const to = new URL(l.getAttribute("href"), new URL("/" + path, location.href));
			const other = decodeURIComponent(to.pathname.slice(1));
			if (to.origin === location.origin && to.hash && drawn.has(other) &&
				!drawn.get(other).querySelector("#" + CSS.escape(decodeURIComponent(to.hash.slice(1))))) say("nothing is at " + to.pathname + to.hash);
		}
		for (const i of a.querySelectorAll("img")) {
			const r = await fetch(new URL(i.getAttribute("src"), new URL("/" + path, location.href)));
			if (!r.ok || !r.headers.get("Content-Type").startsWith("image/")) say("no picture at " + i.src);
		}
	}
	return { found, drawn: drawn.size };
})()`

// TestDocuments reads the documents: the list, a link, an anchor, pictures, the search, a
// block that is copied, by mouse and by keys.
func TestDocuments(t *testing.T) {
	w := newWorld(t)
	b := w.page()
	b.call("Browser.grantPermissions", map[string]any{"permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"}})
	b.text("Documents")
	b.eval(`document.querySelector("#documents").click()`)
	b.until(`location.pathname === "/docs/README.md" && document.querySelector("article h1")?.innerText.startsWith("Documents")`)

	// A link to a document, and one to a heading.
	b.eval(`document.querySelector("article a[href='howto/ui.md']").click()`)
	b.until(`location.pathname === "/docs/howto/ui.md" && document.querySelectorAll("article img").length > 2`)
	b.until(`[...document.querySelectorAll("article img")].every((i) => i.complete && i.naturalWidth > 100)`)
	b.until(`document.querySelector("#contents [aria-current=page]").innerText.includes("tapir ui")`)
	b.eval(`[...document.querySelectorAll("#contents ul ul a")].find((a) => a.innerText === "Keys").click()`)
	b.until(`location.hash === "#keys" && document.querySelector("#keys").getBoundingClientRect().top < innerHeight`)
	b.screenshot(shot("documents"))
	b.eval(`history.go(-2)`)
	b.until(`location.pathname === "/docs/README.md" && document.querySelector("article h1").innerText.startsWith("Documents")`)

	// The search, by keys.
	b.press("/")
	b.until(`document.activeElement.id === "search"`)
	b.call("Input.insertText", map[string]any{"text": "lossy link"})
	b.until(`document.querySelector("#hits mark")`)
	b.press("d") // in a field, a letter is a letter
	b.until(`document.querySelector("#search").value === "lossy linkd" && !document.documentElement.dataset.theme`)
	b.eval(`(() => { const s = document.querySelector("#search"); s.value = "topology zoom slider"; s.dispatchEvent(new Event("input")); })()`)
	b.until(`[...document.querySelectorAll("#hits a")].some((a) => a.pathname === "/docs/howto/ui.md")`)
	b.eval(`(() => { const s = document.querySelector("#search"); s.value = "retransmission timeout"; s.dispatchEvent(new Event("input")); s.focus(); })()`)
	b.until(`document.querySelector("#hits a")`)
	b.press("ArrowDown")
	b.until(`document.activeElement === document.querySelector("#hits a")`)
	hit := b.eval(`document.activeElement.pathname + document.activeElement.hash`)
	b.press("Enter")
	b.until(`location.pathname + location.hash === ` + hit)
	b.press("d")
	b.until(`["dark", "light"].includes(document.documentElement.dataset.theme)`)
	b.screenshot(shot("documents-dark"))

	// A block is copied, and a directory and a picture of SVG are shown.
	b.eval(`history.pushState(null, "", "/README.md"); dispatchEvent(new PopStateEvent("popstate"))`)
	b.until(`document.querySelector("article h1").innerText.startsWith("Tapir")`)
	b.press("j")
	b.until(`location.pathname === "/docs/README.md"`)
	b.press("k")
	b.until(`location.pathname === "/README.md"`)
	b.eval(`[...document.querySelectorAll(".block")].find((e) => e.innerText.includes("make demo")).querySelector("button").click()`)
	b.until(`[...document.querySelectorAll(".block button")].some((e) => e.innerText === "Copied")`)
	if got := b.eval(`navigator.clipboard.readText()`); got != `"make demo"` {
		t.Errorf("the clipboard has %s", got)
	}
	b.eval(`location.href = "/docs/start"`)
	b.until(`document.querySelectorAll("article li a").length === 5`)
	b.eval(`location.href = "/docs/concepts/architecture.md"`)
	b.until(`document.querySelector("article img")?.naturalWidth > 100`)
	b.screenshot(shot("documents-svg"))

	var all struct {
		Found []string
		Drawn int
	}
	testenv.Must(t, json.Unmarshal([]byte(b.eval(leftovers)), &all))
	for _, f := range all.Found {
		t.Error(f)
	}
	if all.Drawn < 90 {
		t.Errorf("%d documents", all.Drawn)
	}
	if all := b.complaints(); all != "" {
		t.Error(all)
	}
}
