// The page: which flow and view are chosen, and when to ask again. While the page is hidden, it
// asks nothing. An answer that has not changed costs a 304.

import { connectors } from "./connectors.js";
import { get } from "./data.js";
import { ORDER, STATES, byId, bytes, clock, duration, empty, h, number, pill, put } from "./dom.js";
import * as drawer from "./drawer.js";
import { graph } from "./graph.js";
import { PANELS } from "./panels.js";

const VIEWS = { ...PANELS, connectors };
const EVERY_S = 3, RETRY_S = 5;

const state = { flow: null, view: "overview", hours: 24, sort: "worst", contains: "", mirrors: null, shown: null, asked: new Map(), answers: new Map() };

const summary = () => state.mirrors?.flows.find((each) => each.name === state.flow);

const context = {
  get flow() { return state.flow; }, get hours() { return state.hours; }, get sort() { return state.sort; }, get contains() { return state.contains; },
  get summary() { return summary(); }, get viewer() { return state.mirrors.viewer; },
  open: (topic, partition) => drawer.openPartition(state.flow, topic, partition),
  group: drawer.openGroup,
  setHours: (hours) => { state.hours = hours; soon(); },
  setSort: (sort) => { state.sort = sort; soon(); },
  setContains: (text) => { state.contains = text; soon(); },
  filter: (text) => { state.contains = text; soon(); byId("contains")?.focus(); },
  soon: () => { setTimeout(soon, 300); },
};

function address() {
  const [flow, view] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (flow) state.flow = flow;
  if (VIEWS[view]) state.view = view;
}

function choose(flow, view = state.view) {
  history.replaceState(null, "", `#${encodeURIComponent(flow)}/${view}`);
  state.flow = flow;
  state.view = view;
  drawer.close();
  soon();
}

// What is shown.

function showTop() {
  const { flows, viewer, at_ms: at } = state.mirrors;
  const worst = flows.reduce((health, each) => (ORDER.indexOf(each.health) > ORDER.indexOf(health) ? each.health : health), "ok");
  const [level, sign, word] = STATES[worst];
  const overall = byId("overall");
  const text = flows.length ? `${sign} ${worst === "ok" ? "all flows in time" : `${flows.filter((each) => each.health === worst).length} of ${flows.length} flows: ${word}`}` : "no flows";
  overall.className = `pill ${level}`;
  if (overall.textContent !== text) overall.textContent = text;
  document.title = worst === "ok" ? "Mirrors" : `${sign} ${word} – Mirrors`;
  byId("live").textContent = `Live, as of ${clock(at).slice(11)}`;
  byId("viewer").textContent = viewer.user === null ? (viewer.connectors ? "" : "read-only") : `${viewer.user} (${viewer.role})`;
  const place = byId("graph");
  put(place, flows.length ? graph(flows, state.flow, (flow) => choose(flow), place.clientWidth) : empty("No mirror connector is configured."));
}

function showHead(flow) {
  const value = (name, shown, kind = "") => h("div", {}, h("dt", {}, name), h("dd", { class: kind }, shown));
  put(byId("flow-head"),
    h("div", { class: "row" }, h("h2", {}, `${flow.source} → ${flow.target}`), pill(flow.health)),
    h("p", { class: "why" }, flow.why),
    flow.history ? h("p", { class: "note worst" }, flow.history) : null,
    h("dl", { class: "numbers" },
      value("Throughput", flow.records_per_second === null ? "–" : `${number(flow.records_per_second)}/s`),
      value("Bytes", flow.bytes_per_second === null ? "–" : `${bytes(flow.bytes_per_second)}/s`),
      value("Lag", number(flow.lag_records)), value("Behind", duration(flow.lag_seconds), flow.lagging ? "warn-text" : ""),
      value("Latency", flow.latency_ms === null ? "–" : duration(flow.latency_ms / 1000)),
      value("Time to loss", flow.time_to_loss_seconds === null ? "none" : duration(flow.time_to_loss_seconds), flow.time_to_loss_seconds !== null && flow.time_to_loss_seconds < 14400 ? "worst-text" : ""),
      value("Stuck", `${number(flow.stuck)} of ${number(flow.partitions)}`, flow.stuck ? "worst-text" : ""),
      value("Lost in 24 h", number(flow.lost_records), flow.losses ? "worst-text" : "")));
}

function showTabs() {
  const names = Object.keys(VIEWS);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(state.view) + step + names.length) % names.length];
    choose(state.flow, next);
    byId(`tab-${next}`).focus();
  };
  put(byId("tabs"), names.map((name) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "data-key": `tab ${name}`, "aria-controls": "panel",
    "aria-selected": String(name === state.view), tabindex: name === state.view ? "0" : "-1", onclick: () => choose(state.flow, name), onkeydown: move }, VIEWS[name].title)));
  byId("panel").setAttribute("aria-labelledby", `tab-${state.view}`);
}

function showPanel(force) {
  const view = VIEWS[state.view];
  const answers = view.asks(context).map(([path]) => state.answers.get(path));
  const key = `${state.flow}/${state.view}`;
  // Typing, an open list and a selection of text are not disturbed.
  const busy = byId("panel").contains(document.activeElement) && ["INPUT", "SELECT"].includes(document.activeElement.tagName);
  if (!force && busy && state.shown === key) return;
  state.shown = key;
  put(byId("panel"), view.show(answers, context));
}

function problem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text ?? "";
}

// When to ask.

let timer = null, running = false, again = false;

function soon() {
  clearTimeout(timer);
  if (running) again = true;
  else tick(true);
}

async function tick(force = false) {
  running = true;
  let wait = EVERY_S;
  try {
    if (!document.hidden) await ask(force);
    problem(null);
  } catch (error) {
    wait = RETRY_S;
    problem(error.name === "TimeoutError" || error instanceof TypeError ? "This worker does not answer. What you see may be out of date; trying again." : error.message);
  }
  running = false;
  const now = again;
  again = false;
  timer = setTimeout(() => tick(now), now ? 0 : wait * 1000);
}

async function ask(force) {
  const [mirrors] = await get("/mirrors");
  state.mirrors = mirrors;
  if (!summary()) state.flow = [...mirrors.flows].sort((a, b) => ORDER.indexOf(b.health) - ORDER.indexOf(a.health))[0]?.name ?? null;
  showTop();
  byId("main").hidden = !summary();
  if (!summary()) return;
  showHead(summary());
  showTabs();
  if (force) showPanel(true);
  const failed = [];
  let changed = state.view === "connectors";
  await Promise.all(VIEWS[state.view].asks(context).map(async ([path, every]) => {
    if (Date.now() - (state.asked.get(path) ?? 0) < every * 1000 - 500) return;
    state.asked.set(path, Date.now());
    try {
      const [value, fresh] = await get(path);
      changed ||= fresh || !state.answers.has(path);
      state.answers.set(path, value);
    } catch (error) { failed.push(error); }
  }));
  if (state.answers.size > 80) state.answers.clear();
  if (changed || force) showPanel(force);
  await drawer.refresh();
  if (failed.length) throw failed[0];
}

// Light and dark.

function theme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  if (state.mirrors) soon();
}
const preferred = matchMedia("(prefers-color-scheme: dark)");
const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
theme((kept() ?? (preferred.matches ? "dark" : "light")) === "dark");
preferred.addEventListener("change", () => { if (kept() === null) theme(preferred.matches); });
byId("theme").addEventListener("click", () => {
  const dark = !document.documentElement.classList.contains("dark");
  try { localStorage.setItem("theme", dark ? "dark" : "light"); } catch { /* private windows keep nothing */ }
  theme(dark);
});

byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && drawer.isOpen() && !byId("dialog").open) drawer.close(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
addEventListener("hashchange", () => { address(); soon(); });
addEventListener("resize", () => { if (state.mirrors) showTop(); });
address();
soon();
