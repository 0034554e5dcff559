/* The verdict and what stands around it: two bars with the pinned plan's as ghosts, numbers, remedies, the what-if strip. */
const memoryParts = [["parameter_bytes", "parameters", "parameters"], ["optimizer_state_bytes", "optimizer state", "optimizer-state"], ["gradient_bytes", "gradients", "gradients"],
  ["activation_bytes", "activations", "activations"], ["cache_bytes", "cache", "cache"], ["temporary_bytes", "temporaries", "temporaries"], ["reserved_bytes", "reserved", "reserved"]];
const timeParts = [["compute_s", "compute", "compute"], ["memory_bound_s", "memory-bound", "memory-bound"], ["exposed_communication_s", "communication not hidden", "model-axis"], ["overhead_s", "overhead", "overhead"]];

const partsOf = (of, table) => {
  const parts = table.filter(([key]) => of[key] > 0).map(([key, name, colour]) => ({ name, colour, size: of[key] }));
  return parts;
};

/* whole: what the bar's length means; hi, lo: the interval; line: capacity. */
const bar = (title, parts, of, format) => {
  const far = of.line > 20 * Math.max(of.whole, of.hi || 0, of.ghost || 0), end = far ? 0 : of.line;
  const most = 1.04 * Math.max(of.whole, of.hi || 0, end || 0, of.ghost || 0), share = (v) => (100 * v / most).toFixed(2) + "%";
  const sum = Math.max(of.whole, parts.reduce((s, p) => s + p.size, 0));
  const said = `${title}: ${format(of.whole)}${of.line ? " of " + format(of.line) : ""}; ${parts.map((p) => `${p.name} ${format(p.size)}`).join(", ")}`;
  return make("figure", { class: "bar" }, [
    make("div", { class: "track", role: "img", "aria-label": said }, [
      of.ghost ? make("div", { class: "ghost", style: `width:${share(of.ghost)}`, title: "pinned: " + format(of.ghost) }) : null,
      make("div", { class: "stack", style: `width:${share(of.whole)}` }, parts.map((p) =>
        make("span", { style: `width:${(100 * p.size / sum).toFixed(2)}%;background:var(--${p.colour})`, title: `${p.name}: ${format(p.size)}` }))),
      of.hi > of.lo ? make("div", { class: "whisker", style: `left:${share(of.lo)};width:${share(of.hi - of.lo)}`, title: `90 %: ${format(of.lo)} to ${format(of.hi)}` }) : null,
      end ? make("div", { class: end < 0.3 * most ? "line early" : "line", style: `left:${share(end)}` }, make("span", {}, "available " + format(end))) : null,
    ]),
    far ? make("p", { class: "note" }, `of ${format(of.line)}`) : null,
    make("ul", { class: "key" }, parts.map((p) => make("li", {}, [make("i", { style: `background:var(--${p.colour})` }), `${p.name} `, make("b", {}, format(p.size))]))),
  ]);
};

const fact = (name, value, note, before) => make("div", {}, [make("dt", {}, name), make("dd", {}, value), note ? make("dd", { class: "note" }, note) : null,
  before ? make("dd", { class: "note change" }, before) : null]);
const interval = (pair, format) => pair ? `90 %: ${format(pair[0])} to ${format(pair[1])}` : null;

/* What is fast: of training tokens and a step, of inference a token and an answer, of a run what it measured. */
const speedFacts = (d, before) => {
  const t = d.time, s = d.throughput, i = d.inference || (d.mode ? { step: d.mode, bound_by: null } : null), b = before || { throughput: {}, time: {} };
  const changed = (now, then) => then ? change(now, then) : null;
  const tokens = fact(i ? "tokens/s" : "target tokens/s", count(s.tokens_per_s), interval(s.tokens_per_s_interval, count), changed(s.tokens_per_s, b.throughput.tokens_per_s));
  if (!i) return [tokens, fact("a step", seconds(t.step_s), d.loss ? `mean of ${d.loss.length}` : interval(t.step_interval_s, seconds), changed(t.step_s, b.time.step_s))];
  return [tokens, i.token_s === undefined ? null : fact("a token", seconds(i.token_s), `for each of ${i.rows} rows`), fact(i.step === "generate" ? "an answer" : "a batch", seconds(d.latency_s), d.first_token_s === undefined ? null : `first token ${seconds(d.first_token_s)}`),
    i.bound_by === null ? fact("a decode step", seconds(t.step_s), `${d.decode_steps} in all; weights: ${d.weights}`) : fact("bound by", i.bound_by, `reading weights ${seconds(i.weights_s)}, cache ${seconds(i.cache_s)}`)];
};

/* By likelihood, as the headline. A run has no verdict, nor has what an earlier program saved. */
const verdictOf = (d) => words(d.verdict || (d.fits === false ? "does_not_fit" : "fits"));
const mayFit = (d) => d.verdict ? !d.verdict.includes("not") : d.fits !== false;
const headline = (d) => {
  if (d.mode) return `${d.scores.length} example${d.scores.length === 1 ? "" : "s"}, ${count(d.throughput.tokens_per_s)} tokens/s, measured here`;
  if (d.loss) return `Measured: ${count(d.throughput.tokens_per_s)} target tokens/s in ${bytes(d.memory.peak_bytes)} of each device`;
  return d.headline || (d.fits ? "It fits" : "It does not fit"); /* an earlier program's answer has none */
};

/* The verdict, and smaller what it rests on. */
const headlineParts = (said) => { const at = said.indexOf(": "); return at < 0 || at > 40 ? said : [said.slice(0, at + 2), make("small", {}, said.slice(at + 2))]; };
const against = (d, pin) => {
  if (!pin) return null;
  const what = differences(plan, pin.plan), p = pin.answer;
  if (!what.length) return make("p", { class: "against" }, "This is the pinned plan.");
  const memory = d.memory.peak_bytes - p.memory.peak_bytes;
  return make("p", { class: "against" }, [make("b", {}, `${change(d.throughput.tokens_per_s, p.throughput.tokens_per_s)} tokens/s, ${change(d.time.step_s, p.time.step_s)} step time, ${memory < 0 ? "−" : "+"}${bytes(Math.abs(memory))} memory`),
    ` beside the pinned plan: ${what.join("; ")}`]);
};

const remedies = (d) => {
  const list = d.changes_that_fit || [];
  if (!list.length) return null;
  const changesOf = (text) => Object.fromEntries(text.split(/, (?=[a-z_]+ )/).map((part) => {
    const at = part.indexOf(" "), option = optionOf[part.slice(0, at)];
    return option ? [option, part.slice(at + 1)] : null;
  }).filter((pair) => pair));
  return make("section", { class: "remedies" }, [make("h3", {}, "What would make it fit"), make("ul", {}, list.slice(0, 6).map((c) =>
    make("li", {}, [button(Object.entries(changesOf(c.change)).map(([o, v]) => `${label(o)} ${valueWords(o, v)}`).join(", ") || c.change, () => go(changesOf(c.change))), ` ${count(c.tokens_per_s)} tokens/s, ${bytes(c.peak_bytes)}${c.tight ? ", tight" : ""}`])))]);
};

const drawVerdict = (d, pin) => {
  const m = d.memory, t = d.time, s = d.throughput, before = pin && addressOf(pin.plan) !== addressOf(plan) ? pin.answer : null;
  return [
    make("h2", { class: mayFit(d) ? "fits" : "bad", id: "headline" }, headlineParts(headline(d))),
    against(d, pin),
    make("dl", { class: "facts" }, [
      speedFacts(d, before),
      s.mfu_frac === undefined || s.mfu_frac === null ? null : fact("MFU", percent(s.mfu_frac), "model FLOP over the peak", before && before.throughput.mfu_frac ? change(s.mfu_frac, before.throughput.mfu_frac) : null),
      d.training ? fact(d.training.price > 0 ? "price of the training" : "the training", d.training.price > 0 ? count(d.training.price) : seconds(d.training.wall_s), `${count(d.training.train_tokens)} tokens: ${whole(d.training.steps)} steps, ${seconds(d.training.wall_s)}, ${count(d.training.device_hours)} device hours`, before && before.training ? change(d.training.price || d.training.wall_s, before.training.price || before.training.wall_s) : null) : null,
      d.loss ? fact("loss", d.loss.at(-1).toPrecision(5), `after ${d.loss.length} step${d.loss.length === 1 ? "" : "s"}; ${d.loss[0].toPrecision(5)} at first`)
        : d.fits_probability_frac === undefined || d.fits_probability_frac === null ? null : fact("likely to fit", percent(d.fits_probability_frac), d.confidence && d.confidence.includes("uncalibrated") ? "uncalibrated" : null),
    ]),
    make("h3", {}, "Memory of a device at the peak"),
    bar("Memory of a device", partsOf(m, memoryParts), { whole: m.peak_bytes, line: available(m), lo: (m.peak_interval_bytes || [])[0], hi: (m.peak_interval_bytes || [])[1], ghost: before && before.memory.peak_bytes }, bytes),
    make("h3", {}, "Time of a step"),
    bar("Time of a step", partsOf(t, timeParts), { whole: t.step_s, lo: (t.step_interval_s || [])[0], hi: (t.step_interval_s || [])[1], ghost: before && before.time.step_s }, seconds),
    remedies(d),
    (d.warnings || []).map((w) => make("p", { class: "warning", role: "note" }, w)),
  ];
};

/* ---- what if ---- */

/* A row of the answer with its totals at hand. */
const neighbour = (n) => !n.answer ? n : { ...n, now: held ? n.value === (plan[optionOf[n.key]] ?? (n.now ? n.value : null)) : n.now, fits: mayFit(n.answer), tokens_per_s: n.answer.throughput.tokens_per_s,
  peak_bytes: n.answer.memory.peak_bytes, capacity_bytes: available(n.answer.memory) };

const strip = make("div", { class: "strip", "aria-live": "off" });
const neighbourSaid = (n, now) => n.refused ? `${n.value}: refused: ${n.refused}`
  : `${n.value}: ${count(n.tokens_per_s)} tokens/s${now && !n.now ? ` (${change(n.tokens_per_s, now.tokens_per_s)})` : ""}, ${bytes(n.peak_bytes)} of ${bytes(n.capacity_bytes)}${n.fits ? "" : `: ${verdictOf(n.answer)}`}`;
const drawStrip = () => {
  const rows = Object.entries(around).filter(([, list]) => list.some((n) => !n.now && !n.refused));
  const fastest = Math.max(...rows.flatMap(([, list]) => list.map((n) => n.refused ? 0 : n.tokens_per_s)));
  const had = strip.contains(document.activeElement) ? document.activeElement.dataset : null, at = had && { key: had.key, value: had.value };
  show(strip, rows.map(([option, list]) => {
    const now = list.find((n) => n.now);
    return make("div", { class: "row" }, [make("span", { class: "name" }, label(option)), make("div", { class: "bars", role: "group", "aria-label": label(option) }, list.map((n) =>
      button([make("i", { style: `height:${n.refused ? 2 : Math.max(2, 44 * n.tokens_per_s / fastest).toFixed(1)}px` }), make("span", {}, valueWords(option, n.value))],
        () => n.refused ? explain(option, n.value, n.refused) : go({ [option]: n.value }), {
          class: "what " + (n.refused ? "refused" : n.fits ? "fit" : "unfit") + (n.now ? " now" : ""), title: neighbourSaid(n, now), "aria-label": neighbourSaid(n, now),
          "aria-current": n.now ? "true" : null, "aria-disabled": n.refused ? "true" : null, "data-key": option, "data-value": n.value,
        })))]);
  }));
  if (at) { const again = [...strip.querySelectorAll("button")].find((b) => b.dataset.key === at.key && b.dataset.value === at.value); if (again) again.focus(); }
};
