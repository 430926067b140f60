// The views of one flow. Each has what it asks for, how often, and how it shows the answers.

import { chart } from "./charts.js";
import { flowPath } from "./data.js";
import { bytes, card, clock, duration, empty, h, number, pill, s, table } from "./dom.js";
import { heat } from "./heat.js";

const partitionName = (each) => `${each.topic}-${each.partition}`;

const opens = (each, context, prefix) =>
  h("button", { type: "button", class: "link", "data-key": `${prefix} ${partitionName(each)}`, onclick: () => context.open(each.topic, each.partition) }, partitionName(each));

function losses(answer, context) {
  if (!answer.partitions.length) return empty("No loss is expected: the source keeps what is not copied yet.");
  const furthest = Math.max(...answer.partitions.map((each) => each.time_to_loss_seconds));
  return h("ol", { class: "bars" }, answer.partitions.map((each) => {
    const soon = each.time_to_loss_seconds < 4 * 3600;
    return h("li", {}, opens(each, context, "loss"),
      h("span", { class: soon ? "worst-text" : "" }, soon ? "⚠ " : "", duration(each.time_to_loss_seconds)),
      s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", { width: Math.max(1.5, 100 * each.time_to_loss_seconds / (furthest || 1)), height: 6, fill: soon ? "var(--worst)" : "var(--accent)" })));
  }));
}

const KINDS = {
  stuck: "stuck", moving: "moves again", retention: "lost: retention", truncation: "lost: truncation", "source.recreated": "topic re-created",
  "target.recreated": "target re-created", "target.loss": "lost on the target", quarantined: "quarantined", skipped: "skipped",
  "already.copied": "found after a crash", changed: "changed", moved: "failover", "task.started": "task started", "task.stopped": "task stopped",
  "task.failed": "task failed", "connector.failed": "connector failed",
};
const LEVELS = { moving: "ok", "already.copied": "ok", changed: "paused", moved: "paused", "task.started": "paused", "task.stopped": "paused", stuck: "stuck", "task.failed": "failed", "connector.failed": "failed", quarantined: "lagging", skipped: "lagging" };

export function eventTable(events, context, caption = "Events") {
  if (!events.length) return empty("Nothing has happened.");
  return table(caption, [
    ["Time", (each) => clock(each.at_ms), "when"],
    ["What", (each) => pill(LEVELS[each.kind] ?? "lost", KINDS[each.kind] ?? each.kind)],
    ["Where", (each) => (each.partition === null ? each.topic || "flow" : context ? opens(each, context, "event") : partitionName(each)), "name"],
    ["Records", (each) => (each.records ? number(each.records) : ""), "number"],
    ["Details", (each) => each.text || each.action, "text"],
  ], events, (each) => `${each.at_ms} ${each.kind}`);
}

const HOURS = [[1, "1 hour"], [6, "6 hours"], [24, "24 hours"], [168, "7 days"]];

export function charts(series) {
  return h("div", { class: "grid" },
    chart("Throughput", series, (point) => point.records_per_second, (each) => `${number(each)} records/s`),
    chart("Bytes", series, (point) => point.bytes_per_second, (each) => `${bytes(each)}/s`),
    chart("Oldest uncopied record", series, (point) => point.lag_seconds ?? 0, duration),
    chart("Lag", series, (point) => point.lag_records, (each) => `${number(each)} records`),
    chart("Latency", series, (point) => point.latency_ms, (each) => duration(each / 1000)),
    chart("Stuck partitions", series, (point) => point.stuck, number));
}

const overview = {
  title: "Overview",
  asks: (context) => [
    [flowPath(context.flow, `series?hours=${context.hours}`), 10],
    [flowPath(context.flow, "partitions?sort=loss&limit=8"), 4],
    [flowPath(context.flow, "partitions?sort=worst&limit=8"), 4],
    [flowPath(context.flow, "events?limit=8"), 10],
  ],
  show: ([series, loss, worst, events], context) => [
    h("div", { class: "grid" },
      card("Time to loss", { aside: h("span", { class: "muted" }, loss ? `${loss.total} expected` : "") }, loss ? losses(loss, context) : empty("Loading")),
      card("Worst partitions", {}, worst ? partitionTable("Worst partitions", worst.partitions, context, false) : empty("Loading")),
      card("Latest events", { class: "wide" }, events ? eventTable(events.events, context, "Latest events") : empty("Loading"))),
    h("div", { class: "row between" }, h("h2", {}, "Over time"),
      h("label", {}, "Last ", h("select", { "data-key": "hours", onchange: (event) => context.setHours(Number(event.target.value)) },
        HOURS.map(([hours, text]) => h("option", { value: hours, selected: hours === context.hours }, text))))),
    series ? (series.points.length ? charts(series) : card("History", {}, empty("The history has no samples for this time."))) : empty("Loading"),
  ],
};

function partitionTable(caption, partitions, context, wide = true) {
  if (!partitions.length) return empty("No partition.");
  return table(caption, [
    ["Partition", (each) => opens(each, context, caption), "name"],
    ["State", (each) => pill(each.health)],
    ["Behind", (each) => duration(each.seconds), "number"],
    ["Records", (each) => number(each.records), "number"],
    ...(wide ? [
      ["Bytes", (each) => bytes(each.bytes), "number"],
      ["To loss", (each) => duration(each.time_to_loss_seconds), "number"],
      ["Error or limit", (each) => each.error ?? each.limited_by ?? "", "text"],
      ["Task", (each) => `${each.connector}-${each.task} on ${each.worker_id}`, "text"],
    ] : []),
  ], partitions, partitionName);
}

const partitions = {
  title: "Partitions",
  asks: (context) => [
    [flowPath(context.flow, "heat"), 4],
    [flowPath(context.flow, `partitions?sort=${context.sort}&limit=100&contains=${encodeURIComponent(context.contains)}`), 4],
  ],
  show: ([map, found], context) => [
    card("Lag by topic and partition", {}, map ? heat(map, context) : empty("Loading")),
    card("Partitions", { aside: h("span", { class: "muted" }, found ? `${found.partitions.length} of ${found.total}` : "") },
      h("div", { class: "row" },
        h("label", {}, "Name contains ", h("input", { type: "search", value: context.contains, "data-key": "contains", id: "contains", onchange: (event) => context.setContains(event.target.value) })),
        h("label", {}, "First ", h("select", { "data-key": "sort", onchange: (event) => context.setSort(event.target.value) },
          [["worst", "the worst"], ["loss", "nearest loss"], ["seconds", "longest behind"], ["records", "most records"], ["topic", "by name"]].map(([value, text]) => h("option", { value, selected: value === context.sort }, text))))),
      found ? partitionTable("Partitions of the flow", found.partitions, context) : empty("Loading")),
  ],
};

const events = {
  title: "Events",
  asks: (context) => [[flowPath(context.flow, "events?limit=500&hours=168"), 6]],
  show: ([answer], context) => [card("Events of seven days", {}, answer ? eventTable(answer.events, context) : empty("Loading"))],
};

const READY = (each) => (each.ready ? pill("ok", each.synced ? "ready, committed" : "ready") : pill("stuck", "not ready"));

const groups = {
  title: "Failover",
  asks: (context) => [[flowPath(context.flow, "groups"), 30]],
  show: ([answer], context) => {
    if (!answer) return [card("Consumer groups", {}, empty("Asking both clusters"))];
    const ready = answer.groups.filter((each) => each.ready).length;
    return [card("Consumer groups", { aside: h("span", { class: "muted" }, `${ready} of ${answer.groups.length} ready · ${clock(answer.at_ms)}`) },
      answer.problem ? h("p", { class: "note worst" }, answer.problem) : null,
      answer.live || answer.problem ? null : h("p", { class: "note" }, "The source does not answer: these places are those of the last checkpoints."),
      answer.groups.length ? table("Consumer groups", [
        ["Group", (each) => h("button", { type: "button", class: "link", "data-key": `group ${each.group}`, onclick: () => context.group(each, answer) }, each.group), "name"],
        ["State", READY],
        ["Reads again", (each) => (each.again === null ? "not known" : each.again ? `${number(each.again)} records` : each.exact ? "nothing: exact" : "nothing now"), "number"],
        ["Partitions", (each) => each.partitions.length, "number"],
        ["Why not", (each) => each.why ?? "", "text"],
      ], answer.groups, (each) => each.group) : empty("No group of the source reads topics of this flow."))];
  },
};

const JOB = { running: ["limited", "running"], done: ["ok", "done"], failed: ["failed", "failed"], stopped: ["paused", "stopped"], silent: ["unknown", "no longer answers"] };

const jobs = {
  title: "Audits and backfills",
  asks: (context) => [[flowPath(context.flow, "jobs"), 5]],
  show: ([answer]) => [card("Audits and backfills", {}, !answer ? empty("Loading") : !answer.jobs.length
    ? empty("None in the history. connect-mirror audit, backfill and archive write their progress there.")
    : answer.jobs.map((each) => {
      const share = each.bytes + each.left_bytes ? each.bytes / (each.bytes + each.left_bytes) : each.parts ? each.done / each.parts : 1;
      const [health, word] = JOB[each.state] ?? ["unknown", each.state];
      return h("article", { class: "connector" },
        h("div", { class: "row between" }, h("h3", {}, `${each.kind[0].toUpperCase()}${each.kind.slice(1)} of ${clock(each.began_ms)}`), pill(health, word)),
        h("progress", { max: 1, value: share, "aria-label": `Progress of the ${each.kind}` }),
        h("p", {}, `${Math.round(share * 100)} % · ${each.done} of ${each.parts} parts${each.failed ? `, ${each.failed} failed` : ""} · ${number(each.records)} records, ${bytes(each.bytes)}`,
          each.state === "running" ? ` · ${bytes(each.rate)}/s · done ${each.left_seconds === null ? "at an unknown time" : `in ${duration(each.left_seconds)}, at ${clock(each.at_ms + each.left_seconds * 1000).slice(11, 16)}`}` : ""),
        each.text ? h("p", { class: "muted" }, each.text) : null, h("p", { class: "muted" }, `on ${each.process}`));
    }))],
};

export const PANELS = { overview, partitions, groups, events, jobs };
