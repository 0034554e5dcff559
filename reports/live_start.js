/* From a change to what is painted: the address, the questions that it asks, and who paints which answer. */
let open = views[0][0], turn = 0, answer = null, detail = null, machine = null, pinned = null, refusal = null;
const shelf = [];
const verdict = make("section", { class: "verdict", "aria-label": "Verdict" }), alarm = make("div", { role: "alert", class: "alarm", hidden: true }), status = make("p", { role: "status", class: "unseen" });

const paint = () => {
  verdict.classList.toggle("stale", Boolean(refusal));
  show(alarm, refusal ? [make("strong", {}, "Refused: "), refusal, make("span", { class: "tools" }, [remedyButtons(refusal, plan), button("undo", () => history.back(), { class: "small" })])] : []);
  alarm.hidden = !refusal;
  if (answer) show(verdict, drawVerdict(answer, pinned));
  document.title = answer && !refusal ? `${verdictOf(answer)}, ${count(answer.throughput.tokens_per_s)} tokens/s: ${plan.model} on ${plan.topology}` : "Meshwright";
  status.textContent = refusal ? "refused" : answer ? `${headline(answer)}, ${count(answer.throughput.tokens_per_s)} tokens per second` : "";
};
const drawView = () => {
  const row = views.find(([name]) => name === open) || views[0], needs = !["found", "machine", "search", "shelf"].includes(row[0]);
  view.setAttribute("aria-labelledby", "tab-" + row[0]);
  if (needs && detail && detail.neighbour) show(view, make("p", {}, offline));
  else if (needs ? detail : answer) show(view, row[2](needs ? detail : answer));
  else if (row[0] === "search") show(view, row[2]());
};

/* The view that is open, where it is not the first. */
const viewPart = () => open === views[0][0] ? "" : (addressOf(plan) === "#" ? "" : "&") + "view=" + open;
const asked = () => {
  const known = argumentsOf(plan);
  return { first: ["predict", ...known], around: ["predict", ...known, "--what-if", "all"], detail: ["predict", ...known, "--detail"], machine: ["topology", plan.topology || ""] };
};
/* The verdict first; what stands around it behind it, unless the plan has moved on. */
const refresh = async () => {
  const mine = ++turn, q = asked(), begun = performance.now(), [first] = held ? [heldAnswer(plan)] : await ask(q.first);
  if (mine !== turn) return;
  refusal = first.error || null;
  if (first.result && first.result.memory) answer = first.result, answerPlan = planFrom(answer.plan);
  paint(); updateControls();
  document.documentElement.dataset.paintedMs = (performance.now() - begun).toFixed(1);
  const [near, whole, made] = first.error ? [{}, {}, {}] : held ? [{ result: held.around }, first, held.machine || {}] : await ask(q.around, q.detail, q.machine);
  if (mine !== turn) return;
  around = {};
  for (const n of (near.result && near.result.what_if) || []) (around[optionOf[n.key]] = around[optionOf[n.key]] || []).push(neighbour(n));
  if (whole.result) detail = whole.result;
  if (made.result) machine = made.result;
  updateControls(); drawStrip(); drawView();
  document.documentElement.dataset.settledMs = (performance.now() - begun).toFixed(1);
};

const take = (next) => {
  if (addressOf(next) === addressOf(plan)) return;
  plan = next;
  reason.hidden = true;
  history.pushState(null, "", location.pathname + location.search + addressOf(plan) + viewPart());
  refresh();
};
const go = (changes) => take(changed(held ? data.plan : plan, changes));
const pin = () => {
  if (!answer || refusal) return;
  pinned = { plan: { ...plan }, answer };
  if (!shelf.some((s) => addressOf(s.plan) === addressOf(plan))) shelf.push(pinned);
  paint(); drawView();
};

/* A plan, an answer with one, or what starts other software, dropped anywhere on the page or pasted. */
const tell = (name, ...what) => { show(reason, make("strong", {}, name + ": "), ...what, " ", button("close", () => { reason.hidden = true; }, { class: "small" })); reason.hidden = false; };
const bring = async (given, text) => {
  const name = given.replace(/[^\w.-]/g, "_").replace(/^[.-]/, "_");
  let found = {};
  try { const d = JSON.parse(text); found = planFrom(d.plan || d.best || d); } catch { /* no JSON */ }
  if (found.model && found.topology) return take(found);
  if (held) return tell(given, "holds no plan as JSON. ", make("code", {}, `meshwright import ${name} --json --out plan.json`), " makes one of gin, MaxText, Megatron, torchtitan and config.json; open that.");
  const question = ["held", name, text, "import", name], answers = await ask(question, [...question, "--topology", plan.topology || ""]);
  const read = answers.find((a) => !a.error); // files that leave the devices open are for those of the page
  if (!read) return tell(given, answers[1].error);
  found = planFrom(read.result);
  take(found.topology && found.model ? found : { ...plan, ...found });
  tell(given, `${Object.keys(found).map(label).join(", ")} taken. `, make("code", {}, `meshwright import ${name} --notes`), " lists what it says beside them.");
};
const drop = async (file) => file.size > 1e6 ? tell(file.name, "is larger than 1 MB.") : bring(file.name, await file.text());
const nameOf = (text) => "pasted." + (/^\s*[{[]\s*"/.test(text) ? "json" : /^\s*\[[\w.]+\]\s*$/m.test(text) ? "toml" : /(^|\s)--\w/.test(text) ? "sh" : /^[\w./]+\s*=/m.test(text) ? "gin" : "yml");
addEventListener("paste", (e) => {
  if (e.target.closest("input, textarea")) return;
  const [file] = e.clipboardData.files, text = e.clipboardData.getData("text");
  if (file) drop(file);
  else if (text.includes("\n") || text.startsWith("{")) bring(nameOf(text), text);
});
addEventListener("dragover", (e) => e.preventDefault());
addEventListener("drop", (e) => { e.preventDefault(); if (e.dataTransfer.files.length) drop(e.dataTransfer.files[0]); });

const showTab = (name) => {
  open = name;
  for (const tab of tabs.children) { const on = tab.id === "tab-" + name; tab.setAttribute("aria-selected", String(on)); tab.setAttribute("tabindex", on ? "0" : "-1"); }
};
const tabs = make("div", { role: "tablist", class: "tabs", "aria-label": "Views" }, views.map(([name, title]) => button(title, () => {
  showTab(name);
  history.replaceState(null, "", location.pathname + location.search + addressOf(plan) + viewPart());
  drawView();
}, { role: "tab", id: "tab-" + name, "aria-controls": "view", "aria-selected": String(name === open), tabindex: name === open ? "0" : "-1" })));
tabs.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], all = [...tabs.children];
  if (!step) return;
  event.preventDefault();
  const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
  next.focus(); next.click();
});

if (found && !entries.length) {
  document.title = found.sweep ? `${found.name}: ${found.sweep.predicted_count} plans predicted` : found.predicted_step_s ? `A step took ${seconds(found.measured_step_s)}, and was predicted to take ${seconds(found.predicted_step_s)}` : "Nothing fits";
  show(document.getElementById("app"), make("header", {}, make("h1", {}, "Meshwright")), make("div", { class: "page alone" }, make("main", {}, [(found.warnings || []).map((w) => make("p", { class: "warning", role: "note" }, w)), make("h2", { id: "headline" }, document.title), view, make("h3", {}, "The page was made by"), make("pre", { tabindex: "0" }, held.command)])));
  show(view, drawFound());
} else { show(document.getElementById("app"),
  make("header", {}, [make("h1", {}, "Meshwright"), make("p", { class: "tools" }, [make("label", { class: "file" }, ["open a plan", make("input", { type: "file", accept: ".json,.gin,.yml,.yaml,.toml,.sh,.args,.txt", "aria-label": "open a plan", onchange: (e) => { if (e.target.files.length) drop(e.target.files[0]); } })]), button("pin", pin, { title: "keep this plan as the one to compare with" }), copier("copy command", () => commandOf(plan)), held ? held.launcher ? copier(`copy ${held.launcher.format === "gin" ? "gin" : "Slurm job"}`, () => held.launcher.text) : null : copier("copy link", () => location.href)]), status]),
  make("div", { class: "page" }, [turns ? makeControls() : planList(), make("main", {}, [alarm, reason, verdict, turns ? make("section", { "aria-label": "What if" }, [make("h2", {}, "What if"), make("p", { class: "note" }, "Height: tokens/s. Hollow: does not fit. A click goes there."), strip]) : null, make("section", {}, [tabs, view]),
    held ? make("section", { class: "offline" }, [make("h2", {}, "Make it live"), make("p", {}, `This page holds one plan${turns ? " and its neighbours" : ""}. Where the program is, this command answers for any other:`), make("pre", { tabindex: "0" }, commandOf(planOf(""), "serve")),
      make("p", {}, "The page was made by:"), make("pre", { tabindex: "0" }, held.command)]) : null])]));
}
const read = () => {
  if (found && !entries.length) return;
  const asks = /[#&]view=(\w+)/.exec(location.hash);
  plan = planOf(location.hash);
  showTab(asks && views.some(([name]) => name === asks[1]) ? asks[1] : views[0][0]);
  refresh();
};
addEventListener("popstate", read);
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  if (innerWidth > 800 && turns) document.querySelector(".knobs").open = true;
  width = innerWidth, drawView();
});
read();
