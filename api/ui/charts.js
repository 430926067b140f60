// Line charts of the history.

import { card, clock, h, s } from "./dom.js";

const W = innerWidth < 760 ? 340 : 560, H = 170, LEFT = 8, TOP = 14, BOTTOM = 22;

function top(highest) {
  if (highest <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(highest));
  return [1, 2, 2.5, 5, 10].map((each) => each * unit).find((each) => each >= highest);
}

const time = (ms, hours) => {
  const text = new Date(ms).toLocaleString("sv-SE");
  return hours > 48 ? text.slice(5, 10) : text.slice(11, 16);
};

// value: of a point, or null where it is not known; a gap is left there.
export function chart(title, series, value, format) {
  const { start_ms: start, end_ms: end, step_ms: step, points } = series;
  const known = points.map((point) => [point.at_ms + step / 2, value(point)]).filter(([, each]) => each !== null);
  const values = known.map(([, each]) => each);
  const highest = Math.max(0, ...values), limit = top(highest);
  const x = (ms) => LEFT + Math.min(1, Math.max(0, (ms - start) / (end - start))) * (W - 2 * LEFT);
  const y = (each) => TOP + (1 - each / limit) * (H - TOP - BOTTOM);
  const runs = [];
  for (const [ms, each] of known) {
    const last = runs.at(-1);
    if (last && ms - last.at(-1)[0] <= 2.5 * step) last.push([ms, each]);
    else runs.push([[ms, each]]);
  }
  const line = (run) => run.map(([ms, each], n) => `${n ? "L" : "M"}${x(ms).toFixed(1)} ${y(each).toFixed(1)}`).join("");
  const hours = (end - start) / 3600000;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => start + part * (end - start));
  const hint = h("p", { class: "muted hint", "aria-hidden": "true" }, known.length ? `highest ${format(highest)}` : "");
  const cursor = s("line", { class: "cursor", y1: TOP, y2: H - BOTTOM, visibility: "hidden" });
  const show = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const ms = start + ((event.clientX - box.left) / box.width * W - LEFT) / (W - 2 * LEFT) * (end - start);
    const near = known.reduce((best, each) => (best === null || Math.abs(each[0] - ms) < Math.abs(best[0] - ms) ? each : best), null);
    if (near === null) return;
    cursor.setAttribute("x1", x(near[0])); cursor.setAttribute("x2", x(near[0])); cursor.setAttribute("visibility", "visible");
    hint.textContent = `${clock(near[0])}: ${format(near[1])}`;
  };
  const last = values.at(-1);
  const summary = known.length ? `${title}: now ${format(last)}, highest ${format(highest)}, lowest ${format(Math.min(...values))}` : `${title}: no data`;
  return card(title, { class: "chart", aside: h("span", { class: "now" }, last === undefined ? "–" : format(last)) },
    s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": summary, onpointermove: show },
      [0, 0.5, 1].map((part) => [s("line", { class: "axis", x1: LEFT, x2: W - LEFT, y1: y(part * limit), y2: y(part * limit) }),
        part ? s("text", { x: LEFT + 2, y: y(part * limit) - 3 }, format(part * limit)) : null]),
      ticks.map((ms, n) => s("text", { x: x(ms), y: H - 6, "text-anchor": n === 0 ? "start" : n === 4 ? "end" : "middle" }, time(ms, hours))),
      runs.map((run) => [run.length > 1 ? s("path", { class: "area", d: `${line(run)}L${x(run.at(-1)[0])} ${y(0)}L${x(run[0][0])} ${y(0)}Z` }) : s("circle", { cx: x(run[0][0]), cy: y(run[0][1]), r: 2, fill: "var(--accent)" }),
        s("path", { class: "line", d: line(run) })]),
      cursor), hint);
}
