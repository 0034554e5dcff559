/* What can be looked at below the verdict: memory over time, operations, the machine, a search, the shelf. */
const view = make("div", { class: "view", role: "tabpanel", id: "view", "aria-labelledby": "tab-memory", tabindex: "0" });
const wide = () => Math.max(300, Math.min(1100, view.clientWidth || 700));
const svg = (width, height, label, children) => draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, children);
const text = (x, y, words, more) => draw("text", { x, y, ...more }, words);

/* Cells are words, or what is put there; right: columns of numbers. Of a long table the first rows, until the others are asked for. */
const table = (caption, headings, rows, right, most = rows.length) => {
  const body = make("tbody"), fillRows = (n) => show(body, rows.slice(0, n).map((row) => make("tr", {}, row.map((cell, i) => make("td", { class: (right || []).includes(i) ? "r" : typeof cell === "string" && cell.length > 24 ? "long" : null }, cell)))));
  fillRows(most);
  return [make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption }, make("table", {}, [make("caption", { class: "unseen" }, caption), make("thead", {}, make("tr", {}, headings.map((h, i) => make("th", { scope: "col", class: (right || []).includes(i) ? "r" : null }, h || make("span", { class: "unseen" }, "take"))))), body])),
    rows.length > most ? button(`show all ${rows.length}`, (e) => { e.currentTarget.remove(); fillRows(rows.length); }, { class: "small" }) : null];
};

/* ---- memory over time ---- */

const keyList = (parts) => make("ul", { class: "key" }, parts.map(([name, colour]) => make("li", {}, [make("i", { style: `background:var(--${colour})` }), name])));
const bufferRows = (list) => table("buffers", ["buffer", "size", "kind", "why"], list.map((b) => [b.name + (b.layer ? b.layer.startsWith("of ") ? `, ${b.layer} layers` : `, layer ${b.layer}` : ""), bytes(b.bytes), b.kind, b.why || ""]), [1], 12);
/* The buffers at the peak; where there is a server, at any time that is looked at. */
const bufferTable = (d) => {
  const list = d.memory.peak_buffers || [], box = make("section", { id: "buffers" }, list.length ? [make("h3", {}, "Buffers at the peak"), bufferRows(list), held ? make("p", { class: "note" }, "The live page lists those of any other time.") : null] : null);
  let timer = null, newest = 0;
  const at = (seconds, ...more) => {
    clearTimeout(timer);
    if (held) return;
    const asked = ++newest;
    timer = setTimeout(async () => {
      const mine = turn, [a] = await ask(["predict", ...argumentsOf(plan), "--buffers-at", String(seconds), ...more]), found = a.result && a.result.memory.buffers_at;
      if (found && mine === turn && asked === newest) show(box, make("h3", {}, `Buffers at ${momentWords(found)}: ${bytes(found.bytes)}`), bufferRows(found.buffers));
    }, 40);
  };
  return { box, at };
};
const flightWords = (n) => `${+n.toFixed(2)} microbatch${+n.toFixed(2) === 1 ? "" : "es"} in flight`;
const momentWords = (found) => `${seconds(found.at_s)}${found.stage === undefined ? "" : `, stage ${found.stage}, ${flightWords(found.in_flight)}`}${found.operation ? ` (${found.operation})` : ""}`;
/* A chart that is looked at with the pointer or the arrow keys. */
const looked = (chart, width, left, right, end, look, step) => fill(chart, { tabindex: "0",
  onpointermove: (e) => { const box = chart.getBoundingClientRect(), scale = width / box.width; look(Math.max(0, Math.min(end, end * ((e.clientX - box.left) * scale - left) / (width - left - right))), (e.clientY - box.top) * scale); },
  onkeydown: (e) => { const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[e.key]; if (by && step(...by)) e.preventDefault(); } });
/* Memory of each stage over the step: what stays, and above it the running pass and microbatches in flight, from the forward to the backward pass of each. */
const drawStages = (pipeline, capacity, step, buffers) => {
  const passes = pipeline.passes || [], chunks = 1 + Math.max(0, ...passes.map((p) => p.chunk)), tall = 46, gap = 10, width = wide(), left = 62, right = 76;
  if (!passes.length || passes.length < pipeline.pass_count || passes[0].bytes === undefined) return stageBars(pipeline, capacity);
  const end = Math.max(step, ...passes.map((p) => p.end_s)), x = (s) => left + (width - left - right) * s / end;
  const stages = [...Array(pipeline.stages).keys()].map((stage) => {
    const own = passes.filter((p) => p.stage === stage).sort((a, b) => a.start_s - b.start_s), stays = Math.min(...own.map((p) => p.behind_bytes));
    let now = 0, most = 0;
    const flights = own.map((p) => { if (!own.some((q) => q.backward)) { most = 1; return [1 / chunks, 0]; } now += p.backward ? -1 : 1; most = Math.max(most, now); return [now + (p.backward ? 1 : 0), now].map((n) => n / chunks); });
    return { own, stays, flights, most: most / chunks, peak: pipeline.stage_peak_bytes[stage] };
  });
  const highest = 1.02 * Math.max(capacity, ...stages.map((s) => s.peak)), base = (i) => (i + 1) * (tall + gap) - 2, y = (i, b) => base(i) - tall * b / highest;
  const pointer = draw("line", { class: "pointer" }), said = make("p", { class: "said", "aria-live": "polite" });
  let at = [pipeline.reported_stage, 0];
  const mark = ([i, n], now) => {
    const s = stages[i], p = s.own[n], early = now < p.start_s, runs = !early && !(now >= p.end_s), when = now ?? (p.start_s + p.end_s) / 2;
    at = [i, n];
    for (const [name, value] of [["x1", x(when)], ["x2", x(when)], ["y1", base(i) - tall], ["y2", base(i)]]) pointer.setAttribute(name, value);
    show(said, make("b", {}, `Stage ${i} at ${seconds(when)}: ${bytes(early ? s.stays : runs ? p.bytes : p.behind_bytes)}, ${flightWords(early ? 0 : s.flights[n][runs ? 0 : 1])}. `), runs ? `${p.backward ? "Backward" : "Forward"} pass of microbatch ${p.microbatch}.` : "The stage waits.");
    buffers.at(when, "--of-stage", String(i));
  };
  const nth = (i, s) => Math.max(0, stages[i].own.findLastIndex((p) => p.start_s <= s));
  const chart = svg(width, pipeline.stages * (tall + gap) + 20, `memory of ${pipeline.stages} stages over a step`, [stages.map((s, i) => [
    text(left - 6, base(i) - tall / 2 + 4, "stage " + i, { "text-anchor": "end" }), text(width - right + 6, base(i) - tall / 2 + 4, bytes(s.peak)),
    draw("rect", { x: left, width: width - left - right, y: y(i, s.stays), height: base(i) - y(i, s.stays), fill: "var(--parameters)" }),
    draw("polygon", { points: [`${left},${y(i, s.stays)}`, ...s.own.flatMap((p) => [`${x(p.start_s).toFixed(1)},${y(i, p.bytes).toFixed(1)}`, `${x(p.end_s).toFixed(1)},${y(i, p.bytes).toFixed(1)}`, `${x(p.end_s).toFixed(1)},${y(i, p.behind_bytes).toFixed(1)}`]), `${x(end)},${y(i, s.stays)}`].join(" "), fill: "var(--activations)" }),
    draw("line", { class: "capacity", x1: left, x2: width - right, y1: y(i, capacity), y2: y(i, capacity) })]), pointer,
  text(left, pipeline.stages * (tall + gap) + 16, "0"), text(width - right, pipeline.stages * (tall + gap) + 16, seconds(end), { "text-anchor": "end" })]);
  looked(chart, width, left, right, end, (s, down) => { const i = Math.max(0, Math.min(pipeline.stages - 1, Math.floor(down / (tall + gap)))); mark([i, nth(i, s)], s); }, (by, down) => {
    const i = at[0] + down, n = down ? nth(Math.max(0, Math.min(i, pipeline.stages - 1)), stages[at[0]].own[at[1]].start_s) : at[1] + by;
    if (i >= 0 && i < pipeline.stages && n >= 0 && n < stages[i].own.length) mark([i, n]);
    return true;
  });
  return make("section", {}, [make("h3", {}, `Memory of each stage: at most ${+stages[0].most.toFixed(1)} microbatches in flight on the first, ${+stages.at(-1).most.toFixed(1)} on the last`), make("figure", {}, chart),
    keyList([["weights, state and what else stays", "parameters"], ["microbatches in flight, the running pass", "activations"], [`available ${bytes(capacity)}`, "ink"]]), said]);
};
const drawMemory = (d) => {
  const m = d.memory_timeline, pipeline = d.pipeline, buffers = bufferTable(d);
  const stages = pipeline && pipeline.stage_peak_bytes ? drawStages(pipeline, available(d.memory), d.time.step_s, buffers) : null;
  if (!m || !m.at_s || !m.at_s.length) return [stages, make("p", {}, `The peak is at ${d.memory.peak_at}.`), buffers.box];
  const parts = memoryParts.filter(([key]) => m[key] && m[key].some((b) => b > 0)), width = wide(), height = 260, left = 62, right = 12, top = 16, bottom = 30;
  const step = Math.max(...m.at_s) || 1, highest = Math.max(...m.at_s.map((_, i) => memoryParts.reduce((sum, [key]) => sum + (m[key] ? m[key][i] : 0), 0))), most = 1.06 * Math.max(available(d.memory), highest);
  const x = (s) => left + (width - left - right) * s / step, y = (b) => height - bottom - (height - top - bottom) * b / most;
  const base = m.at_s.map(() => 0), order = ["reserved_bytes", ...parts.map(([key]) => key).filter((key) => key !== "reserved_bytes")];
  const areas = order.filter((key) => m[key]).map((key) => {
    const under = base.map((b, i) => `${x(m.at_s[i]).toFixed(1)},${y(b).toFixed(1)}`).reverse();
    const over = m[key].map((b, i) => { base[i] += b; return `${x(m.at_s[i]).toFixed(1)},${y(base[i]).toFixed(1)}`; });
    return draw("polygon", { points: [...over, ...under].join(" "), fill: `var(--${memoryParts.find(([k]) => k === key)[2]})` });
  });
  const peak = base.indexOf(Math.max(...base)), pointer = draw("line", { y1: top, y2: height - bottom, class: "pointer", x1: x(m.at_s[peak]), x2: x(m.at_s[peak]) });
  const said = make("p", { class: "said", "aria-live": "polite" });
  let at = peak;
  const look = (i) => {
    if (i !== at) buffers.at(m.at_s[i]);
    at = i;
    pointer.setAttribute("x1", x(m.at_s[i])); pointer.setAttribute("x2", x(m.at_s[i]));
    show(said, make("b", {}, `${bytes(base[i])} at ${seconds(m.at_s[i])}${i === peak ? " (the peak)" : ""}: ${m.operation ? m.operation[i] : ""}. `),
      parts.map(([key, name]) => `${name} ${bytes(m[key][i])}`).join(", "));
  };
  const nearest = (s) => m.at_s.reduce((best, at, i) => Math.abs(at - s) < Math.abs(m.at_s[best] - s) ? i : best, 0);
  const capacity = available(d.memory), level = (b, kind) => draw("line", { class: kind, x1: left, x2: width - right, y1: y(b), y2: y(b) });
  const apart = capacity * Math.max(0.25, 2 ** Math.ceil(Math.log2(most / capacity / 8))), ticks = [...Array(Math.floor(most / apart) + 1).keys()].map((i) => [text(left - 6, y(i * apart) + 4, bytes(i * apart), { "text-anchor": "end" }), level(i * apart, "grid")]);
  const chart = svg(width, height, `Memory over a step: the peak is ${bytes(base[peak])}, at ${d.memory.peak_at}`, [ticks, areas, level(capacity, "capacity"), pointer,
    text(left, height - 8, "0"), text(width - right, height - 8, seconds(step), { "text-anchor": "end" }), text(x(m.at_s[peak]), top - 4, "peak", { "text-anchor": x(m.at_s[peak]) > width / 2 ? "end" : "start" })]);
  looked(chart, width, left, right, step, (s) => look(nearest(s)), (by) => { if (by) look(Math.max(0, Math.min(m.at_s.length - 1, at + by))); return by; });
  look(peak);
  const differs = Math.abs(base[peak] / d.memory.peak_bytes - 1) > 0.005;
  return [make("h3", {}, `The peak is at ${d.memory.peak_at}`), differs ? make("p", { class: "note" }, `The curve adds up live tensors, operation after operation. The compiler's own layout needs ${bytes(d.memory.peak_bytes)}.`) : null, make("figure", {}, chart), keyList([...parts.map(([, name, colour]) => [name, colour]), [`available ${bytes(capacity)}`, "ink"]]), said, stages, buffers.box];
};
const stageBars = (pipeline, capacity) => {
  const most = 1.04 * Math.max(capacity, ...pipeline.stage_peak_bytes), share = (b) => (100 * b / most).toFixed(1) + "%";
  return make("section", {}, [make("h3", {}, "Memory of each stage at its peak"), make("div", { class: "limited" }, [pipeline.stage_peak_bytes.map((b, i) =>
    make("div", { class: "line-bar" }, [make("span", {}, `stage ${i}`), make("div", {}, [make("i", { style: `width:${share(b)}`, class: b > capacity ? "over" : null }), make("u", { style: `left:${share(capacity)}` })]), make("b", {}, bytes(b))])),
  make("div", { class: "line-bar note" }, [make("span"), make("div", {}, make("span", { class: "at", style: `right:${(100 - 100 * capacity / most).toFixed(1)}%` }, "available " + bytes(capacity))), make("b")])])]);
};

/* ---- time: operations by block, on the device and on its links ---- */

const boundColours = { compute: "compute", memory: "memory-bound", communication: "model-axis", latency: "overhead" };
const boundOf = { contraction: "compute", elementwise: "memory", collective: "communication" }; /* of what ran, by its kind */
const blockOf = (name) => { const parts = name.replace(/ .*/, "").split("/"); return parts.length > 3 ? parts.slice(0, 3).join("/") : parts.slice(0, -1).join("/") || parts[0]; };
/* A drawing that is as wide as the reader wants, in a box that scrolls. */
const zooms = {};
const zoomed = (name, label, drawn) => {
  const box = make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": label });
  const paintAt = (factor) => { zooms[name] = Math.min(64, Math.max(1, factor)); show(box, drawn(wide() * zooms[name])); };
  paintAt(zooms[name] || 1);
  return [make("p", { class: "tools" }, [button("+", () => paintAt(zooms[name] * 2), { "aria-label": "zoom in: " + label, class: "step" }), button("−", () => paintAt(zooms[name] / 2), { "aria-label": "zoom out: " + label, class: "step" })]), box];
};
/* Spans are [track, start_s, length_s, colour, words]. */
const drawTracks = (tracks, spans, end, label) => (width) => {
  const left = 66, tall = 20, x = (s) => left + (width - left - 8) * s / end, y = Object.fromEntries(tracks.map((track, i) => [track, i * (tall + 4) + 1]));
  return svg(width, tracks.length * (tall + 4) + 24, label, [tracks.map((track) => text(left - 6, y[track] + 14, track, { "text-anchor": "end" })),
    spans.map(([track, start, length, colour, said, faint]) => draw("rect", { x: x(start).toFixed(2), y: y[track], width: Math.max(0.3, x(start + length) - x(start) - 0.3).toFixed(2), height: tall, fill: `var(--${colour})`, opacity: faint ? 0.65 : null },
      draw("title", {}, `${said}: ${seconds(start)} to ${seconds(start + length)}`))),
    [0, 0.25, 0.5, 0.75, 1].map((f) => text(x(f * end), tracks.length * (tall + 4) + 18, f ? seconds(f * end) : "0", { "text-anchor": f === 1 ? "end" : f ? "middle" : "start" }))]);
};
const traceOf = (tracks, spans) => JSON.stringify({ traceEvents: [...tracks.map((name, tid) => ({ ph: "M", name: "thread_name", pid: 1, tid, args: { name } })),
  ...spans.map(([track, start, length, , name]) => ({ ph: "X", pid: 1, tid: tracks.indexOf(track), name, ts: 1e6 * start, dur: 1e6 * length }))] });
/* The program writes it, with arrows from collectives to what waits for them. Of a run the page itself, from what was measured. */
const traceButton = (d, tracks, spans) => d.loss ? button("save trace for Perfetto", () => save("trace.json", "application/json", traceOf(tracks, spans)), { title: "open it at ui.perfetto.dev" })
  : held ? copier("copy command for a Perfetto trace", () => `${commandOf(plan)} --trace trace.json`)
  : button("save trace for Perfetto", async () => { const [a] = await ask(["predict", ...argumentsOf(plan), "--trace", "-"]); if (a.result) save("trace.json", "application/json", JSON.stringify(a.result)); else explain("model", plan.model, a.error); }, { title: "open it at ui.perfetto.dev" });
const drawPasses = (d, pipeline, step) => {
  const passes = pipeline.passes || [], tracks = [...Array(pipeline.stages).keys()].map((s) => "stage " + s);
  if (!passes.length || passes.length < pipeline.pass_count) return null; // too many to be drawn
  const spans = passes.map((p) => ["stage " + p.stage, p.start_s, p.end_s - p.start_s, p.backward ? "throughput" : "compute", `stage ${p.stage}, microbatch ${p.microbatch}, ${p.backward ? "backward" : "forward"}`, p.chunk % 2]);
  return make("section", {}, [make("h3", {}, `Stages over a step: ${percent(pipeline.bubble_s / step)} of it a stage waits`), zoomed("passes", "passes of each stage", drawTracks(tracks, spans, Math.max(step, ...passes.map((p) => p.end_s)), `${pipeline.stages} stages, ${passes.length} passes`)),
    make("p", { class: "tools" }, traceButton(d, tracks, spans)), keyList([["forward", "compute"], ["backward", "throughput"]])]);
};
/* The operations in the order of the program, each with all of its repetitions; what crosses links on a track of its own. */
const drawOrder = (d, list, step) => {
  const tracks = ["device", "links"], whole = list.reduce((sum, e) => sum + e.time_s * e.count, 0);
  let at = 0;
  const spans = list.map((e) => {
    const bound = e.bound || boundOf[e.kind], length = e.time_s * e.count * step / whole, start = at;
    at += length;
    return [bound === "communication" ? "links" : "device", start, length, boundColours[bound], `${e.name}, ${e.phase}, ${e.count} times`];
  });
  return !(whole > 0) ? null : [make("h3", {}, "Operations in the order of the program"), make("p", { class: "note" }, "Each with all of its repetitions."), zoomed("order", "operations in order", drawTracks(tracks, spans, step, `${list.length} operations`)), make("p", { class: "tools" }, traceButton(d, tracks, spans))];
};
const overlapWords = (t, hidden) => !(t.communication_s > 0) ? "Nothing crosses a link" : hidden < 0.005 * t.communication_s ? `All ${seconds(t.communication_s)} of communication is waited for` : hidden > 0.995 * t.communication_s ? `All ${seconds(t.communication_s)} of communication is hidden behind computation` : `Of ${seconds(t.communication_s)} of communication ${percent(hidden / t.communication_s)} is hidden behind computation`;
const drawTime = (d) => {
  const list = d.timeline || [], t = d.time, hidden = Math.max(0, t.communication_s - t.exposed_communication_s), blocks = new Map();
  for (const e of list) {
    const name = `${blockOf(e.name).replace("/layers/", "/")}, ${e.phase}`, all = blocks.get(name) || { name, total: 0, compute: 0, memory: 0, communication: 0, latency: 0 }, s = e.time_s * e.count;
    all.total += s; all[e.bound || boundOf[e.kind]] += s; blocks.set(name, all);
  }
  const rows = [...blocks.values()].sort((a, b) => b.total - a.total), most = rows.length ? rows[0].total : 1;
  const width = wide(), x = (s) => 62 + (width - 72) * s / t.step_s, device = t.step_s - t.exposed_communication_s;
  const lane = (y, label, spans) => [text(56, y + 15, label, { "text-anchor": "end" }), spans.filter((s) => s[1] > 0).map(([from, length, colour, said]) =>
    draw("rect", { x: x(from), y, width: Math.max(0.5, x(length) - x(0)), height: 20, fill: `var(--${colour})` }, draw("title", {}, `${said}: ${seconds(length)}`)))];
  const lanes = make("figure", {}, svg(width, 78, `Overlap: ${seconds(hidden)} of ${seconds(t.communication_s)} communication is hidden behind computation`, [
    lane(4, "device", [[0, t.compute_s, "compute", "compute"], [t.compute_s, t.memory_bound_s, "memory-bound", "memory-bound"], [t.compute_s + t.memory_bound_s, t.overhead_s, "overhead", "overhead"]]),
    lane(30, "links", [[Math.max(0, device - hidden), hidden, "data-axis", "hidden behind the device's work"], [device, t.exposed_communication_s, "model-axis", "waited for"]]),
    text(62, 70, "0"), text(width - 8, 70, seconds(t.step_s), { "text-anchor": "end" })]));
  return [make("h3", {}, overlapWords(t, hidden)), lanes,
    keyList([["compute", "compute"], ["memory-bound", "memory-bound"], ["communication, hidden", "data-axis"], ["communication, waited for", "model-axis"], ["overhead, latency", "overhead"]]),
    d.pipeline ? drawPasses(d, d.pipeline, t.step_s) : null, list.length && !d.pipeline ? drawOrder(d, list, d.latency_s && !d.mode ? d.latency_s : t.step_s) : null,
    rows.length ? make("h3", {}, `Time by block${list.length ? ", forward and backward" : ""}`) : null,
    rows.slice(0, 16).map((r) => make("div", { class: "line-bar" }, [make("span", { title: r.name }, middle(r.name, 35)), make("div", {}, ["compute", "memory", "communication", "latency"].map((b) =>
      r[b] > 0 ? make("i", { style: `width:${(100 * r[b] / most).toFixed(2)}%;background:var(--${boundColours[b]})`, title: `${b}: ${seconds(r[b])}` }) : null)), make("b", {}, seconds(r.total))])),
    rows.length > 16 ? make("p", { class: "note" }, `${rows.length - 16} more: ${seconds(rows.slice(16).reduce((sum, r) => sum + r.total, 0))}`) : null, collectivesTable(d)];
};
const collectivesTable = (d) => !(d.collectives || []).length ? null : make("details", {}, [make("summary", {}, `Collectives of a step (${d.collectives.length} kinds)`),
  table("collectives", ["collective", "over", "times", "bytes a device, each", "dtype", "time of all"], d.collectives.map((c) => [words(c.kind), c.mesh_axis, whole(c.count), bytes(c.bytes), c.dtype, seconds(c.time_s)]), [2, 3, 5])]);

/* ---- the machine: chips, and the tile of one model group ---- */

const meshOptions = ["topology", "model-parallel-submesh", "num-partitions", "num-expert-partitions", "ici-mesh", "dcn-mesh", "split-physical-axes", "contiguous-submeshes"];
const meshWords = () => Object.entries(plan).filter(([o]) => meshOptions.includes(o)).flatMap(([o, v]) => ["--" + o, v]);
/* What the program says of the plan's mesh: ranks of the devices, and what the largest collective over an axis sends over each link. */
let axisOf = null, placed = { key: null };
const place = async (d) => {
  const staged = (d.mesh || {}).stage > 1, axes = Object.keys(d.mesh || {}).filter((axis) => d.mesh[axis] > 1), axis = axes.includes(axisOf) ? axisOf : axes.at(-1), key = addressOf(plan) + axis;
  if (held || placed.key === key) return;
  placed = { key, axis };
  const list = (d.collectives || []).filter((c) => c.mesh_axis === axis).sort((a, b) => b.time_s - a.time_s), largest = list[0], sends = largest && !staged && machine && machine.device_count <= 1024;
  const [ranks, links] = await ask(["mesh", ...meshWords()], ...(sends ? [["collective", ...meshWords(), "--kind", largest.kind, "--mesh-axis", axis, "--bytes", String(largest.bytes), "--links"]] : []));
  if (placed.key !== key) return;
  Object.assign(placed, { ranks: ranks.result && !staged ? ranks.result : null, links: links && links.result, largest });
  if (open === "machine") drawView();
};
/* Rank of each device on the axis, and whether it is of the group of the first device; by the words of its coordinates. */
const ranksOf = (d) => {
  const at = new Map(), r = placed.ranks;
  if (!r || !r.axes.includes(placed.axis)) return null;
  const k = r.axes.indexOf(placed.axis), inner = r.shape.slice(k + 1).reduce((p, n) => p * n, 1), size = r.shape[k];
  r.devices.forEach((device, i) => at.set(device.join(), { rank: Math.floor(i / inner) % size, own: i % inner === 0 && i < inner * size, size }));
  return at;
};
const drawLinks = (links, x, y, size, gap) => {
  const most = Math.max(...links.map((l) => l.bytes)), line = (l) => {
    const [a, b, c] = l.from, way = l.kind.slice(-2), [dx, dy] = { "x+": [1, 0], "x-": [-1, 0], "y+": [0, -1], "y-": [0, 1] }[way] || [0, 0], thick = (gap - 1) * l.bytes / most, half = size / 2, side = (way[1] === "+" ? -1 : 1) * (gap / 2);
    const px = x(a, c) + half, py = y(b, c) + half, said = draw("title", {}, `${l.kind.replace("link ", "to ")} from chip ${l.from.join()}: ${bytes(l.bytes)}`);
    if (!dx && !dy) return draw("circle", { cx: px + (way[1] === "+" ? -1 : 1) * half / 2, cy: py, r: (0.5 + half / 3 * l.bytes / most).toFixed(1), class: "link" }, said);
    return draw("line", { x1: px + dx * half + dy * side, y1: py + dy * half + dx * side, x2: px + dx * (half + gap) + dy * side, y2: py + dy * (half + gap) + dx * side, "stroke-width": Math.max(0.6, thick).toFixed(1), class: "link" }, said);
  };
  return links.filter((l) => l.from.length === 3).map(line);
};
const linkTable = (links) => {
  const kinds = new Map();
  for (const l of links) { const all = kinds.get(l.kind) || []; all.push(l.bytes); kinds.set(l.kind, all); }
  return table("load of links", ["links", "used", "busiest", "mean"], [...kinds].sort().map(([kind, all]) => [kind.replace("link ", "along "), String(all.length), bytes(Math.max(...all)), bytes(all.reduce((sum, b) => sum + b, 0) / all.length)]), [1, 2, 3]);
};
const drawMachine = (d, topology) => {
  if (!topology || !topology.bounds) return make("p", {}, "The machine is not known.");
  place(d);
  const b = [...topology.bounds, 1, 1, 1].slice(0, 3), isTorus = topology.kind === "tpu", isGpu = !isTorus && topology.bounds.length === 2;
  const tile = (plan["model-parallel-submesh"] || "").split(",").map(Number), ranks = ranksOf(d), loads = placed.links && isTorus ? placed.links.links : null;
  const [columns, rows, planes] = isGpu ? [b[1], 1, b[0]] : b, cells = columns * rows * planes;
  if (cells > 16384) return make("p", {}, `${count(cells)} chips are too many to draw.`);
  const gap = loads ? 6 : 1.5, aside = isGpu ? 44 : 14, most = Math.max(1, Math.min(planes, Math.floor((wide() + 12) / (columns * (isGpu ? 16 : loads ? 24 : 14) + aside)))), across = Math.ceil(planes / Math.ceil(planes / most)), pitch = Math.max(5 + gap, Math.min(isGpu ? 18 : 28, Math.floor((wide() / across - aside) / columns))), size = pitch - gap;
  const model = d.mesh ? Object.entries(d.mesh).filter(([axis]) => !["data", "fsdp", "stage", "replica"].includes(axis)).reduce((p, [, n]) => p * n, 1) : 1, down = rows * pitch + (isGpu ? 4 : 30), left = isGpu ? 30 : 4;
  const x = (a, c) => left + (c % across) * (columns * pitch + aside) + a * pitch, y = (v, c) => (isGpu ? 2 : 18) + Math.floor(c / across) * down + (rows - 1 - v) * pitch;
  const groupOf = (a, v, c, i) => isTorus && tile.length >= 3 && !tile.some(isNaN) ? [a, v, c].reduce((s, n, k) => s + Math.floor(n / tile[k]), 0) : Math.floor(i / model);
  const boxes = [];
  let i = 0;
  for (let c = 0; c < planes; c++) for (let v = 0; v < rows; v++) for (let a = 0; a < columns; a++, i++) {
    const coordinates = isGpu ? [c, a] : [a, v, c], known = ranks && (ranks.get(coordinates.join()) || ranks.get([...coordinates, 0].join()) || ranks.get(coordinates.slice(0, 2).join())), group = groupOf(a, v, c, i);
    boxes.push(draw("rect", { x: x(a, c), y: y(v, c), width: size, height: size, rx: 1.5, class: (known ? known.own : !group) ? "own" : known ? "rank" : group % 2 ? "odd" : "even", "fill-opacity": known && !known.own ? (0.15 + 0.85 * known.rank / Math.max(1, known.size - 1)).toFixed(2) : null,
      onclick: isTorus ? () => go({ "model-parallel-submesh": [a + 1, v + 1, c + 1, Math.min(topology.bounds[3] || 1, tile[3] || 1)].join(",") }) : null },
      draw("title", {}, `${isGpu ? "GPU" : "chip"} ${coordinates.join(",")}${known ? `: ${placed.axis} ${known.rank}` : ""}${isTorus ? `; a click makes the tile ${a + 1},${v + 1},${c + 1}` : ""}`)));
  }
  const names = isGpu ? [...Array(planes).keys()].map((c) => text(x(0, c) - 6, y(0, c) + size - 2, c, { "text-anchor": "end" })) : planes > 1 ? [...Array(planes).keys()].map((c) => text(x(0, c), y(rows - 1, c) - 6, "z = " + c)) : [];
  const height = 22 + Math.ceil(planes / across) * down, width = left + across * (columns * pitch + aside), axes = Object.keys(d.mesh || {}).filter((axis) => d.mesh[axis] > 1);
  const orders = (around["model-parallel-submesh"] || []).filter((n) => !n.refused && [...n.value].sort().join() === [...(plan["model-parallel-submesh"] || "")].sort().join());
  return [make("h3", {}, `${whole(topology.device_count)} devices: ${Object.entries(d.mesh || {}).map(([axis, n]) => `${axis} ${n}`).join(" × ")}`),
    make("p", {}, isTorus ? `A torus of ${b.filter((n, k) => k < 2 || n > 1).join(" × ")}${topology.wraps ? ", " + (topology.wraps.every(Boolean) ? "closed in every dimension" : topology.wraps.some(Boolean) ? "closed in some dimensions" : "open") : ""}. A click on a chip makes the box from the corner to it the submesh of one model.` : `${topology.host_count} hosts of ${topology.devices_per_host_count} devices, a row each.`),
    held || axes.length < 2 || (d.mesh || {}).stage > 1 ? null : make("div", { class: "chips", role: "group", "aria-label": "axis" }, axes.map((axis) => button("groups of " + axis, () => { axisOf = axis; drawView(); }, { "aria-pressed": String(axis === placed.axis) }))),
    orders.length > 1 ? make("div", { class: "chips", role: "group", "aria-label": "orders of the submesh" }, orders.map((n) => button(`${n.value}: ${count(n.tokens_per_s)} tokens/s`, () => go({ "model-parallel-submesh": n.value }), { "aria-pressed": String(Boolean(n.now)) }))) : null,
    make("div", { class: "scrolls machine", tabindex: "0", role: "region", "aria-label": "the machine" }, svg(width, height, `${topology.topology}: one group is marked`, [names, boxes, loads ? drawLinks(loads, x, y, size, gap) : null])),
    make("ul", { class: "key" }, [make("li", {}, [make("i", { class: "own" }), ranks ? `one group of ${placed.axis}` : "one model group"]), make("li", {}, [make("i", { class: ranks ? "rank" : "odd" }), ranks ? `darker with the rank on ${placed.axis}` : "other groups"]), loads ? make("li", {}, "lines and dots: load of the links, dots along z") : null]),
    placed.links ? [make("h3", {}, `What links carry in one ${words(placed.largest.kind)} of ${bytes(placed.largest.bytes)} over ${placed.axis}`), linkTable(placed.links.links)] : null];
};

/* ---- search ---- */

const search = { running: false, said: null, result: null, begun: 0, error: null };
const searched = ["model-parallel-submesh", "num-partitions", "num-microbatches", "logical-axis-rules", "remat-policy", "sequence-parallel", "optimizer-partitioning"];
const stopSearch = async () => { if (!held) await send("DELETE", "search").catch(() => null); search.running = false; drawView(); };
const listen = async () => {
  while (search.running) {
    await new Promise((done) => setTimeout(done, 250));
    const state = JSON.parse(await send("GET", "search").catch((e) => JSON.stringify({ running: false, said: { exit: 2, error: e.message } })));
    if (state.said && state.said.exit === undefined) search.said = state.said;
    if (state.said && state.said.exit !== undefined) {
      search.running = false, search.ended = performance.now();
      if (state.said.error) search.error = state.said.error; else search.result = state.said.result;
    } else if (!state.running && search.running) { search.running = false; search.error = "The search ended without an answer."; }
    if (open === "search") drawView();
  }
};
const beginSearch = async () => {
  const fixed = Object.fromEntries(Object.entries(plan).filter(([o]) => !searched.includes(o)));
  Object.assign(search, { running: true, said: null, result: null, error: null, begun: performance.now(), fixed });
  drawView();
  const beyond = valueOf("software") === "t5x" && (!["", "none"].includes(valueOf("optimizer-partitioning")) || valueOf("sequence-parallel") === "1");
  try {
    await send("POST", "search", JSON.stringify(["tune", ...argumentsOf(fixed), ...(beyond ? ["--beyond-t5x"] : []), "--top", "12", "--pareto", "--detail", "--time-limit", "60"]));
    listen();
  } catch (e) { search.running = false; search.error = e.message; drawView(); }
};
const foundPlan = (p) => ({ plan: planFrom(p.plan), tokens_per_s: p.prediction.throughput.tokens_per_s, peak_bytes: p.prediction.memory.peak_bytes });
/* A column for each key in which the plans, or this one, differ. */
const planRows = (list) => {
  const said = (of, o) => valueWords(o, of[o] ?? (of === plan ? valueOf(o) : keyOf[o].fallback) ?? "") || "–", keys = [...new Set(list.flatMap((p) => Object.keys(p.plan)))].filter((o) => o !== "compiler" && [plan, ...list.map((p) => p.plan)].some((of) => said(of, o) !== said(list[0].plan, o)));
  const row = (first, of, tokens, peak) => [first, count(tokens), bytes(peak), ...keys.map((o) => make(said(of, o) === said(plan, o) ? "span" : "b", {}, said(of, o)))];
  return table("plans found", ["", "tokens/s", "memory", ...keys.map(label)], [...(answer ? [row("yours", plan, answer.throughput.tokens_per_s, answer.memory.peak_bytes)] : []), ...list.map((p) => row(button("take", () => take(p.plan)), p.plan, p.tokens_per_s, p.peak_bytes))], [1, 2], 13);
};
const progressWords = (said) => [make("progress", { value: said.done, max: said.total || null, "aria-label": "plans decided" }), make("p", {}, [`${whole(said.done)}${said.total ? " of " + whole(said.total) : ""} ${said.progress}. `,
  said.best_tokens_per_s > 0 ? make("b", {}, `Best so far: ${count(said.best_tokens_per_s)} tokens/s${said.gap_frac < 1 ? `, at most ${percent(said.gap_frac)} below the optimum` : ""}.`) : "Nothing that fits yet."])];
const takeLooked = (row) => take(changed(search.fixed || planFrom(data.plan), planFrom(Object.fromEntries(Object.entries(row).filter(([key]) => optionOf[key])))));
const drawSearch = () => {
  const r = search.result, best = r && r.best, list = r ? [...(r.plans || []), ...(r.pareto || [])].filter((p) => p.plan && p.prediction).map(foundPlan) : [], unique = [...new Map(list.map((p) => [addressOf(p.plan), p])).values()];
  const looked = r && r.looked_at ? lookedAt(r.looked_at) : [], after = seconds((search.running ? performance.now() : search.ended || performance.now()) / 1000 - search.begun / 1000);
  return [make("h3", {}, "The best plan for this model, machine and batch"), make("p", {}, "Searched: mesh, microbatches, rules, remat, sharding of sequence and optimizer. Everything else stays as it is. The software's own compiler; 2 % of memory stay free."),
    make("p", { class: "tools" }, search.running ? button("stop", stopSearch) : button("search", beginSearch, { "aria-disabled": held ? "true" : null, title: held ? offline : null })),
    make("div", { role: "status" }, search.running ? [make("p", {}, `${after} so far`), search.said ? progressWords(search.said) : null]
      : search.error ? search.error : r ? `${best ? `The best: ${count(unique[0].tokens_per_s)} tokens/s in ${bytes(unique[0].peak_bytes)}${r.plans[0].prediction.tight_reason ? `, ${verdictOf(r.plans[0].prediction)} (${r.plans[0].prediction.tight_reason})` : ""}${r.search.proven_optimal ? ", proven the optimum" : `, at most ${percent(r.search.gap_frac)} below the optimum`}. ` : "Nothing fits. "}${whole(r.search.space_count)} plans, ${after}.` : ""),
    unique.length ? [planRows(unique), cloud("Every plan that was looked at; a click takes it. Pale: ruled out by a bound, at most so fast", looked, ["peak_bytes", "memory of a device"], ["tokens_per_s", "tokens/s"], { line: r.looked_at && r.looked_at.capacity_bytes, take: takeLooked }), parallels(looked, r.looked_at.capacity_bytes, takeLooked)] : null];
};

/* ---- what a run measured ---- */

const line = (title, values, format) => {
  const width = wide(), height = 160, low = Math.min(...values), high = Math.max(...values), x = (i) => 70 + (width - 84) * i / (values.length - 1 || 1), y = (v) => 130 - 110 * (v - low) / (high - low || 1);
  return [make("h3", {}, title), make("figure", {}, svg(width, height, `${title}: ${format(values[0])} to ${format(values.at(-1))}`, [
    (high > low ? [low, high] : [low]).map((v) => [text(64, y(v) + 4, format(v), { "text-anchor": "end" }), draw("line", { class: "grid", x1: 70, x2: width - 14, y1: y(v), y2: y(v) })]),
    draw("polyline", { points: values.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(" "), fill: "none", stroke: "var(--throughput)", "stroke-width": 2 }),
    values.length < 40 ? values.map((v, i) => draw("circle", { cx: x(i), cy: y(v), r: 3, fill: "var(--throughput)" }, draw("title", {}, `${i}: ${format(v)}`))) : null, text(70, 154, "first step"), text(width - 14, 154, "last step", { "text-anchor": "end" })]))];
};
const drawRun = (d) => [d.stopped ? make("p", { class: "warning" }, "It was stopped by a signal.") : null, line("Loss of each step", d.loss, (v) => v.toPrecision(5)), line("Time of each step", d.step_s, seconds), d.gradient_norm ? line("Norm of the gradient", d.gradient_norm, (v) => v.toPrecision(4)) : null];
const drawAnswers = (d) => [d.stopped ? make("p", { class: "warning" }, "It was stopped by a signal: the answers end there.") : null,
  table("Answers: of each example the best, which stands last among its decodes", ["example", "score", "tokens"], d.scores.slice(0, 200).map((s, i) => [String(i), [s].flat().at(-1).toPrecision(6), ((d.decodes || [])[i] || [[]]).at(-1).slice(0, 256).join(" ")]), [0, 1])];

/* ---- what the answer rests on ---- */

const drawSources = (d) => [d.confidence ? make("p", {}, d.confidence) : null, make("p", {}, `Profile: ${d.profile || "none"}.`), (d.passes || []).length ? make("p", {}, `Compiler passes: ${d.passes.map(words).join(", ")}.`) : null,
  (d.constants || []).length ? table("Every constant, with its source", ["constant", "value", "kind", "source"], d.constants.map((c) => [c.name, String(c.value), c.kind, c.source]), [1]) : null];

/* ---- shelf ---- */

const exported = { t5x: ["gin", "gcloud", "slurm"], maxtext: ["maxtext"], megatron: ["megatron"], nemo: ["megatron"], torchtitan: ["torchtitan"], nanotron: ["nanotron"], deepspeed: ["deepspeed"] };
const exporter = (format) => button("copy " + format, async (event) => {
  const pressed = event.currentTarget, [a] = await ask(["export", ...argumentsOf(Object.fromEntries(Object.entries(plan).filter(([o]) => !costs.includes(o)))), "--format", format]);
  if (a.error) explain("software", valueOf("software"), a.error); else { await copy(String(a.result.text || a.result)); pressed.textContent = "copied"; }
});
const drawShelf = (d) => [make("h3", {}, shelf.length ? "Pinned plans" : "Nothing is pinned yet"),
  make("p", {}, shelf.length ? "The bold one stands behind the bars above." : "Pin a plan (top right), change it, and both stand here side by side."),
  shelf.length ? table("pinned plans", ["plan", "tokens/s", "a step", "memory", "fits", "do"], shelf.map((s, i) => [make(s === pinned ? "b" : "span", {}, i ? differences(s.plan, shelf[0].plan).join("; ") || "as the first" : `${s.plan.model} on ${s.plan.topology}`), count(s.answer.throughput.tokens_per_s), seconds(s.answer.time.step_s), bytes(s.answer.memory.peak_bytes), verdictOf(s.answer),
    make("span", { class: "tools" }, [button("take", () => take(s.plan)), button("compare", () => { pinned = s; paint(); drawView(); }), button("drop", () => { shelf.splice(i, 1); if (pinned === s) pinned = shelf[0] || null; paint(); drawView(); })])]), [1, 2, 3]) : null,
  make("h3", {}, "Take it along"),
  make("p", { class: "tools" }, [copier("copy command", () => commandOf(plan)), held ? null : copier("copy link", () => location.href), d ? button("save answer (JSON)", () => save("prediction.json", "application/json", JSON.stringify(d, null, 2))) : null,
    d ? button("save plan (JSON)", () => save("plan.json", "application/json", JSON.stringify(d.plan, null, 2))) : null, held ? null : (exported[valueOf("software")] || ["slurm"]).map(exporter)]),
  make("pre", { tabindex: "0" }, commandOf(plan))];

const views = [["found", "Plans", () => drawFound(), () => found], ["answers", "Answers", (d) => drawAnswers(d), (d) => d.mode], ["run", "Steps", (d) => drawRun(d), (d) => d.loss], ["memory", "Memory over time", (d) => drawMemory(d)], ["time", "Time", (d) => drawTime(d)], ["machine", "Machine", (d) => drawMachine(d, machine)], ["search", "Search", () => drawSearch(), () => turns], ["shelf", "Shelf", (d) => drawShelf(d), () => turns],
  ["sources", "Sources", (d) => drawSources(d)]].filter(([, , , of]) => !of || of(held ? held.document : {}));
