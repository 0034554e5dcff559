/* The space of a search to look around in: every plan that was looked at as a dot, filters, two plans side by side. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("looked").textContent);
  const place = document.getElementById("explore");
  const { make, show, hide } = window.meshwright;
  const count = data.tokens_per_s.length;
  const GiB = 2 ** 30;
  const latency = data.latency_s; /* of inference, whose plans stand over it; those of training over their memory */
  const across = latency || data.peak_bytes;
  const unit = latency ? "tokens/s" : "target tokens/s";
  const tokens = (n) => (n >= 1e6 ? (n / 1e6).toPrecision(4) + " M" : n >= 1e3 ? (n / 1e3).toPrecision(4) + " k" : n.toPrecision(4)) + " " + unit;
  const seconds = (n) => (n >= 1 ? n.toPrecision(3) + " s" : (n * 1e3).toPrecision(3) + " ms");
  const memory = (n) => (n / GiB).toFixed(2) + " GiB";
  const value = (column, i) => column.values[column.of[i]];
  const predicted = data.decided_by.map((how) => how === "prediction");
  const fits = data.peak_bytes.map((bytes) => bytes <= data.capacity_bytes);
  const tightest = (1 - (data.headroom_frac || 0)) * data.capacity_bytes;
  const memoryWords = (i) => memory(data.peak_bytes[i]) + (!fits[i] ? ", too large" : data.peak_bytes[i] > tightest ? ", tight" : "");
  const words = (i) => data.columns.map((c) => `${c.key} ${value(c, i)}`).join("\n") + "\n" + (predicted[i]
    ? `${tokens(data.tokens_per_s[i])}, ${latency ? `after ${seconds(latency[i])}, ` : ""}${memory(data.peak_bytes[i])}${fits[i] ? "" : ": does not fit"}`
    : `ruled out by its ${data.decided_by[i]}: at most ${tokens(data.tokens_per_s[i])}, at least ${memory(data.peak_bytes[i])}`);

  /* ---- filters: a group of boxes a key, and what decided ---- */
  const chosen = data.columns.map((c) => new Set(c.values.keys()));
  const beyond = (i) => latency && (latency[i] > (data.max_latency_s || Infinity) || data.tokens_per_s[i] < (data.min_tokens_per_s || 0));
  const kind = (i) => (!predicted[i] ? "ruled out" : !fits[i] ? "too large" : beyond(i) ? "beyond the bounds" : "fits");
  const looks = { "ruled out": ["--overhead", false], "beyond the bounds": ["--overhead", true], "too large": ["--alarm", false], "fits": ["--compute", true] };
  const there = new Set(data.tokens_per_s.map((_, i) => kind(i)));
  const kinds = Object.fromEntries(Object.keys(looks).reverse().filter((k) => there.has(k)).map((k) => [k, true]));
  const filters = make("div", "", { className: "filters" });
  const box = (words, checked, changed) => {
    const label = make("label"), input = make("input", "", { type: "checkbox", checked });
    input.addEventListener("change", () => { changed(input.checked); draw(); });
    label.append(input, words);
    return label;
  };
  const group = (name, boxes) => {
    const set = make("fieldset");
    set.append(make("legend", name), ...boxes);
    filters.append(set);
  };
  data.columns.forEach((column, c) => {
    if (column.values.length < 2) return;
    const order = [...column.values.keys()].sort((a, b) => column.values[a].localeCompare(column.values[b], "en", { numeric: true }));
    const boxes = order.map((v) => box(column.values[v] === "" ? "(none)" : column.values[v].slice(0, 60), true,
      (on) => (on ? chosen[c].add(v) : chosen[c].delete(v))));
    const all = make("button", "none / all", { type: "button" });
    all.addEventListener("click", () => {
      const on = chosen[c].size === 0;
      column.values.forEach((_, v) => (on ? chosen[c].add(v) : chosen[c].delete(v)));
      boxes.forEach((b) => { b.querySelector("input").checked = on; });
      draw();
    });
    group(column.key, [all, ...boxes]);
  });
  group("what it is", Object.keys(kinds).map((k) => box(k, true, (on) => { kinds[k] = on; })));
  const passes = (i) => kinds[kind(i)] && data.columns.every((c, n) => chosen[n].has(c.of[i]));

  /* ---- the dots ---- */
  const about = `speed of each plan against its ${latency ? "latency" : "memory"}`;
  const canvas = make("canvas", about, { tabIndex: 0 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", about + "; the table below lists the fastest");
  const said = make("p", "", { className: "note" });
  const list = make("div", "", { className: "table", tabIndex: 0 });
  const pair = make("div", "", { className: "pair" });
  let shown = [], picked = [null, null], scale = null;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const ticks = (high, most) => {
    const raw = high / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((d) => d * power).find((s) => s >= raw);
    return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => i * step);
  };

  /* Across: memory from zero, or latency by decades. */
  const memoryScale = (width, left, right) => {
    const widest = Math.min(2 * data.capacity_bytes, Math.max(1.05 * data.capacity_bytes, ...shown.filter((i) => predicted[i]).slice(0, 5000).map((i) => data.peak_bytes[i])));
    return {
      x: (b) => left + (right - left) * b / widest, name: "peak memory of each device",
      ticks: ticks(widest / GiB, Math.max(3, width / 110)).map((t) => [t * GiB, t + " GiB"]),
    };
  };
  const latencyScale = (left, right) => {
    let low = Infinity, high = 0;
    for (const i of shown) { low = Math.min(low, latency[i]); high = Math.max(high, latency[i]); }
    if (!(high > 0)) { low = 0.1; high = 10; }
    low /= 1.2; high *= 1.2;
    const values = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++)
      for (const d of [1, 2, 5]) if (d * 10 ** p >= low && d * 10 ** p <= high) values.push(d * 10 ** p);
    return {
      x: (s) => left + (right - left) * Math.log(s / low) / Math.log(high / low), name: "latency",
      ticks: values.map((t) => [t, t >= 1 ? `${+t.toPrecision(3)} s` : `${+(t * 1e3).toPrecision(3)} ms`]),
    };
  };
  const dashed = (g, x0, y0, x1, y1) => {
    g.strokeStyle = css("--alarm"); g.setLineDash([4, 3]);
    g.beginPath(); g.moveTo(x0, y0); g.lineTo(x1, y1); g.stroke(); g.setLineDash([]);
  };

  const draw = () => {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    canvas.width = width * ratio; canvas.height = height * ratio;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    shown = [];
    for (let i = 0; i < count; i++) if (passes(i) && data.peak_bytes[i] > 0) shown.push(i);
    const highest = shown.reduce((m, i) => Math.max(m, data.tokens_per_s[i]), 1) * 1.05;
    const left = 58, right = width - 12, top = 16, bottom = height - 40;
    scale = latency ? latencyScale(left, right) : memoryScale(width, left, right);
    scale.y = (t) => bottom - (bottom - top) * t / highest;
    g.font = "12px system-ui, sans-serif";
    g.strokeStyle = css("--grid"); g.fillStyle = css("--muted"); g.lineWidth = 1;
    g.textAlign = "center";
    let free = -Infinity;
    for (const [t, words] of scale.ticks) {
      const x = scale.x(t), half = g.measureText(words).width / 2;
      g.beginPath(); g.moveTo(x, top); g.lineTo(x, bottom); g.stroke();
      if (x - half < free || x + half > width) continue;
      g.fillText(words, x, bottom + 16);
      free = x + half + 8;
    }
    g.textAlign = "right";
    for (const t of ticks(highest, 7)) {
      const y = scale.y(t);
      g.beginPath(); g.moveTo(left, y); g.lineTo(right, y); g.stroke();
      g.fillText(t >= 1e6 ? t / 1e6 + " M" : t >= 1e3 ? t / 1e3 + " k" : t, left - 6, y + 4);
    }
    g.fillText(scale.name, right, bottom + 34);
    if (latency) {
      if (data.max_latency_s) dashed(g, scale.x(data.max_latency_s), top, scale.x(data.max_latency_s), bottom);
      if (data.min_tokens_per_s) dashed(g, left, scale.y(data.min_tokens_per_s), right, scale.y(data.min_tokens_per_s));
    } else {
      const from = scale.x(tightest), to = scale.x(data.capacity_bytes);
      g.globalAlpha = 0.12; g.fillStyle = css("--alarm");
      g.fillRect(from, top, to - from, bottom - top);
      g.globalAlpha = 1;
      dashed(g, to, top, to, bottom);
    }
    for (const k of Object.keys(looks)) {
      g.strokeStyle = g.fillStyle = css(looks[k][0]);
      for (const i of shown) {
        if (kind(i) !== k) continue;
        g.beginPath(); g.arc(scale.x(across[i]), scale.y(data.tokens_per_s[i]), 2.6, 0, 7);
        looks[k][1] ? g.fill() : g.stroke();
      }
    }
    const front = shown.filter((i) => predicted[i] && fits[i]).sort((a, b) => across[a] - across[b] || data.tokens_per_s[b] - data.tokens_per_s[a]);
    g.strokeStyle = css("--throughput"); g.lineWidth = 2; g.beginPath();
    let best = 0, begun = false;
    for (const i of front) {
      if (data.tokens_per_s[i] <= best) continue;
      const x = scale.x(across[i]);
      begun ? g.lineTo(x, scale.y(best)) : g.moveTo(x, scale.y(data.tokens_per_s[i]));
      begun = true; best = data.tokens_per_s[i];
      g.lineTo(x, scale.y(best));
    }
    g.stroke();
    g.strokeStyle = css("--ink"); g.fillStyle = css("--ink"); g.textAlign = "left";
    picked.forEach((i, n) => {
      if (i === null) return;
      const x = scale.x(across[i]), y = scale.y(data.tokens_per_s[i]);
      g.beginPath(); g.arc(x, y, 6, 0, 7); g.stroke(); g.fillText("AB"[n], x + 9, y - 6);
    });
    const good = shown.filter((i) => predicted[i] && fits[i]).length;
    said.textContent = `${shown.length} of ${count} plans that were looked at${data.cut_from_count ? `, of ${data.cut_from_count} in all` : ""}: ${good} fit. Point at a dot for its plan; a click picks it as A, with Shift as B.`;
    rank();
  };

  /* ---- the fastest of what is shown, which the keyboard reaches, too ---- */
  const pick = (n, i) => { picked[n] = picked[n] === i ? null : i; draw(); compare(); };
  const rank = () => {
    const rows = shown.filter((i) => predicted[i]).sort((a, b) => (kind(b) === "fits") - (kind(a) === "fits") || fits[b] - fits[a] || data.tokens_per_s[b] - data.tokens_per_s[a]).slice(0, 12);
    const table = make("table"), head = make("tr");
    for (const name of ["pick", unit, ...(latency ? ["latency"] : []), "memory", ...data.columns.map((c) => c.key)]) head.append(make("th", name));
    table.append(head);
    for (const i of rows) {
      const row = make("tr"), cell = make("td");
      ["A", "B"].forEach((name, n) => {
        const button = make("button", name, { type: "button" });
        button.setAttribute("aria-pressed", picked[n] === i);
        button.setAttribute("aria-label", `pick as ${name}`);
        button.addEventListener("click", () => pick(n, i));
        cell.append(button, " ");
      });
      row.append(cell, make("td", tokens(data.tokens_per_s[i]).replace(" " + unit, "")), ...(latency ? [make("td", seconds(latency[i]))] : []), make("td", memoryWords(i)),
        ...data.columns.map((c) => make("td", value(c, i).slice(0, 60))));
      table.append(row);
    }
    list.replaceChildren(table);
  };
  const compare = () => {
    pair.replaceChildren();
    if (picked.every((i) => i === null)) return;
    const table = make("table"), head = make("tr");
    for (const name of ["", "A", "B"]) head.append(make("th", name));
    table.append(head);
    const line = (name, of) => {
      const row = make("tr"), cells = picked.map((i) => (i === null ? "" : of(i)));
      row.append(make("th", name), ...cells.map((c) => make("td", c)));
      if (cells[0] !== cells[1] && cells[0] && cells[1]) row.classList.add("bad");
      table.append(row);
    };
    line(unit, (i) => tokens(data.tokens_per_s[i]));
    if (latency) line("latency", (i) => seconds(latency[i]));
    line("memory", memoryWords);
    for (const c of data.columns) line(c.key, (i) => value(c, i));
    pair.append(table);
  };

  const nearest = (event) => {
    if (!scale) return null;
    const area = canvas.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top;
    let best = null, least = 144;
    for (const i of shown) {
      const d = (scale.x(across[i]) - x) ** 2 + (scale.y(data.tokens_per_s[i]) - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  };
  canvas.addEventListener("pointermove", (event) => {
    const i = nearest(event);
    if (i === null) hide(); else show(words(i), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("click", (event) => { const i = nearest(event); if (i !== null) pick(event.shiftKey ? 1 : 0, i); });

  place.querySelector(".still figure").hidden = true;
  place.classList.add("explore");
  place.append(filters, said, canvas, make("h3", "The fastest of these"), list, pair);
  draw();
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
