// Adds what needs a pointer or keys: copying, details of single cases, maps of large spaces. The page is complete
// without it. Recorded text is only set as text content, never as markup.
(() => {
  "use strict";
  const $ = (selector, within) => [...(within || document).querySelectorAll(selector)];
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);

  function element(name, className, content) {
    const e = document.createElement(name);
    if (className) e.className = className;
    if (content !== undefined) e.textContent = content;
    return e;
  }

  // copying
  async function copy(button, line) {
    try {
      await navigator.clipboard.writeText(line);
    } catch {
      const area = element("textarea", "", line);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const before = button.dataset.label || (button.dataset.label = button.textContent);
    button.textContent = "Copied ✓";
    button.classList.add("done");
    setTimeout(() => { button.textContent = before; button.classList.remove("done"); }, 1600);
  }
  for (const button of $(".cmd .copy")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button, button.previousElementSibling.textContent));
  }

  // light or dark
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });

  // packed cases, see cases.rs
  const DIGIT = {};
  [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"].forEach((c, i) => { DIGIT[c] = i; });
  const number = (text, at, width) => {
    let n = 0;
    for (let i = width - 1; i >= 0; i--) n = n * 64 + DIGIT[text[at * width + i]];
    return n;
  };
  const sites = (text, at, width) => {
    const out = [];
    for (let i = 0; i < width; i++) {
      const six = DIGIT[text[at * width + i]];
      for (let b = 0; b < 6; b++) if (six >> b & 1) out.push(i * 6 + b);
    }
    return out;
  };
  const duration = (us) => us < 1000 ? us + " µs" : us < 1e6 ? (us / 1e3).toPrecision(3) + " ms" : (us / 1e6).toPrecision(3) + " s";
  const WORDS = { p: ["✓", "passes"], f: ["✗", "fails"], u: ["?", "unknown"], n: ["·", "passes; no fault was reached"], o: ["", "not run"] };

  function look(space, at) {
    const faulted = sites(space.m, at, space.width);
    const fired = new Set(sites(space.f, at, space.width));
    return {
      verdict: space.v[at], faulted, fired,
      status: space.statuses[number(space.s, at, 1)], latency: number(space.t, at, 4),
      reason: space.reasons[number(space.r, at, 2)], pattern: space.p.substr(at * 3, 3),
    };
  }

  function sentence(space, at) {
    const c = look(space, at);
    if (c.verdict === "o") return "not run";
    const names = (list) => list.map((s) => space.sites[s]).join(", ") || "nothing";
    return `${WORDS[c.verdict][1]}; faulted: ${names(c.faulted)}; reached: ${names(c.faulted.filter((s) => c.fired.has(s)))}; reply ${c.status}, ${duration(c.latency)}`;
  }

  const twins = new Map();
  function alike(space, pattern) {
    if (!twins.has(space)) {
      const count = new Map();
      for (let i = 0; i < space.v.length; i++) {
        if (space.v[i] === "o") continue;
        const p = space.p.substr(i * 3, 3);
        count.set(p, (count.get(p) || 0) + 1);
      }
      twins.set(space, count);
    }
    return twins.get(space).get(pattern) - 1;
  }

  function show(panel, space, at) {
    const c = look(space, at);
    const head = element("p", "head");
    head.append(element("i", "glyph " + c.verdict, WORDS[c.verdict][0]), element("span", "", WORDS[c.verdict][1]));
    const parts = [head];
    if (c.verdict !== "o") {
      parts.push(element("p", "muted", `${c.status} in ${duration(c.latency)}${c.reason ? " · " + c.reason : ""}`));
      parts.push(element("h4", "", "Faulted"));
      const list = element("p");
      for (const s of c.faulted) {
        const reached = c.fired.has(s);
        const chip = element("span", reached ? "chip" : "chip idle", (reached ? "↯ " : "") + space.sites[s]);
        chip.title = space.faults[s] + (reached ? "" : " (not reached)");
        list.append(chip);
      }
      if (!c.faulted.length) list.textContent = "no fault: the good request";
      parts.push(list);
      const idle = c.faulted.filter((s) => !c.fired.has(s)).length;
      if (idle) parts.push(element("p", "muted", `${idle} of ${c.faulted.length} not reached (gray)`));
      const others = alike(space, c.pattern);
      parts.push(element("p", "muted", others === 0 ? "No other case had this behavior." : `${others.toLocaleString("en")} other case${others === 1 ? "" : "s"} had the same behavior.`));
      if (c.faulted.length) {
        const button = element("button", "copy", "Copy as --fault arguments");
        button.type = "button";
        const quoted = c.faulted.map((s) => "--fault '" + space.faults[s].replaceAll("'", "'\\''") + "'").join(" ");
        button.addEventListener("click", () => copy(button, quoted));
        parts.push(button);
      }
    }
    panel.replaceChildren(...parts);
  }

  // keys that move within a grid
  function step(key, at, columns, count) {
    const row = at - at % columns;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: row, End: Math.min(row + columns, count) - 1 }[key];
    if (to === undefined || to < 0 || to >= count) return at;
    if ((key === "ArrowLeft" || key === "ArrowRight") && to - to % columns !== row) return at;
    return to;
  }
  const MOVES = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]);

  function cells(field, grid, space, panel) {
    const all = $("i", grid);
    let at = Math.max(0, space.v.indexOf("f"));
    let chosen = -1;
    all.forEach((cell, i) => { cell.setAttribute("role", "gridcell"); cell.tabIndex = i === at ? 0 : -1; });
    const index = new Map(all.map((cell, i) => [cell, i]));
    const columns = () => {
      if (!grid.parentElement.classList.contains("list")) return space.columns;
      const top = all[0].offsetTop;
      const n = all.findIndex((c) => c.offsetTop !== top);
      return n < 0 ? all.length : n;
    };
    grid.addEventListener("pointerover", (e) => { if (index.has(e.target)) { e.target.title = sentence(space, index.get(e.target)); show(panel, space, index.get(e.target)); } });
    grid.addEventListener("pointerleave", () => { if (chosen >= 0) show(panel, space, chosen); });
    grid.addEventListener("click", (e) => { if (index.has(e.target)) e.target.focus(); });
    grid.addEventListener("focusin", (e) => {
      if (!index.has(e.target)) return;
      all[at].tabIndex = -1;
      if (chosen >= 0) all[chosen].classList.remove("at");
      at = chosen = index.get(e.target);
      e.target.tabIndex = 0;
      e.target.classList.add("at");
      e.target.setAttribute("aria-label", sentence(space, at));
      show(panel, space, at);
    });
    grid.addEventListener("keydown", (e) => {
      if (!MOVES.has(e.key)) return;
      e.preventDefault();
      all[step(e.key, at, columns(), all.length)].focus();
    });
  }

  function points(field, map, space, panel) {
    const rows = space.v.length / space.columns;
    const plot = element("div", "plot");
    const mark = element("i", "mark");
    mark.hidden = true;
    map.replaceWith(plot);
    plot.append(map, mark);
    let at = Math.max(0, space.v.indexOf("f"));
    let chosen = -1;
    const place = (i) => {
      mark.hidden = i < 0;
      mark.style.left = i % space.columns * 100 / space.columns + "%";
      mark.style.top = Math.floor(i / space.columns) * 100 / rows + "%";
    };
    const choose = (i) => {
      at = chosen = i;
      place(i);
      show(panel, space, i);
      map.setAttribute("aria-label", sentence(space, i));
    };
    const under = (e) => {
      const box = map.getBoundingClientRect();
      const x = Math.min(space.columns - 1, Math.max(0, Math.floor((e.clientX - box.left) * space.columns / box.width)));
      const y = Math.min(rows - 1, Math.max(0, Math.floor((e.clientY - box.top) * rows / box.height)));
      return y * space.columns + x;
    };
    map.addEventListener("pointermove", (e) => { const i = under(e); place(i); show(panel, space, i); });
    map.addEventListener("pointerleave", () => { place(chosen); if (chosen >= 0) show(panel, space, chosen); });
    map.addEventListener("click", (e) => choose(under(e)));
    map.addEventListener("focus", () => { if (chosen < 0 && map.matches(":focus-visible")) choose(at); });
    map.addEventListener("keydown", (e) => {
      if (!MOVES.has(e.key)) return;
      e.preventDefault();
      choose(step(e.key, at, space.columns, space.v.length));
    });
  }

  for (const field of $(".field")) {
    const space = data.spaces[Number(field.dataset.space)];
    if (!space) continue;
    const panel = $(".case", field)[0];
    panel.hidden = false;
    const map = $("svg.cells", field)[0];
    if (map) points(field, map, space, panel);
    else cells(field, $(".cells", field)[0], space, panel);
  }
})();
