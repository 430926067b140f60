// Connectors, tasks and workers of a flow, with Connect's own calls for those who may make them.

import { connectorPath, get, send } from "./data.js";
import { byId, card, empty, h, pill, put, table } from "./dom.js";

const RANK = { viewer: 1, operator: 2, admin: 3 };
const may = (viewer, role) => viewer.connectors && RANK[viewer.role] >= RANK[role];

const trace = (text) => (text ? h("pre", { class: "trace", tabindex: "0" }, text) : null);

function ask(title, text, word, act, context) {
  const dialog = byId("dialog");
  const status = h("p", { role: "alert", class: "worst-text" });
  const go = h("button", { type: "button", class: "main", onclick: async () => {
    go.disabled = true;
    try { await act(); dialog.close(); context.soon(); } catch (error) { status.textContent = error.message; go.disabled = false; }
  } }, word);
  put(dialog, h("h2", { id: "dialog-title" }, title), h("p", {}, text), status,
    h("div", { class: "row" }, go, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel")));
  dialog.showModal();
}

function actions(connector, viewer, context) {
  if (!may(viewer, "operator")) return null;
  const name = connector.name;
  const button = (word, text, act) => h("button", { type: "button", "data-key": `${word} ${name}`, onclick: () => ask(`${word} ${name}?`, text, word, act, context) }, word);
  return h("div", { class: "row" },
    connector.state === "RUNNING"
      ? button("Pause", "It stops copying and keeps its place, until it is resumed.", () => send("PUT", connectorPath(name, "/pause")))
      : button("Resume", "It goes on where it stopped.", () => send("PUT", connectorPath(name, "/resume"))),
    button("Restart", "The connector and all its tasks start again where they are.", () => send("POST", connectorPath(name, "/restart?includeTasks=true&onlyFailed=false"))),
    may(viewer, "admin") ? h("button", { type: "button", "data-key": `edit ${name}`, onclick: () => edit(name, context) }, "Edit config") : null);
}

function tasks(connector, viewer, context) {
  if (!connector.tasks.length) return empty("It has no tasks.");
  const restart = (task) => h("button", { type: "button", "data-key": `restart ${connector.name} ${task.id}`, "aria-label": `Restart task ${task.id} of ${connector.name}`,
    onclick: () => ask(`Restart task ${task.id} of ${connector.name}?`, "Its partitions go on where they are.", "Restart", () => send("POST", connectorPath(connector.name, `/tasks/${task.id}/restart`)), context) }, "Restart");
  return table(`Tasks of ${connector.name}`, [
    ["Task", (task) => task.id], ["State", (task) => [pill(task.health, task.state.toLowerCase()), trace(task.trace)]],
    ["Worker", (task) => task.worker_id, "name"], ["Partitions", (task) => task.partitions || "", "number"], ["Stuck", (task) => task.stuck || "", "number"],
    ...(may(viewer, "operator") ? [["Action", restart]] : []),
  ], connector.tasks, (task) => task.id);
}

async function edit(name, context) {
  const dialog = byId("dialog");
  const status = h("p", { role: "alert" });
  const rows = h("div", { class: "config" });
  let number = 0;
  const add = (key, value) => {
    const id = `config-${number++}`;
    const input = h("input", { id, value, autocomplete: "off", spellcheck: "false", "data-name": key });
    const removing = h("button", { type: "button", "aria-label": `Remove ${key}`, onclick: () => { label.remove(); input.remove(); removing.remove(); } }, "✕");
    const label = h("label", { for: id, class: "mono" }, key);
    rows.append(label, input, removing);
    return input;
  };
  const config = () => Object.fromEntries([...rows.querySelectorAll("input")].map((each) => [each.dataset.name, each.value]));
  const check = async () => {
    rows.querySelectorAll(".error").forEach((each) => each.remove());
    const wanted = config();
    const plugin = (wanted["connector.class"] ?? "").split(".").at(-1);
    const found = await send("PUT", `/connector-plugins/${encodeURIComponent(plugin)}/config/validate`, wanted);
    const errors = new Map(found.configs.filter((each) => each.value?.errors?.length).map((each) => [each.value.name, each.value.errors]));
    for (const input of rows.querySelectorAll("input")) {
      const own = errors.get(input.dataset.name);
      input.removeAttribute("aria-invalid");
      if (!own) continue;
      const text = h("p", { class: "error", id: `${input.id}-error` }, own.join("; "));
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", text.id);
      input.nextElementSibling.after(text);
      errors.delete(input.dataset.name);
    }
    const others = [...errors].map(([key, own]) => `${key}: ${own.join("; ")}`);
    status.className = found.error_count ? "worst-text" : "ok-text";
    status.textContent = found.error_count ? [`✕ ${found.error_count} errors.`, ...others].join(" ") : "✓ The config is valid.";
    return !found.error_count;
  };
  const guarded = (act) => async (event) => {
    event.target.disabled = true;
    try { await act(); } catch (error) { status.className = "worst-text"; status.textContent = error.message; }
    event.target.disabled = false;
  };
  const key = h("input", { placeholder: "name of another key", "aria-label": "Name of another key", autocomplete: "off" });
  put(dialog, h("h2", { id: "dialog-title" }, `Config of ${name}`), rows,
    h("div", { class: "row" }, key, h("button", { type: "button", onclick: () => { if (key.value.trim()) add(key.value.trim(), "").focus(); key.value = ""; } }, "Add")),
    status, h("div", { class: "row" },
      h("button", { type: "button", onclick: guarded(check) }, "Validate"),
      h("button", { type: "button", class: "main", onclick: guarded(async () => {
        if (!await check()) return;
        await send("PUT", connectorPath(name, "/config"), config());
        dialog.close();
        context.soon();
      }) }, "Save"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel")));
  dialog.showModal();
  try {
    const [found] = await get(connectorPath(name, "/config"));
    for (const [own, value] of Object.entries(found).sort()) add(own, value ?? "");
  } catch (error) { status.textContent = error.message; }
}

export const connectors = {
  title: "Connectors",
  asks: () => [],
  show: (_, context) => {
    const { summary, viewer } = context;
    return [
      card("Workers", {}, summary.workers.length ? table("Workers", [
        ["Worker", (each) => each.id, "name"], ["State", (each) => (each.problem ? pill("unknown", "missing") : pill("ok", "answers"))],
        ["Connectors", (each) => each.connectors, "number"], ["Tasks", (each) => each.tasks, "number"], ["Problem", (each) => each.problem ?? "", "text"],
      ], summary.workers, (each) => each.id) : empty("No worker is known yet.")),
      card("Connectors and tasks", {},
        may(viewer, "operator") ? null : h("p", { class: "note" }, viewer.connectors
          ? `You are signed in as ${viewer.user} with the role ${viewer.role}: you can read everything here, and change nothing.`
          : "In dedicated mode connectors are configured by mm2.properties; this page reads only."),
        summary.connectors.map((each) => h("article", { class: "connector" },
          h("div", { class: "row between" }, h("h3", {}, each.name), pill(each.health, each.state.toLowerCase())),
          h("p", { class: "muted" }, `${each.kind} on ${each.worker_id}`), trace(each.trace), actions(each, viewer, context), tasks(each, viewer, context)))),
    ];
  },
};
