/* What a page does beyond being read: copies, sorts, filters, points. Without it the page is the same document. */
"use strict";
(() => {
  const all = (where, what) => [...where.querySelectorAll(what)];
  const make = (name, text, more) => Object.assign(document.createElement(name), { textContent: text || "" }, more);

  /* ---- copy ---- */
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = document.body.appendChild(make("textarea", text));
      area.select(); document.execCommand("copy"); area.remove();
    }
  };
  for (const button of all(document, "button[data-copy]")) {
    const words = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copy(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "copied";
      setTimeout(() => { button.textContent = words; }, 1500);
    });
  }

  /* ---- tables: sorted by a click on a heading, filtered by words ---- */
  const key = (row, column) => {
    const cell = row.cells[column], number = cell.dataset.v;
    return number === undefined ? cell.textContent : Number(number);
  };
  const sort = (table, column) => {
    const heading = table.tHead.rows[0].cells[column];
    const sign = heading.getAttribute("aria-sort") === "descending" ? 1 : -1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => { const x = key(a, column), y = key(b, column); return x === y ? 0 : sign * (x < y ? -1 : 1); });
    table.tBodies[0].append(...rows);
  };
  for (const table of all(document, "table.sorts")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = make("button", "", { type: "button" });
      button.append(...heading.childNodes);
      heading.replaceChildren(button);
      button.addEventListener("click", () => sort(table, column));
    });
    if (table.tBodies[0].rows.length < 12) continue;
    const filter = make("input", "", { type: "search", placeholder: "filter rows", className: "filter" });
    filter.setAttribute("aria-label", "filter rows of " + (table.caption ? table.caption.textContent : "the table"));
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(words);
    });
    table.parentElement.before(filter);
  }

  /* ---- charts: what is under the pointer, or where the arrow keys are ---- */
  const tip = make("div", "", { id: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
    tip.style.top = Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
  };
  const hide = () => { tip.hidden = true; };
  for (const svg of all(document, "figure svg")) {
    const places = all(svg, "g.places rect");
    if (!places.length) continue;
    const words = places.map((place) => {
      const title = place.querySelector("title"), text = title.textContent;
      title.remove(); /* ours takes the place of the browser's */
      return text;
    });
    let at = -1;
    const go = (index) => {
      if (at >= 0) places[at].classList.remove("here");
      at = Math.max(-1, Math.min(index, places.length - 1));
      if (at < 0) return hide();
      places[at].classList.add("here");
      const box = places[at].getBoundingClientRect();
      show(words[at], box.left + box.width / 2, box.top + Math.min(box.height, 60));
    };
    places.forEach((place, index) => {
      place.addEventListener("pointermove", (event) => show(words[index], event.clientX, event.clientY));
      place.addEventListener("pointerleave", hide);
    });
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") go(-1);
      if (!step) return;
      event.preventDefault();
      go(at + step);
    });
    svg.addEventListener("blur", () => go(-1));
  }
  window.meshwright = { all, make, show, hide, copy };
})();
