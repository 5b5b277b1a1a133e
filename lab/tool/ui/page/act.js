// What can be done to a node. Each action is a command line, shown before it runs.

import { copyable, el, post } from "./dom.js";

// What can happen to frames on a link of a lab.
const faults = ["loss", "delay", "jitter", "rate", "corrupt", "duplicate", "reorder"];
const example = { loss: "1%", delay: "3ms", jitter: "1ms", rate: "100Mbit", corrupt: "0.1%", duplicate: "1%", reorder: "1%" };

// Act is the panel of a node. about has others(), the ids of NICs that a Write can go to,
// and of a lab links() and nodes(), names, and link, that which is chosen.
export class Act {
	constructor(id, about) {
		this.id = id;
		this.about = about;
		this.params = [];
		this.verb = el("select", { "aria-label": "Action", onchange: () => this.chosen() });
		this.fields = el("span", { class: "fields" });
		this.line = el("div", { class: "lines" });
		this.run = el("button", { class: "run", onclick: () => this.go() }, "Run");
		this.output = el("pre", { class: "output", role: "status" });
		this.root = el("section", { class: "act", "aria-label": "Act" }, el("h2", {}, "Act"),
			el("div", { class: "bar" }, this.verb, this.fields, this.run), this.line, this.output);
		this.actions = {};
	}

	// offer says what the node can be set to: the table of parameters.
	offer(params) {
		this.params = params.filter((p) => p.runtime);
		const has = (name) => this.params.some((p) => p.name === name);
		const set = (...list) => () => ({ verb: "set", set: list });
		const was = Object.keys(this.actions).join();
		this.actions = {};
		if (this.about.lab) {
			for (const name of ["Fault a link", "Heal a link", "Link down", "Link up", "Kill a node", "Start a node", "Step a clock"]) this.actions[name] = null;
			this.fill(was);
			return;
		}
		if (has("link")) {
			this.actions["Link down"] = set("link=down");
			this.actions["Link up"] = set("link=up");
		}
		if (has("driver")) {
			this.actions["Unload the driver"] = set("driver=none");
			this.actions["Load the driver"] = set("driver=loaded");
		}
		if (this.params.length) this.actions["Set a parameter"] = null;
		this.actions["Set a parameter of PTP"] = null;
		if (this.params.length) this.actions["Post a Write"] = null;
		if (this.id.includes("/")) {
			if (has("link")) this.actions["Step its clock"] = null;
			this.actions["Kill the node"] = () => ({ verb: "kill" });
		}
		this.actions["Stop the node"] = () => ({ verb: "stop" });
		this.fill(was);
	}

	fill(was) {
		if (Object.keys(this.actions).join() === was) return;
		this.verb.replaceChildren(...Object.keys(this.actions).map((name) => el("option", {}, name)));
		this.chosen();
	}

	// propose chooses a parameter to set.
	propose(name) {
		this.verb.value = "Set a parameter";
		this.chosen(name);
		this.fields.querySelector("input").focus();
	}

	chosen(name) {
		const show = () => this.show();
		const input = (attrs) => el("input", { oninput: show, ...attrs });
		let want = this.actions[this.verb.value];
		this.fields.replaceChildren();
		switch (this.verb.value) {
		case "Set a parameter": {
			const which = el("select", { "aria-label": "Parameter", onchange: () => current() },
				this.params.map((p) => el("option", {}, p.name)));
			if (name) which.value = name;
			const value = input({ "aria-label": "Value", size: 14 });
			const help = el("span", { class: "note" });
			const current = () => {
				const p = this.params.find((x) => x.name === which.value);
				value.value = p.value;
				help.textContent = p.help;
				show();
			};
			want = () => ({ verb: "set", set: [which.value + "=" + value.value] });
			this.fields.append(which, value, help);
			this.want = want;
			current();
			return;
		}
		case "Set a parameter of PTP": {
			const value = input({ "aria-label": "NAME=VALUE", value: "priority1=100", size: 24 });
			this.fields.append(value);
			want = () => ({ verb: "ptp-set", set: [value.value] });
			break;
		}
		case "Post a Write": {
			const to = el("select", { "aria-label": "To", onchange: show }, this.about.others().map((id) => el("option", {}, id)));
			const size = input({ "aria-label": "Octets", type: "number", min: 1, value: 65536 });
			this.fields.append("to", to, size, "octets");
			want = () => ({ verb: "write", to: to.value, size: Number(size.value) });
			break;
		}
		}
		this.want = want || this.strike(this.verb.value, input, show);
		show();
	}

	// strike is what happens to a link or node of a lab.
	strike(action, input, show) {
		const select = (label, list, chosen) => {
			const s = el("select", { "aria-label": label, onchange: show }, list.map((name) => el("option", {}, name)));
			if (list.includes(chosen)) s.value = chosen;
			this.fields.append(s);
			return s;
		};
		const link = () => select("Link", this.about.links(), this.about.link);
		const node = () => select("Node", this.about.nodes());
		switch (action) {
		case "Fault a link": {
			const at = link(), values = {};
			for (const name of faults) {
				values[name] = input({ "aria-label": name, size: 6, placeholder: example[name], value: name === "loss" ? "1%" : "" });
				this.fields.append(el("label", {}, name + " ", values[name]));
			}
			return () => ({ verb: "fault", to: at.value, set: faults.filter((f) => values[f].value).map((f) => f + "=" + values[f].value) });
		}
		case "Heal a link": {
			const at = link();
			return () => ({ verb: "heal", to: at.value });
		}
		case "Link down":
		case "Link up": {
			const at = link();
			return () => ({ verb: "link", to: at.value, set: [action === "Link up" ? "up" : "down"] });
		}
		case "Kill a node":
		case "Start a node": {
			const at = node();
			return () => ({ verb: action === "Kill a node" ? "kill" : "start", to: at.value });
		}
		}
		const at = this.about.lab ? node() : { value: "" };
		const by = input({ "aria-label": "By", size: 8, value: "1ms" });
		this.fields.append("by", by);
		return () => ({ verb: "clock", to: at.value, set: ["step=" + by.value] });
	}

	// show asks for the command line.
	async show() {
		const turn = this.turn = {};
		try {
			const done = await post("act", { node: this.id, ...this.want(), dry: true });
			if (turn !== this.turn) return;
			this.line.replaceChildren(...done.commands.map(copyable));
			this.run.disabled = false;
		} catch (err) {
			if (turn !== this.turn) return;
			this.line.replaceChildren(el("p", { class: "error" }, err.message));
			this.run.disabled = true;
		}
	}

	async go() {
		this.run.disabled = true;
		this.output.textContent = "…";
		try {
			const done = await post("act", { node: this.id, ...this.want() });
			this.output.textContent = (done.output || "") + (done.ok ? "done" : "failed");
			this.output.classList.toggle("error", !done.ok);
		} catch (err) {
			this.output.textContent = err.message;
			this.output.classList.add("error");
		}
		this.run.disabled = false;
	}
}
