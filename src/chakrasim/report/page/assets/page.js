"use strict";
// The page from its data. Names of traces reach it through textContent only.
(() => {
  const root = document.documentElement;
  const errors = [];
  window.addEventListener("error", event => {
    errors.push(event.message);
    root.dataset.errors = errors.join("; ");
  });
  const data = JSON.parse(document.getElementById("data").textContent);
  const MOST_SHOWN = 300, MOST_UNFILTERED = 12;

  function make(tag, kind, text) {
    const own = document.createElement(tag);
    if (kind) own.className = kind;
    if (text !== undefined) own.textContent = text;
    return own;
  }

  function put(parent, ...children) { parent.append(...children.filter(child => child)); return parent; }

  function linesOf(part) {
    if (!part.lines || !part.lines.length) return null;
    return put(make("div", "lines"), ...part.lines.map(line => make("p", "", line)));
  }

  function compared(one, other) {
    const a = amounts.worth(one), b = amounts.worth(other);
    if (a !== null && b !== null && a !== b) return a - b;
    if ((a === null) !== (b === null)) return a === null ? 1 : -1;
    return one < other ? -1 : one > other ? 1 : 0;
  }

  function table(part) {
    const box = make("div"), scroll = make("div", "scroll"), own = make("table"), body = make("tbody");
    let rows = part.rows, all = false, found = rows;
    const side = i => part.left.includes(i) ? "left" : "";
    const more = make("button", "", "");
    function fill() {
      const shown = all ? found : found.slice(0, MOST_SHOWN);
      body.replaceChildren(...shown.map(row => put(make("tr"), ...row.map((cell, i) => make("td", side(i), cell)))));
      more.hidden = shown.length === found.length;
      more.textContent = "show all " + found.length.toLocaleString("en-US") + " rows";
    }
    const heads = part.columns.map((name, i) => {
      const head = make("th", side(i)), button = make("button", "", name);
      button.type = "button";
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && side(i) === "left");
        heads.forEach(one => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        found = [...found].sort((a, b) => up ? compared(a[i], b[i]) : compared(b[i], a[i]));
        fill();
      });
      return put(head, button);
    });
    if (heads.length) own.append(put(make("thead"), put(make("tr"), ...heads)));
    const tools = make("div", "tools");
    if (rows.length > MOST_UNFILTERED) {
      const search = make("input");
      search.type = "search";
      search.placeholder = "rows that contain ...";
      search.setAttribute("aria-label", "show only rows that contain");
      search.addEventListener("input", () => {
        const words = search.value.toLowerCase().split(/\s+/);
        found = rows.filter(row => words.every(word => row.some(cell => cell.toLowerCase().includes(word))));
        heads.forEach(one => one.removeAttribute("aria-sort"));
        fill();
      });
      tools.append(search);
    }
    more.addEventListener("click", () => { all = true; fill(); });
    window.addEventListener("beforeprint", () => { all = true; fill(); });
    tools.append(more);
    fill();
    return put(box, tools, put(scroll, put(own, body)));
  }

  function chart(part) {
    const box = make("div"), tools = make("div", "tools"), canvas = make("div", "chart"), state = {};
    let again = () => {};
    if (part.kind === "heat" && part.measures.length > 1) {
      const choice = make("select");
      choice.setAttribute("aria-label", "coloured by");
      part.measures.forEach((one, i) => { const option = make("option", "", one.name); option.value = i; choice.append(option); });
      choice.addEventListener("change", () => { state.measure = Number(choice.value); again(); });
      put(tools, make("span", "", "coloured by"), choice);
    }
    const groups = part.kind === "timeline" ? [...new Set(part.lanes.map(lane => lane.group))] : [];
    if (groups.length > 1) {
      state.hidden = new Set();
      groups.forEach(group => {
        const label = make("label"), check = make("input");
        check.type = "checkbox";
        check.checked = true;
        check.addEventListener("change", () => { state.hidden[check.checked ? "delete" : "add"](group); again(); });
        tools.append(put(label, check, " " + group));
      });
    }
    if (part.kind === "timeline") tools.append(make("span", "note", "zoom: the slider, or the wheel with Ctrl; Shift and wheel move"));
    put(box, tools.childNodes.length ? tools : null, canvas);
    return { box, draw: () => { again = charts.draw(part.kind, part, canvas, state); } };
  }

  function image(part) {
    const own = make("img");
    own.src = part.source;
    own.alt = part.title;
    return own;
  }

  const page = document.getElementById("page"), later = [], nav = make("nav");
  page.replaceChildren();
  document.title = data.question;

  function section(title, part, ...content) {
    const id = "part-" + nav.childNodes.length, own = make("section", part.loud ? "loud" : "");
    own.id = id;
    if (part.rows && part.rows.length > 20) own.classList.add("long");
    if (title) {
      const link = make("a", "", title);
      link.href = "#" + id;
      nav.append(link);
    }
    page.append(put(own, title ? make("h2", "", title) : null, ...content, linesOf(part)));
  }

  page.append(make("h1", "", data.question));
  page.append(put(make("div", "facts"), ...data.verdict.map(fact => put(make("div", fact.bad ? "fact bad" : "fact"),
    make("div", "name", fact.name), make("div", "value", fact.text), fact.note ? make("div", "note", fact.note) : null))));
  page.append(nav);
  if (data.warnings.length) section("Warnings", { lines: data.warnings, loud: true });
  for (const part of data.parts) {
    if (part.kind === "text") section(part.title, part);
    else if (part.kind === "table") section(part.title, part, table(part));
    else if (part.kind === "image") section(part.title, part, image(part));
    else {
      const own = chart(part);
      section(part.title, part, own.box);
      later.push(own.draw);
    }
  }
  if (data.assumed.length) section("Assumed", { lines: data.assumed });
  if (data.inputs.length) {
    const rows = data.inputs.map(one => [one.name, one.files.toLocaleString("en-US"), one.size_bytes.toLocaleString("en-US"), one.sha256]);
    section("Inputs", { lines: ["of several files under one name the hash is that of the lines of sha256sum"] },
      table({ columns: ["file", "files", "bytes", "SHA-256"], rows, left: [0, 3] }));
  }
  if (data.command) section("To repeat it", { lines: [] }, make("code", "", data.command));
  page.append(make("footer", "", "chakrasim " + data.version));
  later.forEach(draw => draw());

  new ResizeObserver(() => charts.redraw(false)).observe(page);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.redraw(true));
  matchMedia("print").addEventListener("change", () => charts.redraw(true));
  root.dataset.ready = "yes";
})();
