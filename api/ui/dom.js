// Makes elements, formats numbers, and replaces content without taking the focus away.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((each) => each !== null && each !== undefined && each !== false));
  return node;
}

export const h = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const s = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
export const byId = (id) => document.getElementById(id);

// Replaces what is in `place`. The element with the same data-key keeps the focus, scrolled lists
// stay where they were.
export function put(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const scrolled = [...place.querySelectorAll("[data-scroll]")].map((each) => [each.dataset.scroll, each.scrollTop, each.scrollLeft]);
  place.replaceChildren(...children.flat(3).filter(Boolean));
  for (const [key, top, left] of scrolled) {
    const again = place.querySelector(`[data-scroll="${CSS.escape(key)}"]`);
    if (again) [again.scrollTop, again.scrollLeft] = [top, left];
  }
  if (focused !== undefined) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  for (const [unit, of] of [["G", 1e9], ["M", 1e6], ["k", 1e4]]) {
    if (size >= of) {
      const shown = value / (unit === "k" ? 1e3 : of);
      return `${shown.toFixed(Math.abs(shown) < 100 ? 1 : 0)} ${unit}`;
    }
  }
  return size < 10 && value % 1 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let shown = value;
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (shown < 1000 || unit === "TB") return `${shown < 10 && unit !== "B" ? shown.toFixed(1) : Math.round(shown)} ${unit}`;
    shown /= 1000;
  }
  return "";
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds <= 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const clock = (ms) => new Date(ms).toLocaleString("sv-SE").slice(0, 19);

// Each state has a sign, a word and one of five colours, so that none depends on colour alone.
export const STATES = {
  ok: ["ok", "✓", "in time"], paused: ["info", "‖", "paused"], limited: ["info", "◔", "rate limit"],
  lagging: ["warn", "◷", "lagging"], unknown: ["warn", "?", "unknown"], losing: ["bad", "⚠", "losing soon"],
  lost: ["bad", "⚠", "records lost"], stuck: ["worst", "✕", "stuck"], failed: ["worst", "✕", "failed"],
};
export const ORDER = Object.keys(STATES);
export const pill = (health, text) => {
  const [level, sign, word] = STATES[health] ?? STATES.unknown;
  return h("span", { class: `pill ${level}` }, h("span", { "aria-hidden": "true" }, sign), text ?? word);
};
export const card = (title, attributes, ...children) => {
  const id = `card-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { class: `card ${attributes.class ?? ""}`, "aria-labelledby": id, id: attributes.id },
    h("div", { class: "row between" }, h("h2", { id }, title), attributes.aside), ...children);
};
export const empty = (text) => h("p", { class: "empty" }, text);

// columns: [heading, cell of a row, class]
export function table(caption, columns, rows, key) {
  return h("div", { class: "scroll tall", "data-scroll": caption, tabindex: "0", role: "region", "aria-label": `Table: ${caption}`, "data-key": `scroll ${caption}` },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map(([head, , kind]) => h("th", { scope: "col", class: kind }, head)))),
      h("tbody", {}, rows.map((row) => h("tr", { "data-row": key?.(row) }, columns.map(([, cell, kind]) => h("td", { class: kind }, cell(row))))))));
}
