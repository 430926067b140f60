// Asks REST. An answer that has not changed (304) is not read again.

const tags = new Map();

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function problem(answer) {
  let text = `${answer.status} ${answer.statusText}`;
  try { text = (await answer.json()).message ?? text; } catch { /* not JSON: a proxy's page */ }
  return new Refused(answer.status, text);
}

// The JSON at a path, and whether it differs from the last answer for this path.
export async function get(path) {
  const known = tags.get(path);
  const headers = { Accept: "application/json", ...(known ? { "If-None-Match": known.tag } : {}) };
  const answer = await fetch(path, { headers, signal: AbortSignal.timeout(60000) });
  if (answer.status === 304) return [known.value, false];
  if (!answer.ok) throw await problem(answer);
  const value = await answer.json();
  const tag = answer.headers.get("etag");
  tags.delete(path);
  if (tag) tags.set(path, { tag, value });
  if (tags.size > 60) tags.delete(tags.keys().next().value);
  return [value, true];
}

// Changes something. Returns the JSON of the answer, or null if it has none.
export async function send(method, path, body) {
  const answer = await fetch(path, {
    method, signal: AbortSignal.timeout(100000), body: body === undefined ? undefined : JSON.stringify(body),
    headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
  });
  if (!answer.ok) throw await problem(answer);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

export const flowPath = (flow, rest) => `/mirrors/${encodeURIComponent(flow)}/${rest}`;
export const connectorPath = (name, rest = "") => `/connectors/${encodeURIComponent(name)}${rest}`;
