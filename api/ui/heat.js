// The lag of all partitions: a cell for each, by topic. A topic is a button that lists its
// partitions; a click on a cell opens that partition.

import { STATES, empty, h, number } from "./dom.js";

const CELL = 11, GAP = 2;
const LEGEND = ["caught up", "behind < 10 s", "< 1 min", "< 10 min", "< 1 h", "more", "⚠ losing within 4 h", "✕ stuck"];

function draw(canvas, topic, colours) {
  const width = canvas.clientWidth || 190, ratio = devicePixelRatio || 1;
  const across = Math.max(1, Math.floor((width + GAP) / (CELL + GAP)));
  const rows = Math.ceil(topic.levels.length / across);
  canvas.width = width * ratio;
  canvas.height = rows * (CELL + GAP) * ratio;
  canvas.style.height = `${rows * (CELL + GAP)}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  for (let n = 0; n < topic.levels.length; n++) {
    const x = (n % across) * (CELL + GAP), y = Math.floor(n / across) * (CELL + GAP), level = topic.levels[n];
    pen.fillStyle = colours[level] ?? colours["-"];
    pen.fillRect(x, y, CELL, CELL);
    // A mark beside the colour.
    if (level === "7" || level === "6") {
      pen.strokeStyle = colours.mark;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.moveTo(x + 3, y + 3); pen.lineTo(x + CELL - 3, y + CELL - 3);
      if (level === "7") { pen.moveTo(x + CELL - 3, y + 3); pen.lineTo(x + 3, y + CELL - 3); }
      pen.stroke();
    }
  }
  return across;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const found = { "-": of("--hx"), mark: of("--card") };
  for (let level = 0; level < 8; level++) found[level] = of(`--h${level}`);
  return found;
}

export function heat(map, context) {
  if (!map.topics.length) return empty("No partition is known yet.");
  const paint = colours(), canvases = [];
  const blocks = map.topics.map((topic) => {
    const canvas = h("canvas", { "aria-hidden": "true", height: CELL });
    const at = (event) => {
      const box = canvas.getBoundingClientRect(), across = Number(canvas.dataset.across);
      const column = Math.floor((event.clientX - box.left) / (CELL + GAP)), row = Math.floor((event.clientY - box.top) / (CELL + GAP));
      const n = row * across + column;
      return event.target === canvas && column < across && n < topic.levels.length ? topic.first + n : null;
    };
    canvases.push([canvas, topic]);
    const size = topic.levels.length > 160 ? "all" : topic.levels.length > 48 ? "two" : "";
    const word = STATES[topic.health];
    const button = h("button", { type: "button", class: size, "data-key": `heat ${topic.topic}`,
      onclick: (event) => { const n = at(event); if (n === null || event.detail === 0) context.filter(`${topic.topic}-`); else context.open(topic.topic, n); },
      onpointermove: (event) => { const n = at(event); button.title = n === null ? topic.topic : `${topic.topic}-${n}`; } },
    h("span", { class: "name" }, h("span", {}, `${topic.health === "ok" ? "" : `${word[1]} `}${topic.topic}`), h("span", { class: "muted" }, topic.records ? number(topic.records) : "")),
    h("span", { class: "sr" }, ` records behind, ${topic.partitions} partitions, ${word[2]}. List them`), canvas);
    return button;
  });
  // The width is known when the page has them.
  requestAnimationFrame(() => { for (const [canvas, topic] of canvases) if (canvas.isConnected) canvas.dataset.across = draw(canvas, topic, paint); });
  return [
    h("ul", { class: "legend", "aria-label": "Colours" }, LEGEND.map((text, level) => h("li", { class: `l${level}` }, text)), h("li", {}, "not known")),
    h("div", { class: "heat", "data-scroll": "heat", tabindex: "0", role: "group", "aria-label": "Topics, the worst first", "data-key": "heat" }, blocks),
    map.omitted_partitions ? h("p", { class: "muted" }, `${number(map.omitted_partitions)} partitions of ${number(map.omitted_topics)} topics that are better off are left out.`) : null,
  ];
}
