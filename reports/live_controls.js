/* The controls: one a key of the plan. A value that the program refuses stays, greyed, with the reason. */
const groups = [
  ["Run", ["model", "topology", "software", "task-feature-lengths", "batch-size", "num-microbatches"]],
  ["Parallelism", ["model-parallel-submesh", "num-partitions", "pipeline-stages", "virtual-stages", "context-parallel", "expert-parallel", "sequence-parallel", "optimizer-partitioning", "logical-axis-rules", "ici-mesh"]],
  ["Step", ["remat-policy", "optimizer", "dtype", "attention", "cpu-offload"]],
  ["Cost", costs],
].filter(([, options]) => keyOf[options[0]]);
const steppers = ["batch-size", "num-microbatches", "num-partitions", "pipeline-stages", "virtual-stages", "context-parallel", "expert-parallel"];
const menus = ["software", "optimizer", "dtype"];
const common = new Set(groups.flatMap(([, options]) => options));
const choices = (option) => option === "sequence-parallel" ? ["0", "1"] : keyOf[option].words;

/* What is known of each value around the plan, from the last what-if: by option and value. */
let around = {};
const known = (option, value) => (around[option] || []).find((n) => n.value === value);
const valueOf = (option) => plan[option] ?? answerPlan[option] ?? ((around[option] || []).find((n) => n.now) || {}).value ?? keyOf[option].fallback ?? "";
let answerPlan = {}; /* what the last answer's plan says, defaults of its software included */

const controls = {};

const chips = (option) => {
  const box = make("div", { role: "radiogroup", "aria-label": label(option), class: "chips" });
  const update = () => {
    const now = valueOf(option), all = choices(option);
    if (now && !all.includes(now)) all.push(now);
    const had = box.contains(document.activeElement) ? document.activeElement.textContent : null;
    show(box, all.map((value) => {
      const neighbour = known(option, value), refused = neighbour && neighbour.refused;
      return button(valueWords(option, value), () => refused ? explain(option, value, refused) : go({ [option]: value }), {
        role: "radio", "aria-checked": String(value === now), tabindex: value === now ? "0" : "-1", "data-value": value,
        class: refused ? "refused" : neighbour && !neighbour.fits ? "unfit" : null, "aria-disabled": refused ? "true" : null,
        title: refused || (neighbour && !neighbour.now ? `${count(neighbour.tokens_per_s)} tokens/s, ${bytes(neighbour.peak_bytes)}${neighbour.fits ? "" : `, ${verdictOf(neighbour.answer)}`}` : null),
      });
    }));
    if (had) ([...box.children].find((c) => c.textContent === had) || box.firstChild).focus();
  };
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...box.children], next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.focus(); next.click();
  });
  return { element: box, update };
};

/* Many words: a list that unfolds. What is refused says so in it, and why when it is taken. */
const menu = (option, id) => {
  const list = make("select", { id, onchange: () => {
    const refused = (known(option, list.value) || {}).refused;
    if (refused) explain(option, list.value, refused), update(); else go({ [option]: list.value });
  } });
  const update = () => {
    const now = valueOf(option), all = [...new Set([...(choices(option).length ? choices(option) : (around[option] || []).map((n) => n.value)), ...(now ? [now] : [])])];
    show(list, all.map((value) => make("option", { value, selected: value === now }, value + ((known(option, value) || {}).refused ? " (refused)" : ""))));
    list.value = now;
  };
  return { element: list, update };
};

const field = (option, id) => {
  const names = { model: data.models, topology: data.topologies }[option];
  const input = make("input", {
    id, type: "text", autocomplete: "off", spellcheck: "false", list: names ? id + "-names" : null,
    onchange: () => go({ [option]: input.value.trim() }),
    placeholder: keyOf[option].fallback || "",
  });
  const list = names ? make("datalist", { id: id + "-names" }, names.map((n) => make("option", { value: n }))) : null;
  const update = () => {
    if (document.activeElement !== input || input.dataset.shown !== input.value) input.value = plan[option] ?? (steppers.includes(option) || option === "logical-axis-rules" ? valueOf(option) : "");
    input.dataset.shown = input.value;
  };
  return { element: make("div", { class: "field" }, [input, list]), input, update };
};

const stepper = (option, id) => {
  const inner = field(option, id), name = label(option);
  const next = (step) => {
    const now = Number(valueOf(option));
    const free = (around[option] || []).filter((n) => !n.refused && (Number(n.value) - now) * step > 0);
    return free.length ? free.reduce((a, b) => Math.abs(b.value - now) < Math.abs(a.value - now) ? b : a).value : null;
  };
  const press = (step) => () => {
    const value = next(step), refused = (around[option] || []).find((n) => n.refused && (Number(n.value) - Number(valueOf(option))) * step > 0);
    if (value !== null) go({ [option]: value });
    else if (refused) explain(option, refused.value, refused.refused);
    else if (!held && (step > 0 || Number(valueOf(option)) > 1)) probe(option, step > 0 ? 2 * Number(valueOf(option)) || 2 : Math.floor(Number(valueOf(option)) / 2));
  };
  const less = button("−", press(-1), { "aria-label": "less " + name, class: "step" }), more = button("+", press(1), { "aria-label": "more " + name, class: "step" });
  inner.input.setAttribute("inputmode", "numeric");
  inner.input.addEventListener("keydown", (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (step) event.preventDefault(), press(step)();
  });
  inner.element.prepend(less);
  inner.element.append(more);
  return {
    element: inner.element, update: () => {
      inner.update();
      for (const [b, step] of [[less, -1], [more, 1]]) {
        const refused = (around[option] || []).find((n) => n.refused && (Number(n.value) - Number(valueOf(option))) * step > 0), none = next(step) === null;
        b.setAttribute("aria-disabled", String(none && Boolean(refused || held || (step < 0 && Number(valueOf(option)) <= 1))));
        b.title = none && refused ? `${refused.value}: refused: ${refused.refused}` : "";
      }
    }
  };
};

/* Every other key, as a field of its own. */
const others = () => {
  const rows = data.keys.filter((k) => !common.has(k.option)).map((k) => control(k.option));
  return make("details", {}, [make("summary", {}, "Other keys"), rows]);
};

const control = (option) => {
  const id = "key-" + option, isChips = choices(option).length && choices(option).length < 6 && !menus.includes(option);
  const inner = menus.includes(option) ? menu(option, id) : isChips ? chips(option) : steppers.includes(option) ? stepper(option, id) : field(option, id);
  controls[option] = inner;
  const heading = make(isChips ? "span" : "label", { for: isChips ? null : id, class: "name", title: [keyOf[option].key, keyOf[option].help].filter((part) => part).join(": ") }, label(option));
  return make("div", { class: "control", "data-key": keyOf[option].key }, [heading, inner.element]);
};

/* Replicas are the devices that the other degrees leave: more of them are a larger machine, with the same degrees. */
const replicaAxes = ["data", "fsdp", "replica", "expert"];
const dataControl = () => {
  const shown = make("output", { class: "degree", "aria-label": "data (DP)" });
  const next = (step) => { const list = around.topology || [], at = list.findIndex((n) => n.now); return at < 0 ? null : list[at + step] || null; };
  const press = (step) => () => { const n = next(step); if (n && n.refused) explain("topology", n.value, n.refused); else if (n) go({ topology: n.value }); };
  const buttons = [[-1, "−", "less"], [1, "+", "more"]].map(([step, sign, said]) => [step, button(sign, press(step), { "aria-label": said + " data (DP)", class: "step" })]);
  controls["data-parallel"] = { update: () => {
    shown.textContent = answer ? whole(Object.entries(answer.mesh || {}).reduce((p, [axis, n]) => replicaAxes.includes(axis) ? p * n : p, 1)) : "";
    for (const [step, b] of buttons) { const n = next(step); b.setAttribute("aria-disabled", String(!n || Boolean(n.refused))); b.title = n ? `${n.value}${n.refused ? ": refused: " + n.refused : ""}` : "no other size is listed; type a topology"; }
  } };
  return make("div", { class: "control" }, [make("span", { class: "name", title: "replicas: devices over all other degrees; more of them take a larger topology" }, "data (DP)"), make("div", { class: "field" }, [buttons[0][1], shown, buttons[1][1]])]);
};

/* On a narrow page the plan unfolds; on a wide one it is always there. */
const makeControls = () => make("details", { class: "knobs", open: innerWidth > 800 }, [make("summary", {}, "Change the plan"), makeForm()]);
const makeForm = () => make("form", { class: "controls", "aria-label": "Plan", onsubmit: (e) => e.preventDefault() }, [
  groups.map(([title, options]) => make("fieldset", {}, [make("legend", {}, title), options.map((option) => [control(option), option === "expert-parallel" ? dataControl() : null])])), others(),
]);

/* Whether any value can be changed: of what was measured none can. */
const turns = !held || Boolean(held.around);
const planList = () => make("dl", { class: "controls" }, Object.entries(held.document.plan).flatMap(([key, value]) => [make("dt", {}, words(key)), make("dd", {}, optionWords(value))]));

/* What a refusal names in place of what was wanted, as in "dtype: …; use bfloat16 or int8": changes of the plan. */
const instead = (why) => {
  const at = Math.max(why.lastIndexOf("use "), why.lastIndexOf("Use ")), about = optionOf[/^-*([a-z_-]*)/.exec(why)[1].replaceAll("-", "_")];
  if (at < 0) return [];
  return why.slice(at + 4).replace(/^one of /, "").replace(/(^| )an? ([a-z_]+),? such as /g, "$1$2 ").split(/, or |, | or /).map((word) => {
    const [, key, value] = /^([a-z_]+) (\S+)$/.exec(word) || [null, null, word.replace(/[….]+$/, "")], option = key ? optionOf[key] : about;
    return option && value && !/[ ]/.test(value) && (key || /\d/.test(value) || keyOf[option].words.includes(value)) ? { [option]: value } : null;
  }).filter((found) => found && Object.entries(found).some(([option, value]) => valueOf(option) !== value)).slice(0, 8);
};
const remedyButtons = (why, wanted) => instead(why).map((change) => button(Object.entries(change).map(([o, v]) => `${label(o)} ${v}`).join(), () => { reason.hidden = true; take(changed(wanted, change)); }, { class: "small" }));
/* Why a value is not to be had, with what may stand in its place to click on. */
const explain = (option, value, why) => {
  const wanted = changed(held ? data.plan : plan, { [option]: value });
  show(reason, make("strong", {}, `${label(option)} ${value}: `), why, make("span", { class: "tools" }, [
    remedyButtons(why, wanted),
    button("close", () => { reason.hidden = true; }, { class: "small" })]));
  reason.hidden = false;
};
/* A value that nothing is known of yet: it is taken, or the program says why not. */
const probe = async (option, value) => {
  const [a] = await ask(["predict", ...argumentsOf(changed(plan, { [option]: String(value) }))]);
  if (a.error) explain(option, String(value), a.error); else go({ [option]: String(value) });
};
const reason = make("p", { role: "alert", class: "reason", hidden: true });
const updateControls = () => { for (const c of Object.values(controls)) c.update(); };
