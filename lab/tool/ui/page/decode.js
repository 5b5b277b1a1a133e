// The headers of a packet as text, for a page without a server and its tshark.

const types = { 0x0800: "IPv4", 0x86dd: "IPv6", 0x0806: "ARP", 0x88f7: "PTP", 0x88cc: "LLDP", 0x8906: "FCoE", 0x8915: "RoCEv1", 0x894f: "NSH", 0x8100: "VLAN" };
const ptp = { 0: "Sync", 1: "Delay_Req", 2: "Pdelay_Req", 3: "Pdelay_Resp", 8: "Follow_Up", 9: "Delay_Resp", 10: "Pdelay_Resp_Follow_Up", 11: "Announce", 12: "Signaling", 13: "Management" };

// decode returns lines about the octets of a frame, in hexadecimal, of which the end may be missing.
export function decode(hex) {
	const b = Uint8Array.from(hex.match(/../g) || [], (x) => parseInt(x, 16)), v = new DataView(b.buffer), lines = [];
	const mac = (at) => [...b.slice(at, at + 6)].map((x) => x.toString(16).padStart(2, "0")).join(":");
	try {
		let at = 12, type = v.getUint16(at);
		if (type === 0x8100) {
			lines.push(`VLAN ${v.getUint16(14) & 0xfff}, priority ${v.getUint16(14) >> 13}`);
			type = v.getUint16(at += 4);
		}
		lines.unshift(`Ethernet ${mac(6)} to ${mac(0)}, type 0x${type.toString(16).padStart(4, "0")} ${types[type] || ""}`);
		at += 2;
		if (type === 0x88f7) messagePTP(at);
		if (type === 0x0800) packetIP(at, at + (b[at] & 15) * 4, b[at + 9], (k) => b.slice(at + 12 + 4 * k, at + 16 + 4 * k).join("."),
			`IPv4 length ${v.getUint16(at + 2)}, identification ${v.getUint16(at + 4)}, TTL ${b[at + 8]}, ECN ${b[at + 1] & 3}`);
		if (type === 0x86dd) packetIP(at, at + 40, b[at + 6], (k) => Array.from({ length: 8 }, (_, i) => v.getUint16(at + 8 + 16 * k + 2 * i).toString(16)).join(":"),
			`IPv6 payload ${v.getUint16(at + 4)}, hop limit ${b[at + 7]}`);
	} catch (err) {
		if (!(err instanceof RangeError)) throw err; // the frame ends before its headers do
	}
	return lines.join("\n");

	function packetIP(at, next, protocol, address, what) {
		lines.push(`${what}, ${address(0)} to ${address(1)}`);
		if (protocol === 6) {
			const flags = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"].filter((_, i) => b[next + 13] >> i & 1);
			lines.push(`TCP port ${v.getUint16(next)} to ${v.getUint16(next + 2)}, sequence ${v.getUint32(next + 4)}, acknowledgment ${v.getUint32(next + 8)}, ` +
				`window ${v.getUint16(next + 14)}, ${flags.join(" ")}`);
		}
		if (protocol === 17) {
			const to = v.getUint16(next + 2);
			lines.push(`UDP port ${v.getUint16(next)} to ${to}, length ${v.getUint16(next + 4)}`);
			if (to === 4791) lines.push(`BTH opcode 0x${b[next + 8].toString(16).padStart(2, "0")}, queue pair ${v.getUint32(next + 12) & 0xffffff}, PSN ${v.getUint32(next + 16) & 0xffffff}`);
			if (to === 319 || to === 320) messagePTP(next + 8);
		}
	}

	function messagePTP(at) {
		lines.push(`PTP ${ptp[b[at] & 15] || "message " + (b[at] & 15)}, domain ${b[at + 4]}, sequence ${v.getUint16(at + 30)}, ` +
			`correctionField ${Number(v.getBigInt64(at + 8)) / 65536} ns`);
	}
}

// dump is hexadecimal as hexdump -C has it.
export function dump(hex) {
	return (hex.match(/.{1,32}/g) || []).map((line, i) => (16 * i).toString(16).padStart(8, "0") + "  " + line.match(/../g).join(" ")).join("\n");
}
