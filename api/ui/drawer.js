// The drawer at the side: one partition, or one consumer group.

import { flowPath, get } from "./data.js";
import { byId, bytes, clock, duration, empty, h, number, pill, put, table } from "./dom.js";
import { eventTable } from "./panels.js";
import { chart } from "./charts.js";

let shown = null, opener = null;

const place = () => byId("drawer");

function head(title, close) {
  return h("div", { class: "row between" }, h("h2", { id: "drawer-title" }, title), h("button", { type: "button", "data-key": "close", onclick: close }, "Close"));
}

function open(what) {
  if (place().hidden) opener = document.activeElement?.dataset.key;
  shown = what;
  place().hidden = false;
}

export function close() {
  shown = null;
  place().hidden = true;
  put(place());
  if (opener) document.querySelector(`[data-key="${CSS.escape(opener)}"]`)?.focus();
}

export const isOpen = () => shown !== null;

export async function openPartition(flow, topic, partition) {
  open({ flow, topic, partition });
  put(place(), head(`${topic}-${partition}`, close), empty("Loading"));
  place().querySelector("[data-key=close]").focus();
  await refresh();
}

// Called again and again while the drawer is open.
export async function refresh() {
  const what = shown;
  if (!what?.topic) return;
  let content;
  try {
    const [detail, changed] = await get(flowPath(what.flow, `partitions/${encodeURIComponent(what.topic)}/${what.partition}`));
    if (!changed && what.done) return;
    what.done = true;
    content = partition(detail);
  } catch (error) {
    content = [h("p", { class: "note worst" }, error.message)];
  }
  if (shown === what) put(place(), head(`${what.topic}-${what.partition}`, close), content);
}

const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value ?? "–")];

function partition({ partition: each, remedy, details, ranges, lags, events }) {
  const lagSeries = lags.length > 1 ? { start_ms: lags[0].at_ms, end_ms: lags.at(-1).at_ms + 1, step_ms: Math.max(60000, (lags.at(-1).at_ms - lags[0].at_ms) / 20), points: lags } : null;
  return [
    h("p", {}, pill(each.health)),
    each.error ? h("p", { class: "note worst" }, h("strong", {}, "Error: "), each.error) : null,
    remedy ? h("p", { class: "note" }, h("strong", {}, "What to do: "), remedy) : null,
    h("dl", { class: "facts" },
      fact("Behind", `${number(each.records)} records, ${bytes(each.bytes)}, ${duration(each.seconds)}`),
      fact("Time to loss", each.time_to_loss_seconds === null ? "no loss is expected" : duration(each.time_to_loss_seconds)),
      fact("Limit", each.limited_by ?? "none delays it"),
      fact("Copied up to", details.position === undefined ? null : `offset ${details.position} of ${details.high_watermark}; the source begins at ${details.log_start}`),
      details.undecided ? fact("Undecided", `${details.undecided} offsets wait for an open transaction`) : null,
      fact("Target", details.target), fact("State", details.state),
      fact("Task", `${each.connector}-${each.task} on ${each.worker_id}`)),
    h("h3", {}, "Last copied ranges"),
    ranges.length ? table("Last copied ranges", [
      ["Until", (row) => clock(row.at_ms), "when"], ["Source offsets", (row) => `${row.source_start} to ${row.source_end - 1}`, "number"],
      ["Target end", (row) => row.target_end ?? "–", "number"], ["Records", (row) => number(row.records), "number"], ["Bytes", (row) => bytes(row.bytes), "number"],
    ], ranges.slice(0, 20)) : empty("None in the history."),
    lagSeries ? chart("Lag of the last day", lagSeries, (point) => point.records, (value) => `${number(value)} records`) : null,
    h("h3", {}, "Events"), eventTable(events, null, "Events of the partition"),
  ];
}

export function openGroup(group, answer) {
  open({ group });
  put(place(), head(`Group ${group.group}`, close),
    h("p", {}, group.ready ? pill("ok", group.synced ? "ready, committed on the target" : "ready") : pill("stuck", "not ready")),
    group.why ? h("p", { class: "note worst" }, group.why) : null,
    h("p", { class: "note" }, group.ready
      ? group.again ? `After a failover it would read ${number(group.again)} records again.` : group.exact ? "After a failover it goes on with the very next record." : group.again === 0 ? "It is ahead of the copy: after a failover it reads nothing again that is on the target now, but what is copied later, up to its place." : "How many records it would read again is not known from checkpoints."
      : "The mirror's checkpoints are to reach these partitions first; connect-mirror-client translate shows the same."),
    h("p", { class: "muted" }, `${answer.live ? "From the group's offsets on the source" : "From the last checkpoints"} at ${clock(answer.at_ms)}.`),
    table("Partitions of the group", [
      ["Partition", (row) => `${row.topic}-${row.partition}`, "name"], ["Offset", (row) => row.offset, "number"],
      ["On the target", (row) => row.new_offset ?? "–", "number"], ["Committed", (row) => row.committed ?? "–", "number"],
      ["Again", (row) => (row.again === null ? "?" : number(row.again)), "number"],
    ], group.partitions));
  place().querySelector("[data-key=close]").focus();
}
