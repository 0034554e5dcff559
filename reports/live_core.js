/* What the page's parts share: elements, words for numbers, the plan and its address, questions and answers. */
const data = JSON.parse(document.getElementById("data").textContent);
/* What reports/packed.c made of a document. */
const unpacked = (v) => {
  if (!v || typeof v !== "object") return v;
  if (Array.isArray(v)) return v.map(unpacked);
  const { $columns: columns, $words: words, $ends: ends, $part: part } = v;
  if (part) { let at = 0; return unpacked(v.steps).map((step) => part * (at += step)); }
  if (words) { const all = words.map(unpacked); const place = (letter) => { const code = letter.charCodeAt(0); return code - 35 - (code > 60) - (code > 92); };
    return (typeof v.of === "string" ? [...v.of].map(place) : v.of).map((i) => all[i]); }
  if (ends) { let name = ""; return ends.flatMap((end, i) => i % 2 ? [(name = name.slice(0, ends[i - 1]) + end)] : []); }
  const whole = Object.entries(columns || v).map(([key, value]) => [key, unpacked(value)]);
  if (!columns) return Object.fromEntries(whole);
  return whole[0][1].map((_, i) => whole.filter(([, column]) => column[i] !== null)).map((row, i) => row.length ? Object.fromEntries(row.map(([key, column]) => [key, column[i]])) : null);
};
/* Without a server: one plan's answer and its neighbours. NULL where there is a server. */
const held = document.getElementById("held") ? unpacked(JSON.parse(document.getElementById("held").textContent)) : null;

/* Of an answer that is a list, what it lists; the first is the page's own. */
const found = held && !held.document.time ? held.document : null;
const entries = !found ? [] : (found.plans || found.topologies || found.answers || []).map((e) => ({ name: e.name || e.topology, plan: e.plan, answer: e.prediction || e })).filter((e) => e.plan && e.answer.time);
if (new Set(entries.map((e) => e.plan.topology)).size > 1) for (const e of entries) e.name = e.name || e.plan.topology;

/* What a plan may fill of a device: less than its capacity where the runtime keeps some. */
const available = (memory) => memory.available_bytes ?? memory.capacity_bytes;

/* ---- elements ---- */

const put = (where, child) => { if (child !== null && child !== undefined) where.append(child); return where; };
const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of [children].flat(Infinity)) put(element, child);
  return element;
};
const make = (name, attributes, children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const show = (where, ...children) => where.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined));

/* ---- words ---- */

const round = (value) => {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : 2);
};
const scaled = (value, step, units) => {
  let i = 0;
  while (Math.abs(value) >= step * 0.9995 && i < units.length - 1) value /= step, i++;
  return round(value) + units[i];
};
const bytes = (n) => scaled(n, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
const count = (n) => scaled(n, 1000, ["", " k", " M", " G", " T"]);
const seconds = (s) => s < 0 ? "−" + seconds(-s) : s >= 120 ? scaled(s / 60, 60, [" min", " h"]) : s >= 1 ? round(s) + " s" : s >= 1e-3 ? round(s * 1e3) + " ms" : s ? round(s * 1e6) + " µs" : "0";
const percent = (f) => round(100 * f) + " %";
const change = (now, before) => {
  const f = before ? now / before - 1 : 0;
  return Math.abs(f) < 5e-4 ? "the same" : (f > 0 ? "+" : "−") + round(Math.abs(100 * f)) + " %";
};
const whole = (n) => n.toLocaleString("en-US");
const middle = (said, most) => said.length > most ? said.slice(0, Math.ceil(most / 2) - 1) + "…" + said.slice(-Math.floor(most / 2)) : said;
const words = (name) => name.replaceAll("_", " ").replaceAll("-", " ");

/* ---- the plan: values by names of options ---- */

/* What a prediction takes beside the keys of a plan. */
const costs = ["train-tokens", "device-hour-price"];
if (!held) data.keys.push({ option: costs[0], key: "train_tokens", help: "target tokens of the whole training, as 1T", words: [] }, { option: costs[1], key: "device_hour_price", help: "price of one device for an hour", words: [] });
const labels = { "num-partitions": "tensor (TP)", "pipeline-stages": "stages (PP)", "virtual-stages": "chunks (VP)", "context-parallel": "context (CP)", "expert-parallel": "experts (EP)",
  "num-microbatches": "microbatches", "task-feature-lengths": "lengths", "optimizer-partitioning": "state shards (ZeRO)", "model-parallel-submesh": "submesh", "logical-axis-rules": "axis rules" };
const keyOf = Object.fromEntries(data.keys.map((k) => [k.option, k]));
const optionOf = Object.fromEntries(data.keys.map((k) => [k.key, k.option]));
let plan = {};

const isDefault = (option, value) => value === undefined || value === "" || value === keyOf[option].fallback;
const addressOf = (of) => "#" + Object.entries(of).filter(([o, v]) => !isDefault(o, v))
  .map(([o, v]) => keyOf[o].key + "=" + encodeURIComponent(v).replaceAll("%2C", ",").replaceAll("%3A", ":")).join("&");
const planOf = (address) => {
  const found = {};
  for (const part of address.replace(/^#/, "").split("&")) {
    const at = part.indexOf("="), option = optionOf[part.slice(0, at)];
    if (at > 0 && option) try { found[option] = decodeURIComponent(part.slice(at + 1)); } catch { /* a broken address */ }
  }
  return Object.keys(found).length ? found : { ...data.plan };
};
/* A mesh is asked for in one way. */
const ways = [["model-parallel-submesh"], ["num-partitions"], ["ici-mesh", "dcn-mesh"]];
const changed = (of, changes) => {
  const next = { ...of };
  for (const [option, value] of Object.entries(changes)) {
    for (const way of ways)
      if (value && ways.some((w) => w.includes(option)) && !way.includes(option)) for (const other of way) delete next[other];
    if (isDefault(option, value)) delete next[option]; else next[option] = value;
  }
  return next;
};
/* A value of a JSON document, as an option says it. */
const optionWords = (value) => Array.isArray(value) && value.every((v) => typeof v !== "object") ? value.join(",")
  : Array.isArray(value) ? JSON.stringify(value)
    : typeof value === "object" && value ? Object.entries(value).map(([k, v]) => k + "=" + v).join(",") : String(value);
const planFrom = (document) => {
  const found = {};
  for (const [key, value] of Object.entries(document)) {
    if (key === "task_feature_lengths") found["task-feature-lengths"] = Object.values(value).join(",");
    else if (optionOf[key]) found[optionOf[key]] = optionWords(value);
  }
  return changed({}, found);
};
if (entries.length) data.plan = planFrom(entries[0].plan), held.document = { ...entries[0].answer, plan: entries[0].plan };
const quoted = (word) => /^[A-Za-z0-9_.\/,:=@+-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
const label = (option) => labels[option] || words(keyOf[option].key);
const valueWords = (option, value) => option !== "sequence-parallel" ? value : value === "1" ? "on" : "off";
const argumentsOf = (of) => Object.entries(of).flatMap(([o, v]) => ["--" + o, v]);
const commandOf = (of, name) => ["meshwright", name || "predict", ...argumentsOf(of).map(quoted)].join(" ");
const differences = (now, before) => [...new Set([...Object.keys(before), ...Object.keys(now)])]
  .filter((o) => (now[o] || keyOf[o].fallback) !== (before[o] || keyOf[o].fallback))
  .map((o) => `${label(o)} ${before[o] || keyOf[o].fallback || "unsaid"} → ${now[o] || keyOf[o].fallback || "unsaid"}`);

/* ---- questions ---- */

const token = new URLSearchParams(location.search).get("token") || "";
const send = async (method, path, body) => {
  const reply = await fetch(path, { method, body, headers: { "X-Meshwright-Token": token } });
  if (!reply.ok) throw new Error(await reply.text());
  return reply.text();
};
const offline = "This page holds one plan and its neighbours. The command below opens it live, for any plan.";
/* What the page holds of a plan: its own answer, or a neighbour's, which has one value otherwise. */
const heldAnswer = (of) => {
  const others = Object.keys({ ...of, ...data.plan }).filter((o) => of[o] !== data.plan[o]);
  const near = others.length === 1 && ((held.around || {}).what_if || []).find((n) => optionOf[n.key] === others[0] && n.value === of[others[0]]);
  const listed = entries.find((e) => addressOf(planFrom(e.plan)) === addressOf(of));
  if (listed) return { result: { ...listed.answer, plan: listed.plan, neighbour: listed !== entries[0] } };
  if (!others.length && !found) return { result: held.document };
  return near && near.answer ? { result: { ...near.answer, plan: { ...held.document.plan, [near.key]: near.value }, neighbour: true } } : { error: near ? near.refused : offline };
};
/* Each question is a list of arguments; answers come in the same order. */
const ask = async (...questions) => {
  try {
    const text = await send("POST", "ask", questions.map((q) => JSON.stringify(q)).join("\n"));
    return text.trim().split("\n").map((line) => JSON.parse(line));
  } catch (problem) {
    const why = problem instanceof TypeError ? "The program does not answer: is `meshwright serve` still running?" : problem.message;
    return questions.map(() => ({ exit: 2, error: why }));
  }
};

/* ---- files and the clipboard ---- */

const copy = async (text) => {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = document.body.appendChild(make("textarea", { "aria-label": "copied text" }, text));
    area.select(); document.execCommand("copy"); area.remove();
  }
};
const save = (name, type, text) => {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const button = (label, act, more) => make("button", { type: "button", onclick: act, ...more }, label);
const copier = (label, text) => button(label, async (event) => {
  const pressed = event.currentTarget;
  await copy(text());
  pressed.textContent = "copied";
  setTimeout(() => { pressed.textContent = label; }, 1200);
});
