"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { names, metrics, policies, floors } = data;
  const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "ring"];
  const MOST = SHAPES.length;
  const byId = (id) => document.getElementById(id);

  // The cells as objects, and where each is.
  const keyOf = (...parts) => parts.join("\n");
  const cells = data.columns.policy.map((_, row) => {
    const cell = {};
    for (const [key, column] of Object.entries(data.columns)) {
      cell[key] = names[key] ? names[key][column[row]] : column[row];
    }
    return cell;
  });
  const index = new Map(cells.map((cell) => [keyOf(cell.load, cell.completion, cell.trace, cell.envelope, cell.policy), cell]));
  const nothing = new Set(data.nothing.map((place) => keyOf(...place)));

  const state = {
    completion: document.body.dataset.completion,
    load: document.body.dataset.load,
    shown: data.chosen,
    metric: Object.keys(metrics)[0],
    interval: Object.keys(metrics).find((key) => `${key}_ci` in data.columns) || Object.keys(metrics)[0],
    against: "",
    order: "",
    trace: "",
    filter: "",
    sort: { key: "amat_vs_floor", down: false },
    rows: 100,
  };
  const find = (trace, envelope, policy) => index.get(keyOf(state.load, state.completion, trace, envelope, policy));
  const isNothing = (cell) => nothing.has(keyOf(cell.load, cell.completion, cell.trace, cell.envelope));
  const floorName = () => floors[state.completion] || "lru";

  // Numbers, as the Python side writes them.
  function digits(value, count) {
    const rounded = Number(value.toPrecision(count));
    if (rounded === 0) return "0";
    const places = Math.max(0, count - 1 - Math.floor(Math.log10(Math.abs(rounded))));
    if (places > count + 3) return value.toExponential(count - 1);
    return rounded.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  }
  function compact(value) {
    for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e4]]) {
      if (Math.abs(value) >= size) return `${digits(value / (size === 1e4 ? 1e3 : size), 3)} ${unit}`;
    }
    return digits(value, 3);
  }
  function readable(value, kind) {
    if (value == null) return "–";
    if (kind === "ratio") return value.toFixed(3);
    if (kind === "share") return digits(value * 100, 3);
    return compact(value);
  }
  const withUnit = (text, unit) => (unit && text !== "–" ? `${text} ${unit}` : text);
  const exact = (value, metric) =>
    value == null ? "–" : withUnit(metric.kind === "share" ? digits(value * 100, 6) : digits(value, 6), metric.unit);

  // Elements.
  function make(tag, options = {}, ...children) {
    const svg = ["svg", "path", "circle", "line", "text", "g"].includes(tag);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (value == null || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "tip") tips.set(element, value);
      else if (name === "style") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat(Infinity).filter((child) => child != null));
    return element;
  }
  function select(label, options, value, change) {
    const box = make("select", { onchange: () => change(box.value) });
    for (const [text, choice] of options) box.append(make("option", { value: choice }, text));
    box.value = value;
    return make("label", {}, label, box);
  }
  function toggle(label, options, value, change) {
    const buttons = options.map((each) =>
      make("button", { type: "button", "aria-pressed": String(each === value), "data-choice": each, onclick: () => change(each) }, each));
    return make("span", { class: "group", role: "group", "aria-label": label }, label, make("span", { class: "switch" }, buttons));
  }
  function marker(slot) {
    const paths = {
      square: "M2 2H12V12H2Z", triangle: "M7 1L13.5 12.5H.5Z", diamond: "M7 0L14 7L7 14L0 7Z", cross: "M2 2L12 12M12 2L2 12",
    };
    const shape = SHAPES[slot % MOST];
    const drawn = paths[shape]
      ? make("path", { d: paths[shape], fill: shape === "cross" ? "none" : "currentColor", stroke: "currentColor", "stroke-width": shape === "cross" ? 3 : 0 })
      : make("circle", { cx: 7, cy: 7, r: 5.2, fill: shape === "ring" ? "none" : "currentColor", stroke: "currentColor", "stroke-width": 2 });
    return make("svg", { class: "marker", viewBox: "0 0 14 14", "aria-hidden": "true", style: { color: `var(--c${slot % MOST})` } }, drawn);
  }

  // Tips: on hover, on focus and on touch; Escape closes.
  const tips = new WeakMap();
  const tip = byId("tip");
  let anchor = null;
  function tipOf(target) {
    for (let element = target; element instanceof Element; element = element.parentElement) {
      if (tips.has(element)) return [element, tips.get(element)()];
      if (element.dataset && element.dataset.tip) return [element, { title: element.dataset.tip, facts: [] }];
    }
    return null;
  }
  function showTip(event) {
    const found = tipOf(event.target);
    if (!found) return hideTip();
    const [element, { title, facts, note }] = found;
    tip.replaceChildren(make("b", {}, title), make("dl", { hidden: !facts.length }, facts.map(([what, value]) => [make("dt", {}, what), make("dd", {}, value)])), note || "");
    tip.hidden = false;
    anchor = element;
    placeTip();
  }
  function placeTip() {
    if (tip.hidden) return;
    const box = anchor.getBoundingClientRect();
    const { clientWidth, clientHeight } = document.documentElement;
    if (!anchor.isConnected || box.bottom < 0 || box.top > clientHeight) return hideTip();
    const own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left + box.width / 2 - own.width / 2), clientWidth - own.width - 8);
    const above = box.top - own.height - 8;
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(above < 4 ? box.bottom + 8 : above)}px)`;
  }
  function hideTip() { tip.hidden = true; }
  document.addEventListener("pointerover", showTip);
  document.addEventListener("focusin", showTip);
  document.addEventListener("focusout", hideTip);
  document.addEventListener("scroll", placeTip, { passive: true, capture: true });
  document.documentElement.addEventListener("pointerleave", hideTip);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  function cellTip(cell) {
    const facts = [];
    const keys = ["amat_vs_floor", "amat_vs_lru", "attainment_floor", "hr", "hr_sram", "prefill_reduction", "amat", "bypass", "ttft_p50"];
    for (const key of new Set([state.metric, ...keys])) {
      if (!metrics[key]) continue;
      facts.push([metrics[key].label, exact(cell[key], metrics[key])]);
      const pair = cell[`${key}_ci`];
      if (pair) facts.push(["  interval", pair.map((end) => digits(end, 4)).join(" to ")]);
    }
    const notes = [];
    if (isNothing(cell)) notes.push("○ Nothing to win here: the best oracle gains less than 1 % over the floor. ");
    if (cell.degraded) notes.push(`† Degraded, the trace lacks: ${cell.degraded}.`);
    return { title: `${cell.policy} · ${cell.trace} · ${cell.envelope}`, facts, note: notes.join("") };
  }

  // One stop of the Tab key a group; the arrow keys walk inside it.
  function rove(container, columns = 1) {
    const items = [...container.querySelectorAll("[data-item]")];
    items.forEach((item, at) => { item.tabIndex = at ? -1 : 0; });
    container.addEventListener("keydown", (event) => {
      const at = items.indexOf(event.target);
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -at, End: items.length - 1 - at };
      if (at < 0 || !(event.key in steps)) return;
      const next = items[at + steps[event.key]];
      event.preventDefault();
      if (!next) return;
      items[at].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }

  // Means over cells.
  const known = (values) => values.filter((value) => value != null);
  // A share of next to nothing says nothing, and would rule an average.
  const counted = (list, kind) => (kind === "index" ? list.filter((cell) => cell && !isNothing(cell)) : list);
  function mean(values, kind) {
    const numbers = known(values);
    if (!numbers.length) return null;
    if (kind === "ratio" && numbers.every((value) => value > 0)) return Math.exp(numbers.reduce((sum, value) => sum + Math.log(value), 0) / numbers.length);
    return numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  }

  // The map.
  function relation(metric) {
    if (!state.against) return { value: (cell) => cell && cell[state.metric], kind: metric.kind, unit: metric.unit, centre: metric.kind === "ratio" ? 1 : null };
    const other = (cell) => find(cell.trace, cell.envelope, state.against);
    const both = (cell, combine) => {
      const base = cell && other(cell);
      return base && cell[state.metric] != null && base[state.metric] != null ? combine(cell[state.metric], base[state.metric]) : null;
    };
    if (metric.kind === "share" || metric.kind === "index") {
      return { value: (cell) => both(cell, (own, base) => own - base), kind: metric.kind, unit: metric.kind === "share" ? "points" : "", centre: 0, signed: true };
    }
    return { value: (cell) => both(cell, (own, base) => (base > 0 ? own / base : null)), kind: "ratio", unit: "×", centre: 1 };
  }
  function drawMaps() {
    const metric = metrics[state.metric];
    const view = relation(metric);
    const grid = state.shown.map((policy) => names.trace.map((trace) => names.envelope.map((envelope) => find(trace, envelope, policy))));
    const values = known(grid.flat(2).map(view.value)).filter(Number.isFinite);
    const distance = (value) => (view.centre === 1 ? Math.log(Math.max(value, 1e-6)) : value - (view.centre || 0));
    // Extremes must not wash out the rest: the scale ends at the 95th percentile of distances.
    const far = values.map((value) => Math.abs(distance(value))).sort((a, b) => a - b);
    const limit = Math.max(far[Math.floor(0.95 * (far.length - 1))] || 0, view.centre == null ? 1e-9 : metric.kind === "ratio" || view.centre === 1 ? 0.03 : 0.01);
    const low = view.centre == null ? Math.min(...values, 0) : 0;
    const lowIsBetter = metric.better === "low";
    function tint(value) {
      if (view.centre == null) return ["--more", Math.min(100, (100 * (value - low)) / (limit - low || 1))];
      const away = distance(value);
      const name = metric.better == null ? "--more" : (away < 0) === lowIsBetter ? "--better" : "--worse";
      return [name, Math.min(100, (100 * Math.abs(away)) / limit)];
    }
    const shownValue = (value) => (view.signed && value > 0 ? "+" : "") + readable(value, view.kind);
    const panels = state.shown.map((policy, slot) => {
      const all = grid[slot].flat();
      const ratios = known(all.map(view.value));
      const average = mean(counted(all, view.kind).map(view.value), view.kind);
      const better = ratios.filter((value) => (lowIsBetter ? distance(value) < -0.01 : distance(value) > (view.centre === 1 ? 0.01 : 0.0005))).length;
      const worse = ratios.filter((value) => (lowIsBetter ? distance(value) > 0.01 : distance(value) < -(view.centre === 1 ? 0.01 : 0.0005))).length;
      const summary = `mean ${withUnit(average == null ? "–" : shownValue(average), view.unit)}` +
        (view.centre != null && metric.better ? `; better in ${better}, worse in ${worse} of ${ratios.length}` : "");
      const body = grid[slot].map((row, at) => make("tr", {},
        make("th", { scope: "row", title: names.trace[at] }, names.trace[at]),
        row.map((cell, column) => {
          const value = cell ? view.value(cell) : null;
          if (value == null) return make("td", { class: "none", "data-item": true, tip: () => ({ title: `${policy} · ${names.trace[at]} · ${names.envelope[column]}`, facts: [], note: cell ? "no value of this metric" : "not run" }) }, "–");
          const [name, strength] = tint(value);
          return make("td", {
            "data-item": true, class: isNothing(cell) ? "nothing" : null, tip: () => cellTip(cell),
            style: { "--tint": `var(${name})`, "--strength": strength.toFixed(1) },
          }, shownValue(value));
        })));
      const table = make("table", { class: "heat", "data-policy": policy },
        make("caption", {}, make("span", {}, marker(slot), policy), make("small", {}, summary)),
        make("colgroup", {}, make("col", { class: "names" }), names.envelope.map(() => make("col"))),
        make("thead", {}, make("tr", {}, make("td", {style: {background: "none"}}), names.envelope.map((each) => make("th", { scope: "col" }, each)))),
        make("tbody", {}, body));
      rove(table, names.envelope.length);
      return table;
    });
    byId("maps").replaceChildren(...panels);
    const bar = (from, to) => make("i", { style: { background: `linear-gradient(to right, var(${from}), var(--surface)${to ? `, var(${to})` : ""})`, transform: to ? "none" : "scaleX(-1)" } });
    const scale = view.centre == null
      ? make("span", { class: "legend" }, readable(low, view.kind), bar("--more"), withUnit(`${readable(limit, view.kind)} and more`, view.unit))
      : metric.better == null ? null : make("span", { class: "legend" }, "better", bar("--better", "--worse"), "worse");
    const what = state.against
      ? `${metric.label}, ${view.centre === 1 ? "over" : "less"} that of ${state.against}${view.unit ? ` (${view.unit})` : ""}.`
      : `${metric.label}${metric.unit ? ` (${metric.unit})` : ""}. ${metric.text}`;
    byId("map-caption").replaceChildren(make("span", {}, `${what} Completion: ${state.completion}. ○ nothing to win: no oracle gains 1 % over the floor (${floorName()}).`), scale || "");
  }

  // Axes along the page: positions are percentages, so that no width need be known.
  function axisOf(low, high, wanted, log) {
    // Where there is a zero it must keep a place.
    const map = log ? (low > 0 ? Math.log : Math.log1p) : (value) => value;
    const [from, to] = [map(low), map(high)];
    const position = (value) => Math.min(100, Math.max(0, (100 * (map(value) - from)) / (to - from || 1)));
    const ticks = [];
    const most = Math.min(wanted, document.documentElement.clientWidth < 640 ? 4 : 8);
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw || 1));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw) || power;
    for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-6; tick += step) ticks.push(Math.abs(tick) < step / 1e6 ? 0 : tick);
    return { low, high, position, ticks };
  }
  const tickText = (value, kind) => (kind === "share" ? digits(value * 100, 3) : Math.abs(value) >= 1e4 ? compact(value) : String(+value.toFixed(4)));
  function rules(axis, centre) {
    const lines = axis.ticks.map((tick) => make("span", { class: "rule", style: { left: `${axis.position(tick)}%` } }));
    if (centre != null && centre >= axis.low && centre <= axis.high) lines.push(make("span", { class: "rule one", style: { left: `${axis.position(centre)}%` } }));
    return lines;
  }
  function axisRows(axis, metric) {
    const labels = axis.ticks.map((tick) => make("span", { style: { left: `${axis.position(tick)}%` } }, tickText(tick, metric.kind)));
    const better = metric.better ? (metric.better === "low" ? " ← better" : " better →") : "";
    return [
      make("div", { class: "plot-row axis", "aria-hidden": "true" }, make("span"), make("div", { class: "track" }, labels), make("span")),
      make("div", { class: "plot-row axis title" }, make("span"), make("div", { class: "track" }, `${metric.label}${metric.unit ? ` (${metric.unit})` : ""}${better}`), make("span")),
    ];
  }
  function domain(values, kind) {
    const sorted = known(values).filter(Number.isFinite).sort((a, b) => a - b);
    if (!sorted.length) return [0, 1];
    let low = sorted[0];
    let high = sorted[sorted.length - 1];
    if (kind === "ratio") { low = Math.min(low, 1); high = Math.max(Math.min(high, 2.5), 1.05); }
    else if (kind === "index") { low = Math.max(Math.min(low, 0), -2); high = Math.max(high, 1); }
    else low = 0;
    const pad = (high - low) * 0.03;
    return [kind === "ratio" || kind === "index" ? low - pad : low, high + pad];
  }
  const centreOf = (kind) => (kind === "ratio" ? 1 : kind === "index" ? 0 : null);

  // Points with their intervals, a panel a trace, a row an envelope.
  function drawDots() {
    const metric = metrics[state.interval];
    const ciKey = `${state.interval}_ci`;
    const shown = names.trace.flatMap((trace) => names.envelope.flatMap((envelope) => state.shown.map((policy) => find(trace, envelope, policy)))).filter(Boolean);
    const axis = axisOf(...domain(shown.flatMap((cell) => [cell[state.interval], ...(cell[ciKey] || [])]), metric.kind), 5);
    const lane = 12;
    const panels = names.trace.map((trace) => {
      const plot = make("div", { class: "plot", role: "group", "aria-label": `${metric.label} on ${trace}` }, make("h4", {}, trace));
      for (const envelope of names.envelope) {
        const track = make("div", { class: "track", style: { height: `${lane * state.shown.length + 6}px` } }, rules(axis, centreOf(metric.kind)));
        let clipped = false;
        state.shown.forEach((policy, slot) => {
          const cell = find(trace, envelope, policy);
          const value = cell && cell[state.interval];
          if (value == null) return;
          const top = `${slot * lane + lane / 2 + 3}px`;
          const colour = `var(--c${slot % MOST})`;
          if (cell[ciKey]) {
            const [from, to] = cell[ciKey].map(axis.position);
            track.append(make("span", { class: "whisker", style: { left: `${from}%`, width: `${Math.max(to - from, 0)}%`, top, color: colour } }));
          }
          clipped ||= value > axis.high || value < axis.low;
          track.append(make("span", {
            class: "point", "data-item": true, role: "img", "aria-label": `${envelope}, ${policy}: ${exact(value, metric)}`, tip: () => cellTip(cell),
            style: { left: `${axis.position(value)}%`, top },
          }, marker(slot)));
        });
        const note = isNothing({ load: state.load, completion: state.completion, trace, envelope }) ? " ○" : "";
        plot.append(make("div", { class: "plot-row data" }, make("span", { class: "name" }, envelope + note), track, make("span", { class: "value clipped" }, clipped ? "▸" : "")));
      }
      plot.append(...axisRows(axis, metric));
      rove(plot);
      return plot;
    });
    const legend = make("div", { class: "controls" }, state.shown.map((policy, slot) => make("span", { class: "group" }, marker(slot), policy)));
    byId("dots").replaceChildren(legend, make("div", { class: "panels" }, panels));
    byId("intervals-caption").textContent = `${metric.label}${metric.unit ? ` (${metric.unit})` : ""}. ${metric.text} Completion: ${state.completion}. ` +
      (shown.some((cell) => cell[ciKey]) ? "Whiskers: confidence intervals, bootstrap over sessions of paired differences. " : "The results hold no confidence interval of this metric. ") +
      "○ nothing to win; ▸ a point lies beyond the axis.";
  }

  // All policies, best first: mean over cells, and the range.
  function drawBars() {
    const metric = metrics[state.metric];
    const traces = state.trace ? [state.trace] : names.trace;
    const rows = names.policy.map((policy) => {
      const here = traces.flatMap((trace) => names.envelope.map((envelope) => find(trace, envelope, policy))).filter(Boolean);
      const values = known(here.map((cell) => cell[state.metric]));
      return { policy, here, values, mean: mean(counted(here, metric.kind).map((cell) => cell[state.metric]), metric.kind) };
    }).filter((row) => row.mean != null);
    const sign = metric.better === "low" ? 1 : -1;
    rows.sort((a, b) => (state.order === "name" ? a.policy.localeCompare(b.policy) : sign * (a.mean - b.mean)));
    const axis = axisOf(...domain(rows.flatMap((row) => [row.mean, ...row.values]), metric.kind), 8);
    const plot = make("div", { class: "plot", role: "group", "aria-label": `${metric.label} of all policies` });
    plot.append(...axisRows(axis, metric));
    for (const row of rows) {
      const slot = state.shown.indexOf(row.policy);
      const colour = slot < 0 ? "var(--soft)" : `var(--c${slot % MOST})`;
      const [least, most] = [Math.min(...row.values), Math.max(...row.values)];
      const [from, to] = [axis.position(least), axis.position(most)];
      const oracle = !policies[row.policy].causal;
      const dagger = row.here.some((cell) => cell.degraded);
      const describe = () => ({
        title: row.policy,
        facts: [["mean", exact(row.mean, metric)], ["least", exact(least, metric)], ["most", exact(most, metric)], ["cells", String(row.values.length)]],
        note: policies[row.policy].summary + (oracle ? " Knows the future." : "") + (dagger ? " † Degraded on some traces." : ""),
      });
      const name = make("button", {
        class: "name", type: "button", "data-item": true, tip: describe, "aria-pressed": String(slot >= 0),
        onclick: () => (slot < 0 ? show(row.policy) : hide(row.policy)),
      }, row.policy + (dagger ? " †" : ""));
      const point = make("span", { class: "point", style: { left: `${axis.position(row.mean)}%`, top: "50%" } }, slot >= 0 ? marker(slot) : oracle ? marker(5) : marker(0));
      if (slot < 0) point.firstChild.style.color = "var(--soft)";
      plot.append(make("div", { class: "plot-row data", tip: describe },
        name,
        make("div", { class: "track" }, rules(axis, centreOf(metric.kind)), make("span", { class: "whisker range", style: { left: `${from}%`, width: `${Math.max(to - from, 0.3)}%`, top: "50%", color: colour } }), point),
        make("span", { class: `value${row.mean > axis.high || row.mean < axis.low ? " clipped" : ""}` }, readable(row.mean, metric.kind) + (most > axis.high || least < axis.low ? " ▸" : ""))));
    }
    plot.append(...axisRows(axis, metric));
    rove(plot);
    byId("bars").replaceChildren(plot);
    byId("ranking-caption").textContent = `${metric.label}${metric.unit ? ` (${metric.unit})` : ""}; completion: ${state.completion}; ` +
      `${metric.kind === "ratio" ? "geometric" : "arithmetic"} mean over the cells${metric.kind === "index" ? " in which there is something to win" : ""} (dot) and range from the best to the worst cell (bar)` +
      `${state.trace ? ` of ${state.trace}` : ""}. Open rings know the future; † lacks a hint on some traces; ▸ goes beyond the axis. A name adds the policy to the charts above, or takes it away.`;
  }

  // The table of cells.
  const tableKeys = () => ["trace", "envelope", "policy", ...Object.keys(metrics), "degraded"];
  function matcher(text) {
    const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => {
      const parts = word.match(/^(\w+)(<=|>=|<|>|=)(-?[\d.]+(?:e-?\d+)?)$/i);
      if (parts && metrics[parts[1]]) {
        const [, key, sign, limit] = parts;
        const compare = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "=": (a, b) => a === b }[sign];
        return (cell) => cell[key] != null && compare(cell[key], Number(limit));
      }
      const wanted = word.toLowerCase();
      return (cell) => [cell.trace, cell.envelope, cell.policy, cell.degraded].some((name) => name.toLowerCase().includes(wanted));
    });
    return (cell) => tests.every((test) => test(cell));
  }
  function compareBy(key, down) {
    const order = names[key] && key !== "policy" ? new Map(names[key].map((name, at) => [name, at])) : null;
    const value = (cell) => (order ? order.get(cell[key]) : cell[key]);
    return (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x == null || y == null) return (x == null) - (y == null);
      return (down ? -1 : 1) * (typeof x === "string" ? x.localeCompare(y) : x - y);
    };
  }
  function drawCells() {
    const keys = tableKeys();
    const found = cells.filter((cell) => cell.load === state.load && cell.completion === state.completion).filter(matcher(state.filter));
    found.sort(compareBy(state.sort.key, state.sort.down));
    const head = keys.map((key) => {
      const metric = metrics[key];
      const sorted = state.sort.key === key;
      const by = () => { state.sort = { key, down: sorted && !state.sort.down }; drawCells(); byId("cells-table").querySelector(`[data-key="${key}"]`).focus(); };
      return make("th", { scope: "col", class: metric ? "n" : null, "aria-sort": sorted ? (state.sort.down ? "descending" : "ascending") : null },
        make("button", { type: "button", "data-key": key, onclick: by, "data-tip": metric ? `${key}: ${metric.text}` : null }, metric ? `${metric.label}${metric.unit && metric.unit !== "×" ? ` (${metric.unit})` : ""}` : key));
    });
    const body = found.slice(0, state.rows).map((cell) => make("tr", {}, keys.map((key) => {
      const metric = metrics[key];
      if (!metric) return make(key === "trace" ? "th" : "td", { scope: key === "trace" ? "row" : null }, cell[key] || (key === "degraded" ? "" : "–"));
      return make("td", { class: "n", "data-tip": cell[key] == null ? null : `${metric.label}: ${exact(cell[key], metric)}` }, readable(cell[key], metric.kind));
    })));
    const table = make("table", {}, make("caption", {}, "Cells"), make("thead", {}, make("tr", {}, head)), make("tbody", {}, body));
    const old = byId("cells-table").querySelector(".scroll");
    const box = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Cells" }, table);
    const rest = found.length - body.length;
    const more = rest > 0 ? make("button", { type: "button", onclick: () => { state.rows += 500; drawCells(); } }, `Show ${Math.min(500, rest)} more`) : null;
    const left = old ? old.scrollLeft : 0;
    byId("cells-table").replaceChildren(box, make("p", { class: "controls caption" }, `${body.length.toLocaleString("en")} of ${found.length.toLocaleString("en")} cells`, more || "",
      make("button", { type: "button", onclick: () => saveCsv(found, keys) }, "Save these rows as CSV")));
    box.scrollLeft = left;
    byId("status").textContent = `${found.length} cells`;
  }
  function saveCsv(rows, keys) {
    const quote = (value) => (value == null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
    const all = ["load", "completion", ...keys];
    const text = [all.join(","), ...rows.map((cell) => all.map((key) => quote(cell[key])).join(","))].join("\n") + "\n";
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "cells-filtered.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // Tables that came with the page.
  function makeSortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const valueOf = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent === "–" ? null : cell.textContent;
    };
    heads.forEach((head, column) => {
      const label = head.textContent;
      if ([...body.rows].some((row) => row.cells[column].classList.contains("n"))) head.classList.add("n");
      head.replaceChildren(make("button", {
        type: "button",
        onclick: () => {
          const down = head.getAttribute("aria-sort") === "ascending";
          heads.forEach((each) => each.removeAttribute("aria-sort"));
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          const rows = [...body.rows].sort((a, b) => {
            const [x, y] = [valueOf(a, column), valueOf(b, column)];
            if (x == null || y == null) return (x == null) - (y == null);
            const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
            return down ? -order : order;
          });
          body.append(...rows);
        },
      }, label || "what"));
    });
  }

  // Lines of the paper's figures.
  function drawChart(figure) {
    const chart = data.charts[figure.dataset.chart];
    const width = Math.max(300, Math.min(figure.clientWidth, 760));
    const height = Math.round(Math.min(340, width * 0.62));
    const [left, right, top, bottom] = [52, 12, 10, 42];
    // A figure of both completions that does not draw them side by side follows the switch.
    const followed = chart.series !== "completion" && chart.rows.some((row) => row.completion === state.completion);
    const drawn = chart.rows.filter((row) => (!followed || row.completion === state.completion) &&
      Object.entries(chart.where || {}).every(([key, value]) => row[key] === value));
    const groups = chart.series ? [...new Set(drawn.map((row) => row[chart.series]))] : [null];
    const lines = [];
    for (const y of chart.y) {
      for (const group of groups) {
        const slot = lines.filter((line) => !line.paper).length;
        const rows = drawn.filter((row) => group === null || row[chart.series] === group);
        for (const [key, paper] of [[y, false], [`${y}_paper`, true], [`paper_${y}`, true]]) {
          // The paper's numbers do not tell our series apart.
          if (paper && lines.some((line) => line.paper && line.key === key)) continue;
          const points = rows.filter((row) => Number.isFinite(row[key]) && Number.isFinite(row[chart.x])).map((row) => [row[chart.x], row[key]]).sort((a, b) => a[0] - b[0]);
          const label = [group, chart.y.length > 1 || group === null ? chart.labels[y] : null].filter((part) => part != null).join(", ");
          if (points.length) lines.push({ points, paper, key, slot: paper ? MOST - 1 : slot, label: paper ? `${chart.labels[y]}, paper` : label });
        }
      }
    }
    if (!lines.length) return;
    const xs = lines.flatMap((line) => line.points.map((point) => point[0]));
    const ys = lines.flatMap((line) => line.points.map((point) => point[1]));
    const log = chart.log_x && Math.min(...xs) >= 0;
    const across = axisOf(Math.min(...xs), Math.max(...xs), 8, log);
    const spread = Math.max(...ys) - Math.min(...ys) || Math.abs(ys[0]) || 1;
    const up = axisOf(Math.min(...ys) - spread * 0.05, Math.max(...ys) + spread * 0.05, 6);
    const px = (x) => left + (across.position(x) / 100) * (width - left - right);
    const py = (y) => height - bottom - (up.position(y) / 100) * (height - top - bottom);
    const powers = Array.from({ length: 16 }, (_, at) => 10 ** (at - 6)).concat(0).filter((tick) => tick >= across.low && tick <= across.high && (across.low > 0 || tick === 0 || tick >= 1));
    const xticks = new Set(xs).size <= 8 ? [...new Set(xs)] : log ? powers : across.ticks;
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${chart.title}: lines; the table below has the numbers`, style: { "max-width": `${width}px` } });
    for (const tick of up.ticks) svg.append(make("line", { class: "grid", x1: left, x2: width - right, y1: py(tick), y2: py(tick) }), make("text", { x: left - 6, y: py(tick) + 4, "text-anchor": "end" }, tickText(tick)));
    for (const tick of xticks) svg.append(make("text", { x: px(tick), y: height - bottom + 16, "text-anchor": "middle" }, tickText(tick)));
    svg.append(make("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, chart.x_label || chart.labels[chart.x]));
    svg.append(make("text", { x: 12, y: top + (height - top - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${top + (height - top - bottom) / 2})` }, chart.y_label || chart.labels[chart.y[0]]));
    for (const line of lines) {
      const group = make("g", { style: { color: `var(--c${line.slot % MOST})` } });
      group.append(make("path", { class: line.paper ? "line dashed" : "line", d: line.points.map(([x, y], at) => `${at ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("") }));
      for (const [x, y] of line.points) {
        const mark = marker(line.slot);
        for (const [name, value] of [["x", px(x) - 5], ["y", py(y) - 5], ["width", 10], ["height", 10]]) mark.setAttribute(name, value);
        tips.set(mark, () => ({ title: line.label, facts: [[chart.labels[chart.x], digits(x, 6)], [chart.y_label || "value", digits(y, 6)]] }));
        mark.setAttribute("pointer-events", "all");
        mark.setAttribute("data-item", "");
        group.append(mark);
      }
      svg.append(group);
    }
    rove(svg);
    figure.replaceChildren(svg, make("figcaption", {}, followed ? make("span", {}, `${state.completion} completion:`) : null, lines.map((line) => make("span", {}, marker(line.slot), line.label))));
  }

  // What is drawn, and when.
  function show(policy) { if (state.shown.length < MOST) { state.shown = [...state.shown, policy]; drawCompared(); } else byId("status").textContent = `At most ${MOST} policies at once`; }
  function hide(policy) { if (state.shown.length > 1) { state.shown = state.shown.filter((each) => each !== policy); drawCompared(); } }
  function policyOptions(except = []) { return names.policy.filter((each) => !except.includes(each)).map((each) => [policies[each].causal ? each : `${each} (knows the future)`, each]); }
  function drawPicker() {
    const chips = state.shown.map((policy, slot) => make("span", { class: "chip", tip: () => ({ title: policy, facts: [], note: policies[policy].summary }) }, marker(slot), policy,
      make("button", { type: "button", "aria-label": `Remove ${policy}`, disabled: state.shown.length === 1, onclick: () => hide(policy) }, "×")));
    const full = state.shown.length >= MOST;
    const add = select(full ? `(${MOST} at most)` : "Add", [["a policy …", ""], ...(full ? [] : policyOptions(state.shown))], "", (policy) => { if (policy) show(policy); byId("picker").querySelector("select").focus(); });
    byId("picker").replaceChildren(...chips, add);
  }
  const metricOptions = () => Object.entries(metrics).map(([key, metric]) => [metric.label, key]);
  function drawControls() {
    const setMetric = (id) => (value) => { state.metric = value; drawControls(); drawCharts(); byId(id).querySelector("select").focus(); };
    byId("map-controls").replaceChildren(
      select("Metric", metricOptions(), state.metric, setMetric("map-controls")),
      select("Compared with", [["nothing: as it is", ""], ...policyOptions()], state.against, (value) => { state.against = value; drawMaps(); }));
    byId("intervals-controls").replaceChildren(select("Metric", metricOptions(), state.interval, (value) => { state.interval = value; drawDots(); }));
    byId("ranking-controls").replaceChildren(
      select("Metric", metricOptions(), state.metric, setMetric("ranking-controls")),
      select("Trace", [["all", ""], ...names.trace.map((each) => [each, each])], state.trace, (value) => { state.trace = value; drawBars(); }),
      select("Order", [["best first", ""], ["by name", "name"]], state.order, (value) => { state.order = value; drawBars(); }));
  }
  function drawGlobal() {
    const parts = [];
    if (names.completion.length > 1) parts.push(toggle("Completion", names.completion, state.completion, (value) => { state.completion = value; drawAll(); byId("global").querySelector(`[data-choice="${value}"]`).focus(); }));
    if (names.load.length > 1) parts.push(select("Load", names.load.map((each) => [each, each]), state.load, (value) => { state.load = value; drawAll(); }));
    byId("global").replaceChildren(...parts);
    for (const verdict of document.querySelectorAll(".verdict")) verdict.hidden = verdict.dataset.completion !== state.completion || verdict.dataset.load !== state.load;
  }
  function drawCharts() { hideTip(); drawMaps(); drawDots(); drawBars(); }
  function drawCompared() { drawPicker(); drawCharts(); }
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  function drawAll() { drawGlobal(); drawControls(); drawCompared(); drawCells(); figures.forEach(drawChart); }

  const filter = make("input", { type: "search", placeholder: "gaia edge-tight hr>0.5", autocomplete: "off", spellcheck: "false", oninput: () => { state.filter = filter.value; state.rows = 100; drawCells(); } });
  byId("cells-controls").replaceChildren(make("label", {}, "Filter", filter));
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  drawAll();
  let width = document.documentElement.clientWidth;
  addEventListener("resize", () => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    figures.forEach(drawChart);
    drawDots();
    drawBars();
  });
  addEventListener("beforeprint", () => { state.rows = Math.min(state.rows, 100); });
  document.body.classList.add("ready");
})();
