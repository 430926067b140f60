// The flows as a graph: clusters in columns in the direction of the data, a hub in the middle.

import { STATES, duration, number, s } from "./dom.js";

const HEIGHT = 44, COLUMN = 350, ROW = 108, EDGE = 26;
let WIDTH = 132;

// From each cluster to its column and row.
function places(flows) {
  const names = [...new Set(flows.flatMap((each) => [each.source, each.target]))].sort();
  const near = (name) => new Set(flows.filter((f) => f.source === name || f.target === name).flatMap((f) => [f.source, f.target]).filter((each) => each !== name));
  const hub = names.find((name) => near(name).size >= 3 && flows.every((f) => f.source === name || f.target === name));
  const column = new Map();
  if (hub) {
    column.set(hub, 1);
    let both = 0;
    for (const name of near(hub)) {
      const out = flows.some((f) => f.target === name), into = flows.some((f) => f.source === name);
      column.set(name, out && into ? (both++ % 2 ? 0 : 2) : out ? 2 : 0);
    }
  } else {
    const order = [...names].sort((a, b) => incoming(flows, a) - incoming(flows, b) || a.localeCompare(b));
    const visit = (name, depth) => {
      if (column.has(name)) return;
      column.set(name, depth);
      for (const flow of flows) if (flow.source === name) visit(flow.target, depth + 1);
    };
    for (const name of order) visit(name, 0);
    // A cluster after all that feed it, unless that goes round in a circle.
    for (let round = 0; round < names.length; round++)
      for (const { source, target } of flows)
        if (!flows.some((f) => f.source === target && f.target === source) && !reaches(flows, target, source) && column.get(target) <= column.get(source))
          column.set(target, column.get(source) + 1);
  }
  const rows = new Map(), used = new Map();
  for (const name of names) {
    const at = column.get(name);
    used.set(at, (used.get(at) ?? 0) + 1);
    rows.set(name, used.get(at) - 1);
  }
  const tallest = Math.max(...used.values());
  return new Map(names.map((name) => {
    const at = column.get(name);
    return [name, { column: at, row: rows.get(name) + (tallest - used.get(at)) / 2 }];
  }));
}

const incoming = (flows, name) => flows.filter((f) => f.target === name && !flows.some((g) => g.source === name && g.target === f.source)).length;

function reaches(flows, from, to, seen = new Set()) {
  if (from === to) return true;
  seen.add(from);
  return flows.some((f) => f.source === from && !seen.has(f.target) && reaches(flows, f.target, to, seen));
}

function edge(flow, from, to, twoWay, along, short, chosen, choose) {
  const [level, sign, word] = STATES[flow.health];
  const dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const off = twoWay ? EDGE : 0;
  // To the right of the direction, so that there and back are two lines.
  const [nx, ny] = [-uy * off, ux * off];
  const reach = (u, v) => Math.min((WIDTH / 2 + 6) / (Math.abs(u) || 1e-9), (HEIGHT / 2 + 6) / (Math.abs(v) || 1e-9));
  const gap = reach(ux, uy);
  const a = [from.x + ux * gap + nx * 0.45, from.y + uy * gap + ny * 0.45], b = [to.x - ux * (gap + 8) + nx * 0.45, to.y - uy * (gap + 8) + ny * 0.45];
  const middle = [(a[0] + b[0]) / 2 + nx * 1.1, (a[1] + b[1]) / 2 + ny * 1.1];
  const path = `M${a}Q${middle} ${b}`;
  const angle = Math.atan2(b[1] - middle[1], b[0] - middle[0]);
  const tip = [0.42, -0.42].map((turn) => [b[0] - 13 * Math.cos(angle + turn), b[1] - 13 * Math.sin(angle + turn)]);
  const [u, v] = [1 - along, along];
  const text = [0, 1].map((n) => u * u * a[n] + 2 * u * v * middle[n] + v * v * b[n]);
  const below = twoWay && ny > 0.1;
  // A flow that is not well may have records that wait but no lag in time: nothing was copied yet.
  const waits = flow.health !== "ok" && flow.lag_records ? `${number(flow.lag_records)} records behind` : "in sync";
  const lag = flow.lag_seconds === null ? "" : flow.lag_seconds < 1 ? waits : `${duration(flow.lag_seconds)} behind`;
  const rate = flow.records_per_second === null ? "" : `${number(flow.records_per_second)}/s`;
  const label = short ? (flow.health === "ok" ? "" : word) : flow.health === "ok" || !lag ? [rate, lag].filter(Boolean).join(" · ") : `${word} · ${lag}`;
  const go = (event) => { event.preventDefault(); choose(flow.name); };
  return s("a", { class: `edge ${level}${chosen ? " chosen" : ""}`, href: `#${encodeURIComponent(flow.name)}`, "data-key": `edge ${flow.name}`, onclick: go,
    "aria-current": chosen ? "true" : null, "aria-label": `${flow.source} to ${flow.target}: ${sign}\u00a0\u00a0${label} (${word}). ${flow.why}` },
  s("path", { class: "hit", d: path }), s("path", { class: "line", d: path }),
  s("path", { class: "tip", d: `M${b}L${tip[0]}L${tip[1]}Z` }),
  s("text", { x: text[0], y: text[1] + (below ? 19 : -9) }, s("tspan", { class: "sign" }, `${sign}\u00a0\u00a0`), label));
}

export function graph(flows, chosen, choose, width) {
  const where = places(flows);
  const columns = Math.max(...[...where.values()].map((at) => at.column)) + 1;
  const rows = Math.max(...[...where.values()].map((at) => at.row)) + 1;
  // A narrow window shows the columns as rows.
  const turned = width < 640 && columns > 1;
  const [across, down] = turned ? [Math.max(118, Math.min(240, width / rows)), 120] : [COLUMN, ROW];
  WIDTH = turned ? 104 : 132;
  const position = ({ column, row }) => turned
    ? { x: row * across + across / 2, y: column * down + HEIGHT / 2 + 24 }
    : { x: column * across + WIDTH / 2 + 16, y: row * down + HEIGHT / 2 + 28 };
  const total = turned ? [rows * across, (columns - 1) * down + HEIGHT + 48] : [(columns - 1) * across + WIDTH + 32, (rows - 1) * down + HEIGHT + 56];
  const at = new Map([...where].map(([name, place]) => [name, position(place)]));
  // The words stand nearer to the cluster with fewer flows, where there is room.
  const degree = (name) => flows.filter((each) => each.source === name || each.target === name).length;
  const along = (flow) => 0.5 + 0.1 * Math.sign(degree(flow.source) - degree(flow.target));
  const back = (flow) => flows.some((each) => each.source === flow.target && each.target === flow.source);
  return s("svg", { viewBox: `0 0 ${total.join(" ")}`, width: total[0], height: total[1], role: "group", "aria-label": "Clusters and the flows between them" },
    flows.map((flow) => edge(flow, at.get(flow.source), at.get(flow.target), back(flow), along(flow), turned, flow.name === chosen, choose)),
    [...at].map(([name, { x, y }]) => s("g", { class: "node" },
      s("rect", { x: x - WIDTH / 2, y: y - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: 12 }), s("text", { x, y: y + 5 }, name.length > (turned ? 11 : 16) ? `${name.slice(0, turned ? 10 : 15)}…` : name, s("title", {}, name)))));
}
