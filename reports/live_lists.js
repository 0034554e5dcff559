/* Answers that are lists: a search, a comparison, several topologies, a table of runs, a run beside its prediction. */
const formats = [[/tokens_per_s|_flop|^price$/, count], [/_bytes(_|$)|^bytes/, bytes], [/_s$/, seconds], [/_frac$/, percent]];
const cell = (key, value) => typeof value === "number" ? ((formats.find(([of]) => of.test(key)) || [])[1] || ((v) => Number.isInteger(v) ? String(v) : round(v)))(value)
  : value === null || value === undefined ? "" : value === true ? "yes" : value === false ? "no" : typeof value === "object" ? optionWords(value) : String(value);
const named = (key) => key.endsWith("tokens_per_s") ? words(key.slice(0, -12)) + "tokens/s" : words(key.replace(/_(s|bytes|frac)$/, ""));
const shortened = (said) => middle(said, 60);
/* A table of like objects; of a plan what differs from the page's. A click on a heading sorts. */
const listTable = (caption, list) => {
  const rows = list.slice(0, 500), keys = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((key) => rows.some((row) => row[key] !== null && row[key] !== undefined && !(typeof row[key] === "object" && key !== "plan" && !Array.isArray(row[key]))));
  const shown = (row, key) => key === "plan" ? differences(planFrom(row.plan), data.plan).join("; ") || "this plan" : cell(key, row[key]);
  const body = make("tbody"), order = { key: null, up: false, all: rows.length <= 30 };
  const fillRows = () => {
    const sorted = order.key === null ? rows : [...rows].sort((a, b) => (order.up ? 1 : -1) * (typeof a[order.key] === "number" ? a[order.key] - b[order.key] : shown(a, order.key) < shown(b, order.key) ? -1 : 1));
    show(body, (order.all ? sorted : sorted.slice(0, 20)).map((row) => make("tr", {}, keys.map((key) => make("td", { class: typeof row[key] === "number" ? "r" : null, title: shown(row, key).length > 60 ? shown(row, key) : null }, shortened(shown(row, key)))))));
  };
  fillRows();
  return make("section", {}, [make("h3", {}, caption), make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption }, make("table", {}, [make("thead", {}, make("tr", {}, keys.map((key) => make("th", { scope: "col" }, button(named(key), () => { order.up = order.key === key && !order.up; order.key = key; fillRows(); }, { class: "sort" }))))), body])),
    order.all ? null : button(`show all ${rows.length}`, (e) => { order.all = true; e.currentTarget.remove(); fillRows(); }), list.length > 500 ? make("p", { class: "note" }, `and ${list.length - 500} more; --json has all`) : null]);
};
const factList = (of) => make("dl", { class: "facts" }, Object.entries(of).filter(([, value]) => value !== null && typeof value !== "object").map(([key, value]) => fact(named(key), cell(key, value))));

/* Two numbers of many rows against each other. capacity: a line. */
const cloud = (title, rows, [xKey, xName], [yKey, yName], { line: limit, equal, take: taken } = {}) => {
  const known = rows.filter((row) => row[xKey] > 0 && row[yKey] > 0), far = limit ? 2.5 * limit : Infinity, dots = known.filter((row) => row[xKey] <= far).slice(0, 1500), beyond = known.filter((row) => row[xKey] > far).length, width = wide(), height = 300, left = 74;
  if (dots.length < 2) return null;
  const span = (values) => { const low = Math.min(...values), high = Math.max(...values), room = 0.05 * (high - low || high); return [low - room, high + room]; };
  const both = dots.flatMap((row) => [row[xKey], row[yKey]]), [x0, x1] = span(equal ? both : [...dots.map((row) => row[xKey]), ...(limit ? [limit] : [])]), [y0, y1] = span(equal ? both : dots.map((row) => row[yKey]));
  const x = (v) => left + (width - left - 16) * (v - x0) / (x1 - x0), y = (v) => height - 48 - (height - 72) * (v - y0) / (y1 - y0);
  const ticks = (low, high) => [0.1, 0.5, 0.9].map((f) => low + f * (high - low));
  return make("section", {}, [make("h3", {}, title), make("figure", {}, svg(width, height, title, [
    ticks(y0, y1).map((v) => [draw("line", { class: "grid", x1: left, x2: width - 16, y1: y(v), y2: y(v) }), text(left - 6, y(v) + 4, cell(yKey, v), { "text-anchor": "end" })]), ticks(x0, x1).map((v) => text(x(v), height - 30, cell(xKey, v), { "text-anchor": "middle" })),
    text(left, 12, yName), text((left + width) / 2, height - 8, xName, { "text-anchor": "middle" }), limit ? [draw("line", { class: "capacity", x1: x(limit), x2: x(limit), y1: 18, y2: height - 48 }), text(x(limit) - 4, 28, "capacity", { "text-anchor": "end" })] : null,
    equal ? draw("line", { class: "pointer", x1: x(x0), y1: y(x0), x2: x(x1), y2: y(x1) }) : null,
    dots.map((row) => draw("circle", { cx: x(row[xKey]).toFixed(1), cy: y(row[yKey]).toFixed(1), r: 4, class: "dot", opacity: (limit && row[xKey] > limit) || (row.decided_by || "prediction") !== "prediction" ? 0.25 : 0.75, onclick: taken ? () => taken(row) : null }, draw("title", {}, row.said)))])),
    beyond || rows.length > dots.length ? make("p", { class: "note" }, `${dots.length} of ${rows.length} are drawn${beyond ? `; ${beyond} need more than ${cell(xKey, far)}` : ""}.`) : null]);
};

/* Each plan as a line over the keys in which plans differ: what the fast ones have in common. */
const parallels = (list, capacity, taken) => {
  const rows = list.filter((row) => row.tokens_per_s > 0 && row.peak_bytes <= capacity && row.decided_by === "prediction").sort((a, b) => b.tokens_per_s - a.tokens_per_s).slice(0, 200).reverse(), keys = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((key) => optionOf[key] && new Set(rows.map((row) => String(row[key]))).size > 1);
  if (rows.length < 3 || !keys.length) return null;
  const width = Math.max(wide(), 124 * (keys.length + 2)), height = 260, axes = [...keys, "peak_bytes", "tokens_per_s"], x = (i) => 50 + (width - 130) * i / (axes.length - 1), most = Math.max(...rows.map((row) => row.tokens_per_s)), least = Math.min(...rows.map((row) => row.tokens_per_s));
  const scales = axes.map((key) => {
    const numbers = rows.map((row) => row[key]), values = [...new Set(rows.map((row) => cell(key, row[key])))].sort((a, b) => isNaN(a) || isNaN(b) ? (a < b ? -1 : 1) : a - b);
    if (!optionOf[key]) { const low = Math.min(...numbers), high = Math.max(...numbers); return { at: (row) => (row[key] - low) / (high - low || 1), ticks: [[0, cell(key, low)], [1, cell(key, high)]] }; }
    return { at: (row) => values.indexOf(cell(key, row[key])) / (values.length - 1 || 1), ticks: values.map((value, i) => [i / (values.length - 1 || 1), value]).filter((_, i) => values.length < 12 || i % Math.ceil(values.length / 12) === 0) };
  }), y = (f) => height - 34 - (height - 70) * f;
  return make("section", {}, [make("h3", {}, `The fastest ${rows.length} that fit, a line each`), make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "plans as lines" }, svg(width, height, "plans found, as lines over their keys", [
    rows.map((row) => { const f = (row.tokens_per_s - least) / (most - least || 1); return draw("polyline", { points: scales.map((s, i) => `${x(i).toFixed(1)},${y(s.at(row)).toFixed(1)}`).join(" "), class: "plan-line", "stroke-opacity": (0.08 + 0.8 * f * f).toFixed(2), "stroke-width": f === 1 ? 3 : 1.3, onclick: taken ? () => taken(row) : null }, draw("title", {}, row.said)); }),
    scales.map((s, i) => [draw("line", { x1: x(i), x2: x(i), y1: y(0), y2: y(1), class: "pointer" }), text(x(i), 14, middle(optionOf[axes[i]] ? label(optionOf[axes[i]]) : axes[i] === "peak_bytes" ? "memory" : "tokens/s", 17), { "text-anchor": i ? "middle" : "start", dx: i ? 0 : -46 }), s.ticks.map(([f, said]) => text(x(i) + 5, y(f) + 4, middle(said, 14), { class: "halo" }))])]))]);
};

/* What a search looked at: its columns hold each value once. */
const lookedAt = (of) => of.tokens_per_s.map((tokens, i) => {
  const keys = Object.fromEntries(of.columns.map((column) => [column.key, column.values[column.of[i]]]));
  return { ...keys, tokens_per_s: tokens, peak_bytes: of.peak_bytes[i], latency_s: of.latency_s ? of.latency_s[i] : undefined, decided_by: of.decided_by[i],
    said: `${count(tokens)} tokens/s, ${bytes(of.peak_bytes[i])}: ${Object.entries(keys).map(([key, value]) => `${words(key)} ${cell(key, value)}`).join(", ")}` };
});
const csvRows = (csv) => {
  const lines = csv.match(/(?:"(?:[^"]|"")*"|[^",\n])*(?:,(?:"(?:[^"]|"")*"|[^",\n])*)*\n?/g).filter((row) => row.trim()), split = (row) => row.replace(/\n$/, "").match(/("(?:[^"]|"")*"|[^",]*)(?:,|$)/g).map((word) => word.replace(/,$/, "").replace(/^"([^]*)"$/, "$1").replaceAll("\"\"", "\""));
  const head = split(lines[0]);
  return lines.slice(1).map((row) => { const words = split(row); return Object.fromEntries(head.map((key, i) => [key, words[i] !== "" && !isNaN(words[i]) ? Number(words[i]) : words[i]])); });
};
const sweepColumns = ["id", "model", "topology", "measured_step_s", "predicted_step_s", "error_frac", "measured_peak_memory_bytes", "predicted_peak_memory_bytes", "measured_oom", "predicted_fits", "error"];
const drawSweep = (d) => {
  const rows = csvRows(d.table).map((row) => ({ ...row, said: `${row.id}: measured ${cell("x_s", row.measured_step_s)}, predicted ${cell("x_s", row.predicted_step_s)}`, error_frac: row.measured_step_s > 0 && row.predicted_step_s > 0 ? row.predicted_step_s / row.measured_step_s - 1 : null }));
  const used = sweepColumns.filter((key) => rows.some((row) => row[key] !== "" && row[key] !== undefined && row[key] !== null));
  return [factList(d.sweep), cloud("Predicted against measured step time", rows, ["measured_step_s", "measured"], ["predicted_step_s", "predicted"], { equal: true }),
    cloud("Predicted against measured memory", rows.map((row) => ({ ...row, said: row.id })), ["measured_peak_memory_bytes", "measured"], ["predicted_peak_memory_bytes", "predicted"], { equal: true }), listTable("Every row", rows.map((row) => Object.fromEntries(used.map((key) => [key, row[key]]))))];
};
const listCaptions = { best_at_risk: "Speed against the risk of not fitting", tight: "Faster, but tight", latency_front: "Front: latency against tokens/s", pareto: "Front: memory against speed", sensitivity: "One choice otherwise", differences: "Differences", refusals: "Plans that cannot be launched", parts: "Time of a step, by part", operations: "Largest differences" };
const searchFacts = [["space_count", "plans"], ["evaluated_count", "predicted in full"], ["refused_count", "invalid ones beside them"], ["proven_optimal", "proven the best"], ["gap_frac", "below the optimum, at most"], ["headroom_frac", "memory that stays free"]];
const refusedEntries = !found ? [] : (found.topologies || found.answers || []).filter((e) => e.error).map((e) => [e.name || e.topology || "", e.error]);
/* Where a price is known, the cheapest may be another than the fastest. */
const priceWords = () => {
  const fits = entries.filter((e) => mayFit(e.answer) && e.answer.training && e.answer.training.price > 0), best = (of) => fits.reduce((a, b) => of(b) < of(a) ? b : a);
  if (fits.length < 2) return null;
  const said = (what, e) => `${what} that fits: ${e.name || "plan " + (entries.indexOf(e) + 1)}, ${count(e.answer.throughput.tokens_per_s)} tokens/s, price ${count(e.answer.training.price)}. `;
  return make("p", {}, [said("Cheapest", best((e) => e.answer.training.price)), said("Fastest", best((e) => -e.answer.throughput.tokens_per_s))]);
};
const drawLists = (d) => [d.search ? [make("h3", {}, `${entries.length ? `The best of ${count(d.search.space_count)} plans` : `None of ${count(d.search.space_count)} plans fits`}${d.search.proven_optimal ? ", proven" : ""}`), make("dl", { class: "facts" }, searchFacts.filter(([key]) => d.search[key] !== undefined && d.search[key] !== null).map(([key, said]) => fact(said, typeof d.search[key] === "number" && key.endsWith("_count") ? whole(d.search[key]) : cell(key, d.search[key]))))] : null,
  entries.length ? listTable("Plans", entries.map((e) => ({ name: e.name, plan: e.plan, tokens_per_s: e.answer.throughput.tokens_per_s, step_s: e.answer.time.step_s, latency_s: e.answer.latency_s, peak_bytes: e.answer.memory.peak_bytes, capacity_bytes: available(e.answer.memory), fits: mayFit(e.answer), price: (e.answer.training || {}).price }))) : null,
  priceWords(),
  refusedEntries.length ? [make("h3", {}, "Refused"), table("refused", ["topology", "why"], refusedEntries)] : null,
  entries.length > 1 ? make("p", { class: "tools" }, entries.map((e, i) => button(e.name || `plan ${i + 1}`, () => take(planFrom(e.plan))))) : null,
  d.looked_at ? cloud("What was looked at. Pale: does not fit, or ruled out by a bound", lookedAt(d.looked_at), ["peak_bytes", "memory of a device"], ["tokens_per_s", "tokens/s"], { line: d.looked_at.capacity_bytes, take: turns ? takeLooked : null }) : null, d.looked_at ? parallels(lookedAt(d.looked_at), d.looked_at.capacity_bytes) : null,
  Object.entries({ ...d, ...(d.why_best_beats_second || {}), refusals: (d.search || {}).refusals }).filter(([key, list]) => Array.isArray(list) && list.length && typeof list[0] === "object" && !["plans", "answers", "topologies"].includes(key)).map(([key, list]) => listTable(listCaptions[key] || named(key), list))];
const drawFound = () => found.sweep ? drawSweep(found) : [!entries.length ? factList(found) : null, drawLists(found)];
