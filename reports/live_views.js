/* What can be looked at below the verdict: memory over time, operations, the machine, a search, the shelf. */
const view = make("div", { class: "view", role: "tabpanel", id: "view", "aria-labelledby": "tab-memory", tabindex: "0" });
const wide = () => Math.max(300, Math.min(1100, view.clientWidth || 700));
const svg = (width, height, label, children) => draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, children);
const text = (x, y, words, more) => draw("text", { x, y, ...more }, words);

/* ---- memory over time ---- */

const keyList = (parts) => make("ul", { class: "key" }, parts.map(([name, colour]) => make("li", {}, [make("i", { style: `background:var(--${colour})` }), name])));
const peakTable = (d) => {
  const list = d.memory.peak_buffers || [];
  if (!list.length) return null;
  return make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "buffers at the peak" }, make("table", {}, [make("caption", {}, "Buffers at the peak"), make("thead", {}, make("tr", {}, ["buffer", "kind", "size", "why"].map((h) => make("th", { scope: "col" }, h)))),
    make("tbody", {}, list.slice(0, 40).map((b) => make("tr", {}, [make("td", {}, b.name), make("td", {}, b.kind), make("td", { class: "r" }, bytes(b.bytes)), make("td", {}, b.why || "")])))]));
};
const drawMemory = (d) => {
  const m = d.memory_timeline, pipeline = d.pipeline;
  const stages = pipeline && pipeline.stage_peak_bytes ? stageBars(pipeline, d.memory.capacity_bytes) : null;
  if (!m || !m.at_s || !m.at_s.length) return [make("h3", {}, "Memory at the peak"), make("p", {}, `The peak is at ${d.memory.peak_at}.`), stages, peakTable(d)];
  const parts = memoryParts.filter(([key]) => m[key]), width = wide(), height = 260, left = 62, right = 12, top = 16, bottom = 30;
  const step = Math.max(...m.at_s) || 1, highest = Math.max(...m.at_s.map((_, i) => memoryParts.reduce((sum, [key]) => sum + (m[key] ? m[key][i] : 0), 0))), most = 1.06 * Math.max(d.memory.capacity_bytes, highest);
  const x = (s) => left + (width - left - right) * s / step, y = (b) => height - bottom - (height - top - bottom) * b / most;
  const base = m.at_s.map(() => 0), order = ["reserved_bytes", ...parts.map(([key]) => key).filter((key) => key !== "reserved_bytes")];
  const areas = order.filter((key) => m[key]).map((key) => {
    const under = base.map((b, i) => `${x(m.at_s[i]).toFixed(1)},${y(b).toFixed(1)}`).reverse();
    const over = m[key].map((b, i) => { base[i] += b; return `${x(m.at_s[i]).toFixed(1)},${y(base[i]).toFixed(1)}`; });
    return draw("polygon", { points: [...over, ...under].join(" "), fill: `var(--${memoryParts.find(([k]) => k === key)[2]})` });
  });
  const peak = base.indexOf(Math.max(...base)), pointer = draw("line", { y1: top, y2: height - bottom, class: "pointer", x1: x(m.at_s[peak]), x2: x(m.at_s[peak]) });
  const said = make("p", { class: "said", "aria-live": "polite" });
  const look = (i) => {
    pointer.setAttribute("x1", x(m.at_s[i])); pointer.setAttribute("x2", x(m.at_s[i]));
    show(said, make("b", {}, `${bytes(base[i])} at ${seconds(m.at_s[i])}${i === peak ? " (the peak)" : ""}: ${m.operation ? m.operation[i] : ""}. `),
      parts.map(([key, name]) => `${name} ${bytes(m[key][i])}`).join(", "));
  };
  const nearest = (s) => m.at_s.reduce((best, at, i) => Math.abs(at - s) < Math.abs(m.at_s[best] - s) ? i : best, 0);
  let at = peak;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((f) => [text(left - 6, y(f * d.memory.capacity_bytes) + 4, bytes(f * d.memory.capacity_bytes), { "text-anchor": "end" }),
    draw("line", { class: f === 1 ? "capacity" : "grid", x1: left, x2: width - right, y1: y(f * d.memory.capacity_bytes), y2: y(f * d.memory.capacity_bytes) })]);
  const chart = svg(width, height, `Memory over a step: the peak is ${bytes(base[peak])}, at ${d.memory.peak_at}`, [ticks, areas, pointer,
    text(left, height - 8, "0"), text(width - right, height - 8, seconds(step), { "text-anchor": "end" }), text(x(m.at_s[peak]), top - 4, "peak", { "text-anchor": x(m.at_s[peak]) > width / 2 ? "end" : "start" })]);
  fill(chart, {
    tabindex: "0", onpointermove: (e) => { const box = chart.getBoundingClientRect(); at = nearest(step * ((e.clientX - box.left) * width / box.width - left) / (width - left - right)); look(at); },
    onkeydown: (e) => { const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key]; if (by) { e.preventDefault(); at = Math.max(0, Math.min(m.at_s.length - 1, at + by)); look(at); } },
  });
  look(peak);
  return [make("h3", {}, `The peak is at ${d.memory.peak_at}`), make("figure", {}, chart), keyList(parts.map(([, name, colour]) => [name, colour])), said, stages, peakTable(d)];
};
const stageBars = (pipeline, capacity) => make("section", {}, [make("h3", {}, "Memory of each stage at its peak"), pipeline.stage_peak_bytes.map((b, i) =>
  make("div", { class: "line-bar" }, [make("span", {}, `stage ${i}`), make("div", {}, make("i", { style: `width:${Math.min(100, 100 * b / (1.02 * capacity)).toFixed(1)}%`, class: b > capacity ? "over" : null })), make("b", {}, bytes(b))]))]);

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
const traceButton = (tracks, spans) => button("save trace for Perfetto", () => save("trace.json", "application/json", traceOf(tracks, spans)), { title: "open it at ui.perfetto.dev" });
const drawPasses = (pipeline, step) => {
  const passes = pipeline.passes || [], tracks = [...Array(pipeline.stages).keys()].map((s) => "stage " + s);
  if (!passes.length || passes.length < pipeline.pass_count) return null; // too many to be drawn
  const spans = passes.map((p) => ["stage " + p.stage, p.start_s, p.end_s - p.start_s, p.backward ? "throughput" : "compute", `stage ${p.stage}, microbatch ${p.microbatch}, ${p.backward ? "backward" : "forward"}`, p.chunk % 2]);
  return make("section", {}, [make("h3", {}, `Stages over a step: ${percent(pipeline.bubble_s / step)} of it a stage waits`), zoomed("passes", "passes of each stage", drawTracks(tracks, spans, Math.max(step, ...passes.map((p) => p.end_s)), `${pipeline.stages} stages, ${passes.length} passes`)),
    make("p", { class: "tools" }, traceButton(tracks, spans)), keyList([["forward", "compute"], ["backward", "throughput"]])]);
};
/* The operations in the order of the program, each with all of its repetitions; what crosses links on a track of its own. */
const drawOrder = (list, step) => {
  const tracks = ["device", "links"], whole = list.reduce((sum, e) => sum + e.time_s * e.count, 0);
  let at = 0;
  const spans = list.map((e) => {
    const bound = e.bound || boundOf[e.kind], length = e.time_s * e.count * step / whole, start = at;
    at += length;
    return [bound === "communication" ? "links" : "device", start, length, boundColours[bound], `${e.name}, ${e.phase}, ${e.count} times`];
  });
  return !(whole > 0) ? null : [make("h3", {}, "Operations in the order of the program"), make("p", { class: "note" }, "Each with all of its repetitions."), zoomed("order", "operations in order", drawTracks(tracks, spans, step, `${list.length} operations`)), make("p", { class: "tools" }, traceButton(tracks, spans))];
};
const overlapWords = (t, hidden) => !(t.communication_s > 0) ? "Nothing crosses a link" : hidden < 0.005 * t.communication_s ? `All ${seconds(t.communication_s)} of communication is waited for` : hidden > 0.995 * t.communication_s ? `All ${seconds(t.communication_s)} of communication is hidden behind computation` : `Of ${seconds(t.communication_s)} of communication ${percent(hidden / t.communication_s)} is hidden behind computation`;
const drawTime = (d) => {
  const list = d.timeline || [], t = d.time, hidden = Math.max(0, t.communication_s - t.exposed_communication_s), blocks = new Map();
  for (const e of list) {
    const name = `${e.phase}: ${blockOf(e.name)}`, all = blocks.get(name) || { name, total: 0, compute: 0, memory: 0, communication: 0, latency: 0 }, s = e.time_s * e.count;
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
    d.pipeline ? drawPasses(d.pipeline, t.step_s) : null, list.length && !d.pipeline ? drawOrder(list, d.latency_s && !d.mode ? d.latency_s : t.step_s) : null,
    rows.length ? make("h3", {}, `Time by block${list.length ? ", forward and backward" : ""}`) : null,
    rows.slice(0, 24).map((r) => make("div", { class: "line-bar" }, [make("span", { title: r.name }, r.name), make("div", {}, ["compute", "memory", "communication", "latency"].map((b) =>
      r[b] > 0 ? make("i", { style: `width:${(100 * r[b] / most).toFixed(2)}%;background:var(--${boundColours[b]})`, title: `${b}: ${seconds(r[b])}` }) : null)), make("b", {}, seconds(r.total))])),
    collectivesTable(d)];
};
const collectivesTable = (d) => !(d.collectives || []).length ? null : make("details", {}, [make("summary", {}, `Collectives of a step (${d.collectives.length} kinds)`), make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "collectives" }, make("table", {}, [
  make("thead", {}, make("tr", {}, ["collective", "over", "times", "bytes a device, each", "dtype", "time of all"].map((h) => make("th", { scope: "col" }, h)))),
  make("tbody", {}, d.collectives.map((c) => make("tr", {}, [make("td", {}, words(c.kind)), make("td", {}, c.mesh_axis), make("td", { class: "r" }, String(c.count)), make("td", { class: "r" }, bytes(c.bytes)), make("td", {}, c.dtype), make("td", { class: "r" }, seconds(c.time_s))])))]))]);

/* ---- the machine: chips, and the tile of one model group ---- */

const drawMachine = (d, topology) => {
  if (!topology || !topology.bounds) return make("p", {}, "The machine is not known.");
  const b = [...topology.bounds, 1, 1, 1].slice(0, 3), isTorus = topology.kind === "tpu", isGpu = !isTorus && topology.bounds.length === 2;
  const tile = (plan["model-parallel-submesh"] || "").split(",").map(Number), picks = isTorus;
  const [columns, rows, planes] = isGpu ? [b[1], b[0], 1] : b, cells = columns * rows * planes;
  if (cells > 16384) return make("p", {}, `${count(cells)} chips are too many to draw.`);
  const across = Math.max(1, Math.min(planes, Math.floor((wide() + 12) / (columns * 9 + 14)))), size = Math.max(5, Math.min(22, Math.floor((wide() / across - 14) / columns)));
  const model = d.mesh ? Object.entries(d.mesh).filter(([axis]) => !["data", "fsdp", "stage", "replica"].includes(axis)).reduce((p, [, n]) => p * n, 1) : 1;
  const groupOf = (x, y, z, i) => picks && tile.length >= 3 && !tile.some(isNaN) ? [x, y, z].map((c, k) => Math.floor(c / tile[k])) : [Math.floor(i / model), 0, 0];
  const boxes = [];
  const cell = (x, y, z, i) => {
    const group = groupOf(x, y, z, i), first = group.every((g) => g === 0), odd = group.reduce((s, g) => s + g, 0) % 2;
    const px = (z % across) * (columns * size + 14) + x * size, py = 16 + Math.floor(z / across) * (rows * size + 30) + (rows - 1 - y) * size, last = topology.bounds[3] || 1;
    const pick = picks ? () => go({ "model-parallel-submesh": [x + 1, y + 1, z + 1, Math.min(last, tile[3] || 1)].join(",") }) : null;
    boxes.push(draw("rect", { x: px, y: py, width: size - 1.5, height: size - 1.5, rx: 1.5, class: first ? "own" : odd ? "odd" : "even", onclick: pick },
      draw("title", {}, `chip ${[x, y, z].slice(0, isGpu ? 2 : 3).join(",")}${picks ? `: a click makes the tile ${x + 1},${y + 1},${z + 1}` : ""}`)));
  };
  let i = 0;
  if (isGpu) for (let y = 0; y < rows; y++) for (let x = 0; x < columns; x++) cell(x, rows - 1 - y, 0, i++);
  else for (let z = 0; z < planes; z++) for (let y = 0; y < rows; y++) for (let x = 0; x < columns; x++) cell(x, y, z, i++);
  const labels = planes > 1 ? [...Array(planes).keys()].map((z) => text((z % across) * (columns * size + 14), 12 + Math.floor(z / across) * (rows * size + 30), "z = " + z)) : [];
  const height = 16 + Math.ceil(planes / across) * (rows * size + 30), width = across * (columns * size + 14);
  return [make("h3", {}, `${topology.device_count} devices: ${Object.entries(d.mesh || {}).map(([axis, n]) => `${axis} ${n}`).join(" × ")}`),
    make("p", {}, isTorus ? `A torus of ${topology.bounds.slice(0, 3).join(" × ")}${topology.wraps ? ", " + (topology.wraps.every(Boolean) ? "closed in every dimension" : topology.wraps.some(Boolean) ? "closed in some dimensions" : "open") : ""}. ${picks ? "Click a chip: the box from the corner to it becomes the tile of one model group." : ""}` : `${topology.host_count} hosts of ${topology.devices_per_host_count} devices, a row each.`),
    make("div", { class: "scrolls machine", tabindex: "0", role: "region", "aria-label": "the machine" }, svg(width, height, `${topology.topology}: one model group is marked`, [labels, boxes])),
    make("ul", { class: "key" }, [make("li", {}, [make("i", { class: "own" }), "one model group"]), make("li", {}, [make("i", { class: "odd" }), "other groups"])])];
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
      search.running = false;
      if (state.said.error) search.error = state.said.error; else search.result = state.said.result;
    } else if (!state.running && search.running) { search.running = false; search.error = "The search ended without an answer."; }
    if (open === "search") drawView();
  }
};
const beginSearch = async () => {
  const fixed = Object.fromEntries(Object.entries(plan).filter(([o]) => !searched.includes(o)));
  Object.assign(search, { running: true, said: null, result: null, error: null, begun: performance.now() });
  drawView();
  try {
    await send("POST", "search", JSON.stringify(["tune", ...argumentsOf(fixed), "--top", "12", "--pareto", "--time-limit", "60"]));
    listen();
  } catch (e) { search.running = false; search.error = e.message; drawView(); }
};
const foundPlan = (p) => ({ plan: planFrom(p.plan), tokens_per_s: p.prediction.throughput.tokens_per_s, peak_bytes: p.prediction.memory.peak_bytes });
const planRows = (list) => make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "plans found" }, make("table", {}, [make("thead", {}, make("tr", {}, ["", "plan", "tokens/s", "memory"].map((h) => make("th", { scope: "col" }, h || make("span", { class: "unseen" }, "take"))))),
  make("tbody", {}, list.map((p) => { const found = p.plan; return make("tr", {}, [make("td", {}, button("take", () => take(found))), make("td", {}, differences(found, plan).join("; ") || "this plan"), make("td", { class: "r" }, count(p.tokens_per_s)), make("td", { class: "r" }, bytes(p.peak_bytes))]); }))]));
const scatter = (list) => {
  const dots = list.filter((p) => p.tokens_per_s > 0 && p.peak_bytes > 0), width = wide(), height = 240, left = 62;
  if (dots.length < 2) return null;
  const [x0, x1] = [Math.min(...dots.map((p) => p.peak_bytes)), Math.max(...dots.map((p) => p.peak_bytes))], [y0, y1] = [Math.min(...dots.map((p) => p.tokens_per_s)), Math.max(...dots.map((p) => p.tokens_per_s))];
  const x = (v) => left + 10 + (width - left - 30) * (v - x0) / (x1 - x0 || 1), y = (v) => height - 40 - (height - 60) * (v - y0) / (y1 - y0 || 1);
  return make("figure", {}, svg(width, height, "Plans found: tokens/s against memory", [
    [[x0, "start"], [x1, "end"]].map(([v, anchor]) => text(x(v), height - 20, bytes(v), { "text-anchor": anchor })), [y0, y1].map((v) => text(left - 4, y(v) + 4, count(v), { "text-anchor": "end" })),
    text(width / 2, height - 4, "memory of a device at the peak", { "text-anchor": "middle" }), text(2, 12, "tokens/s"),
    dots.map((p) => draw("circle", { cx: x(p.peak_bytes), cy: y(p.tokens_per_s), r: 5, class: "dot", onclick: () => take(p.plan) }, draw("title", {}, `${count(p.tokens_per_s)} tokens/s, ${bytes(p.peak_bytes)}: ${differences(p.plan, plan).join("; ")}`)))]));
};
const drawSearch = () => {
  const r = search.result, best = r && r.best, list = r ? [...(r.plans || []), ...(r.pareto || [])].filter((p) => p.plan && p.prediction).map(foundPlan) : [];
  return [make("h3", {}, "The best plan for this model, machine and batch"), make("p", {}, "Searched: mesh, microbatches, rules, remat. Everything else stays as it is."),
    make("p", { class: "tools" }, search.running ? button("stop", stopSearch) : button("search", beginSearch, { "aria-disabled": held ? "true" : null, title: held ? offline : null })),
    make("p", { role: "status" }, search.running ? `${seconds((performance.now() - search.begun) / 1000)}: ${search.said ? `${count(search.said.done)}${search.said.total ? " of " + count(search.said.total) : ""} ${search.said.progress}` : "searching"}`
      : search.error ? search.error : r ? `${best ? "" : "Nothing fits. "}Searched in ${seconds((performance.now() - search.begun) / 1000)}.` : ""),
    list.length ? [scatter(list), planRows(list)] : null];
};

/* ---- what a run measured ---- */

const table = (caption, headings, rows, right) => make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption }, make("table", {}, [make("caption", {}, caption), make("thead", {}, make("tr", {}, headings.map((h) => make("th", { scope: "col" }, h)))),
  make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell, i) => make("td", { class: (right || []).includes(i) ? "r" : null }, cell)))))]));
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

const drawShelf = (d) => [make("h3", {}, shelf.length ? "Pinned plans" : "Nothing is pinned yet"),
  make("p", {}, "The marked one stands behind the bars as a ghost."),
  shelf.length ? make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "pinned plans" }, make("table", {}, [make("thead", {}, make("tr", {}, ["plan", "tokens/s", "a step", "memory", "fits", "do"].map((h) => make("th", { scope: "col" }, h)))),
    make("tbody", {}, shelf.map((s, i) => make("tr", { class: s === pinned ? "now" : null }, [make("td", {}, i ? differences(s.plan, shelf[0].plan).join("; ") || "as the first" : `${s.plan.model} on ${s.plan.topology}`), make("td", { class: "r" }, count(s.answer.throughput.tokens_per_s)),
      make("td", { class: "r" }, seconds(s.answer.time.step_s)), make("td", { class: "r" }, bytes(s.answer.memory.peak_bytes)), make("td", {}, s.answer.fits ? "yes" : "no"),
      make("td", {}, [button("take", () => take(s.plan)), " ", button("ghost", () => { pinned = s; paint(); drawView(); }), " ", button("drop", () => { shelf.splice(i, 1); if (pinned === s) pinned = shelf[0] || null; paint(); drawView(); })])])))])) : null,
  make("p", { class: "tools" }, [copier("copy command", () => commandOf(plan)), held ? null : copier("copy link", () => location.href), d ? button("save answer (JSON)", () => save("prediction.json", "application/json", JSON.stringify(d, null, 2))) : null,
    d ? button("save plan (JSON)", () => save("plan.json", "application/json", JSON.stringify(d.plan, null, 2))) : null,
    held ? null : button("copy gin", async (event) => { const pressed = event.currentTarget, [a] = await ask(["export", ...argumentsOf(plan), "--format", "gin"]); if (a.error) explain("software", valueOf("software"), a.error); else { await copy(String(a.result)); pressed.textContent = "copied"; } })]),
  make("pre", { tabindex: "0" }, commandOf(plan))];

const views = [["found", "Plans", () => drawFound(), () => found], ["answers", "Answers", (d) => drawAnswers(d), (d) => d.mode], ["run", "Steps", (d) => drawRun(d), (d) => d.loss], ["memory", "Memory over time", (d) => drawMemory(d)], ["time", "Time", (d) => drawTime(d)], ["machine", "Machine", (d) => drawMachine(d, machine)], ["search", "Search", () => drawSearch(), () => turns], ["shelf", "Shelf", (d) => drawShelf(d), () => turns],
  ["sources", "Sources", (d) => drawSources(d)]].filter(([, , , of]) => !of || of(held ? held.document : {}));
