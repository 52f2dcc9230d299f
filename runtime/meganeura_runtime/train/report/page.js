"use strict";

// Draws the runs that stand as JSON in the page. Text of a run only ever becomes text nodes.

const content = JSON.parse(document.getElementById("data").textContent);
const runs = content.runs;
const single = runs.length === 1;
const page = document.getElementById("page");
const LAST = ["learning_rate", "steps_per_second"];
const KINDS = { step: "training", epoch: "epoch mean", held_out: "held out" };
const ORDER = ["held_out", "epoch", "step"];
const TITLES = {
  learning_rate: "learning rate", steps_per_second: "steps per second",
};
const SMALL = 1e-4, LARGE = 1e6;
const LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 34, HEIGHT = 250;

// --- what the reader chose, over reloads ---------------------------------------------------------

const state = { axis: "step", log: false, smooth: 0, hidden: [], open: [], frames: {}, top: 0 };
const place = `meganeura ${location.pathname}`;
try {
  Object.assign(state, JSON.parse(sessionStorage.getItem(place)) ?? {});
} catch { /* nothing is remembered where the browser keeps nothing for files */ }

function remember() {
  state.top = window.scrollY;
  try {
    sessionStorage.setItem(place, JSON.stringify(state));
  } catch { /* as above */ }
}

// --- elements ------------------------------------------------------------------------------------

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined));
  return node;
}
const html = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// --- numbers -------------------------------------------------------------------------------------

function number(value) {
  if (value === null || value === undefined) return "-";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return value.toLocaleString("en");
  if (size < SMALL || size >= LARGE) return String(Number(value.toPrecision(3)).toExponential());
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 8 });
}
// The numbers of one axis are written in one way: all with an exponent, or none.
function axisNumber(marks) {
  const largest = Math.max(...marks.map(Math.abs));
  if (largest > 0 && (largest < SMALL || largest >= LARGE || marks.some(isTiny)))
    return (value) => (value === 0 ? "0" : String(Number(value.toPrecision(3)).toExponential()));
  return (value) => value.toLocaleString("en", { maximumFractionDigits: 8 });
}
const isTiny = (value) => value !== 0 && Math.abs(value) < SMALL / 100;
const whole = (value) => value.toLocaleString("en");
function bytes(value) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (value >= 1024 && power < units.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${Number(value.toPrecision(3)).toLocaleString("en")} ${units[power]}`;
}
function clock(seconds) {
  const all = Math.round(seconds), hours = Math.floor(all / 3600);
  const minutes = Math.floor(all / 60) % 60, rest = String(all % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}
const title = (name) => TITLES[name] ?? name;
const kindTitle = (kind) => KINDS[kind] ?? kind.replaceAll("_", " ");

// --- charts --------------------------------------------------------------------------------------

function rank(list, value) {
  const found = list.indexOf(value);
  return found < 0 ? list.length : found;
}

// A panel is what shares one pair of axes: a name, and for several runs one kind of record of it.
function panels() {
  const found = new Map();
  runs.forEach((run, number) => {
    for (const curve of run.curves) {
      if (!curve.x.length) continue;
      const key = single ? curve.name : `${curve.kind} ${curve.name}`;
      if (!found.has(key)) {
        const plain = single || LAST.includes(curve.name);
        const of = plain ? title(curve.name) : `${title(curve.name)}, ${kindTitle(curve.kind)}`;
        found.set(key, { name: curve.name, kind: curve.kind, title: of, series: [] });
      }
      const series = found.get(key).series;
      const colour = single ? { held_out: 1, epoch: 2, step: 0 }[curve.kind] ?? 3 : number;
      series.push({
        ...curve, colour: colour % 8, dash: single ? 0 : Math.floor(number / 8), run,
        label: single ? kindTitle(curve.kind) : run.label,
      });
    }
  });
  const late = (name) => LAST.indexOf(name) + 1;
  return [...found.values()].sort((a, b) =>
    late(a.name) - late(b.name)
    || (b.name === "loss") - (a.name === "loss")
    || (single ? 0 : rank(ORDER, a.kind) - rank(ORDER, b.kind)));
}

function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let each = Math.ceil(low / step - 1e-9); each * step <= high + step * 1e-9; each += 1)
    found.push(Number((each * step).toPrecision(12)));
  return found;
}
function logTicks(low, high) {
  const found = [], decades = Math.log10(high / low), every = Math.max(1, Math.ceil(decades / 6));
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const each of decades < 2 ? [1, 2, 5] : [1])
      if (power % every === 0) found.push(each * 10 ** power);
  return found.filter((each) => each >= low * 0.999 && each <= high * 1.001);
}

// An exponential moving average without its bias towards the first value (Kingma and Ba, 2014).
function smoothed(values, weight) {
  let mean = 0, share = 0;
  return values.map((each) => {
    mean = weight * mean + (1 - weight) * each;
    share = weight * share + (1 - weight);
    return mean / share;
  });
}

const position = (series, index) =>
  state.axis === "epoch" ? series.x[index] / series.run.about.steps_per_epoch : series.x[index];
const hasEpochs = runs.every((run) => run.about?.steps_per_epoch > 0);
if (!hasEpochs) state.axis = "step";

function nearest(series, x) {
  let low = 0, high = series.x.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (position(series, middle) < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - position(series, low - 1) < position(series, low) - x ? low - 1 : low;
}

function extent(lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists)
    for (const each of list) {
      if (each < low) low = each;
      if (each > high) high = each;
    }
  return [low, high];
}

function chart(panel) {
  const box = html("div", { class: "plot" });
  const readout = html("div", { class: "readout", "aria-live": "polite", hidden: true });
  const legend = html("div", { class: "legend" });
  const figure = html("figure", { class: "card" },
    html("figcaption", {}, html("h3", {}, panel.title), legend), box, readout);
  let scale = null, cursor = null;

  const key = (series) => `${panel.title}/${series.label}`;
  const visible = () => panel.series.filter((each) => !state.hidden.includes(key(each)));

  function drawLegend() {
    legend.replaceChildren(...(panel.series.length < 2 ? [] : panel.series.map((series) =>
      html("button", {
        type: "button", class: `key c${series.colour} d${series.dash}`,
        "aria-pressed": String(!state.hidden.includes(key(series))),
        title: "show or hide this curve",
        onclick: () => {
          const at = state.hidden.indexOf(key(series));
          if (at < 0) state.hidden.push(key(series));
          else state.hidden.splice(at, 1);
          drawLegend();
          draw();
        },
      }, html("i", {}), series.label))));
  }

  function draw() {
    const width = Math.max(240, box.clientWidth || 400), shown = visible();
    const positive = extent(shown.map((each) => each.y.filter((value) => value > 0)));
    const log = state.log && positive[0] < Infinity;
    const xs = extent(shown.map((each) => [position(each, 0), position(each, each.x.length - 1)]));
    let ys = log ? positive : extent(shown.flatMap((each) => [each.y, each.low, each.high]));
    if (xs[0] === Infinity) {
      box.replaceChildren(html("p", { class: "quiet" }, "nothing is shown"));
      scale = null;
      return;
    }
    xs[0] = 0;
    xs[1] ||= 1;
    if (ys[0] === ys[1]) {
      const [only] = ys;
      if (log) ys = [only / 1.5, only * 1.5];
      else ys = only ? [Math.min(0, 2 * only), Math.max(0, 2 * only)] : [-1, 1];
    } else if (!log) {
      const by = (ys[1] - ys[0]) * 0.04;
      ys = [ys[0] >= 0 && ys[0] < by * 3 ? 0 : ys[0] - by, ys[1] + by];
    }
    const [inner, tall] = [width - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
    const along = (value) => LEFT + ((value - xs[0]) / (xs[1] - xs[0])) * inner;
    const share = log
      ? (value) => Math.log(Math.max(value, ys[0]) / ys[0]) / Math.log(ys[1] / ys[0])
      : (value) => (value - ys[0]) / (ys[1] - ys[0]);
    const up = (value) => TOP + (1 - share(value)) * tall;
    scale = { along, up, xs, inner };
    const clip = `clip${panels.count = (panels.count ?? 0) + 1}`;
    const marks = log ? logTicks(...ys) : ticks(...ys, 5), written = axisNumber(marks);
    const grid = marks.map((each) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: up(each), y2: up(each) }),
      svg("text", { class: "tick end", x: LEFT - 8, y: up(each) + 4 }, written(each))]);
    const below = ticks(...xs, Math.max(2, Math.min(7, inner / 80))).map((each) =>
      svg("text", { class: "tick middle", x: along(each), y: HEIGHT - 16 }, number(each)));
    const words = shown.map((each) => `${each.label}: last ${number(each.y.at(-1))}`).join(", ");
    cursor = svg("g", { class: "cursor" });
    box.replaceChildren(svg("svg", {
      width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", tabindex: "0",
      "aria-label": `${panel.title} by ${state.axis}; ${words}. Arrow keys read values.`,
      onpointermove: (event) => point(event.offsetX), onpointerleave: hide,
      onblur: hide, onkeydown: press,
    },
    svg("clipPath", { id: clip },
      svg("rect", { x: LEFT - 4, y: TOP - 3, width: inner + 8, height: tall + 6 })),
    grid, below,
    svg("text", { class: "tick end", x: width - RIGHT, y: HEIGHT - 2 }, state.axis),
    best(),
    svg("g", { "clip-path": `url(#${clip})` }, shown.map((each) => curve(each, log))), cursor));
  }

  function best() {
    if (!single || !runs[0].best_step || LAST.includes(panel.name)) return null;
    const [step, per] = [runs[0].best_step, runs[0].about?.steps_per_epoch];
    const x = scale.along(state.axis === "epoch" ? step / per : step);
    return svg("line", { class: "best", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM },
      svg("title", {}, `the best evaluation, by ${title(runs[0].best_by)}`));
  }

  function path(series, values, log) {
    let drawn = "", pen = "M";
    values.forEach((value, index) => {
      if (log && value <= 0) {
        pen = "M";
        return;
      }
      const [x, y] = [scale.along(position(series, index)), scale.up(value)];
      drawn += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = "L";
    });
    return drawn;
  }

  function curve(series, log) {
    const soft = state.smooth > 0 && series.kind === "step" && series.name !== "learning_rate";
    const tone = `c${series.colour} d${series.dash}`, parts = [];
    if (series.low.length) {
      const there = path(series, series.high, false);
      const back = series.low.map((value, index) => [index, value]).reverse().map(([index, value]) =>
        `L${scale.along(position(series, index)).toFixed(1)} ${scale.up(value).toFixed(1)}`);
      parts.push(svg("path", { class: `band ${tone}`, d: `${there}${back.join("")}Z` }));
    }
    parts.push(svg("path", {
      class: `line ${tone}${soft ? " faint" : ""}`, d: path(series, series.y, log),
    }));
    if (soft) {
      const values = smoothed(series.y, state.smooth);
      parts.push(svg("path", { class: `line ${tone}`, d: path(series, values, log) }));
    } else if (series.x.length <= 30) {
      parts.push(...series.y.map((value, index) => log && value <= 0 ? null : svg("circle", {
        class: `dot ${tone}`, r: 2.2, cx: scale.along(position(series, index)), cy: scale.up(value),
      })));
    }
    return parts;
  }

  function point(pixel) {
    if (!scale) return;
    const x = scale.xs[0] + ((pixel - LEFT) / scale.inner) * (scale.xs[1] - scale.xs[0]);
    const near = visible().map((series) => [series, nearest(series, x)]);
    const at = near.map(([series, index]) => position(series, index))
      .reduce((a, b) => (Math.abs(b - x) < Math.abs(a - x) ? b : a));
    read(at, near);
  }

  function read(at, near) {
    const close = near.filter(([series, index]) =>
      Math.abs(position(series, index) - at) <= (scale.xs[1] - scale.xs[0]) * 0.02 + 1e-9);
    cursor.at = at;
    cursor.replaceChildren(
      svg("line", { x1: scale.along(at), x2: scale.along(at), y1: TOP, y2: HEIGHT - BOTTOM }),
      ...close.map(([series, index]) => svg("circle", {
        class: `c${series.colour}`, r: 4, cx: scale.along(position(series, index)),
        cy: scale.up(series.y[index]),
      })));
    const [first, index] = close[0], step = first.x[index], per = first.run.about?.steps_per_epoch;
    readout.replaceChildren(
      html("b", {}, `step ${whole(step)}${per ? `, epoch ${number(Number((step / per).toFixed(2)))}` : ""}`),
      ...close.map(([series, place]) => html("span", { class: `key c${series.colour} d${series.dash}` },
        html("i", {}), `${series.label} `, html("b", {}, number(series.y[place])),
        series.low.length
          ? ` (${number(series.low[place])} to ${number(series.high[place])})` : "")));
    readout.hidden = false;
    const left = scale.along(at) > LEFT + scale.inner / 2;
    readout.classList.toggle("left", left);
    readout.style.setProperty("--at",
      `${left ? box.clientWidth - scale.along(at) + 12 : scale.along(at) + 12}px`);
  }

  function hide() {
    readout.hidden = true;
    cursor?.replaceChildren();
    if (cursor) cursor.at = undefined;
  }

  function press(event) {
    const shown = visible();
    if (!scale || !shown.length) return;
    const stops = [...new Set(shown.flatMap((each) => each.x.map((_, at) => position(each, at))))]
      .sort((a, b) => a - b);
    const now = cursor.at === undefined ? -1 : stops.findIndex((each) => each >= cursor.at);
    const fast = event.shiftKey ? Math.ceil(stops.length / 20) : 1;
    const last = stops.length - 1;
    const next = {
      ArrowRight: now < 0 ? 0 : Math.min(last, now + fast),
      ArrowLeft: now < 0 ? last : Math.max(0, now - fast),
      Home: 0, End: last,
    }[event.key];
    if (event.key === "Escape") hide();
    if (next === undefined) return;
    event.preventDefault();
    read(stops[next], shown.map((series) => [series, nearest(series, stops[next])]));
  }

  drawLegend();
  return { figure, draw };
}

// --- tables --------------------------------------------------------------------------------------

function table(head, rows, right = []) {
  const cell = (tag, value, column) =>
    html(tag, { class: right.includes(column) ? "right" : null, scope: tag === "th" ? "col" : null },
      value instanceof Node ? value : String(value));
  return html("div", { class: "scroll" }, html("table", {},
    head && html("thead", {}, html("tr", {}, head.map((each, column) => cell("th", each, column)))),
    html("tbody", {}, rows.map((row) =>
      html("tr", {}, row.map((each, column) => cell("td", each, column)))))));
}

function section(name, open, ...children) {
  const isOpen = state.open.includes(name) !== open;
  const found = html("details", { open: isOpen }, html("summary", {}, html("h2", {}, name)), children);
  found.addEventListener("toggle", () => {
    const changed = found.open !== open, at = state.open.indexOf(name);
    if (changed && at < 0) state.open.push(name);
    if (!changed && at >= 0) state.open.splice(at, 1);
  });
  return found;
}

const STATUS = {
  running: "running", finished: "finished", "stopped early": "finished", stopped: "stopped",
  failed: "failed", lost: "lost",
};

const DONE = ["finished", "stopped early"];

function pill(run) {
  const about = run.about;
  return about && html("span", { class: `pill ${STATUS[about.status] ?? ""}` }, about.status);
}

function seconds(run) {
  if (!run.about) return 0;
  const since = (Date.parse(content.written) - Date.parse(run.about.started)) / 1000;
  return run.about.seconds + (run.about.status === "running" ? Math.max(0, since) : 0);
}

function tile(name, value, more) {
  return html("div", { class: "tile" }, html("span", {}, name), html("b", {}, value),
    more ? html("small", {}, more) : null);
}

function sum(values) {
  return values.reduce((a, b) => a + b, 0);
}

function header(run) {
  const about = run.about, total = about ? about.epochs * about.steps_per_epoch : 0;
  const began = about && new Date(about.started).toLocaleString();
  const line = about
    ? [`train ${about.train}`, about.device, `began ${began}`].filter(Boolean).join("  ·  ")
    : "made by a version that wrote no run.json: what it lacks is not shown";
  const left = about?.status === "running" && run.speed
    ? `, ${clock((total - run.step) / run.speed)} left` : "";
  return html("header", {},
    html("div", { class: "name" }, html("h1", {}, run.name), pill(run),
      html("span", { class: "pill stale", hidden: true })),
    html("p", { class: "quiet" }, line),
    about?.error ? html("p", { class: "error" }, about.error) : null,
    about?.ended
      ? html("p", {}, `stopped early after step ${whole(run.step)} of ${whole(total)}: ${about.ended}`) : null,
    about?.status === "lost"
      ? html("p", { class: "error" }, "its process ended without a word") : null,
    total && !DONE.includes(about.status) ? html("div", { class: "progress" },
      html("progress", { value: run.step, max: total, "aria-label": "steps" }),
      html("span", {}, `step ${whole(run.step)} of ${whole(total)}${left}`)) : null);
}

function tiles(run) {
  const about = run.about, kept = run.measures.filter((each) => each[0] === "held_out");
  const shown = kept.length ? kept : run.measures.filter((each) => each[0] === "step");
  // Only the metric that chooses the best weights has a best; others are told as of that step.
  const best = ([, name, final, value]) => {
    if (value === null) return "";
    if (name === run.best_by)
      return value === final ? "the best" : `best ${number(value)}, at step ${whole(run.best_step)}`;
    return run.best_step === run.step ? "" : `${number(value)} at step ${whole(run.best_step)}`;
  };
  const memory = about?.memory && sum(Object.values(about.memory));
  return html("div", { class: "tiles" },
    shown.slice(0, 4).map((each) =>
      tile(`${title(each[1])}, ${kindTitle(each[0])}`, number(each[2]), best(each))),
    about ? tile("time", clock(seconds(run)), about.status === "running" ? "so far" : `${whole(run.step)} steps`) : null,
    run.speed ? tile("steps per second", number(run.speed),
      about ? `${number(run.speed * about.batch)} examples` : "") : null,
    run.parameters.count ? tile("weights", whole(run.parameters.elements),
      run.parameters.trained === run.parameters.elements
        ? `all trained, in ${whole(run.parameters.count)} parameters`
        : `${whole(run.parameters.trained)} of them trained`) : null,
    memory ? tile("memory of a step", bytes(memory), "") : null,
    about?.examples ? tile("examples", whole(about.examples), `${whole(about.held_out)} held out`) : null);
}

function memory(run) {
  const every = Object.entries(run.about.memory).sort((a, b) => b[1] - a[1]);
  const all = sum(every.map((each) => each[1])) || 1;
  // Roles that no one could see in the bar are one.
  const [roles, small] = [every.filter(([, size]) => size >= all / 1000),
    every.filter(([, size]) => size < all / 1000)];
  if (small.length > 1)
    roles.push([small.map(([role]) => role).join(", "), sum(small.map((each) => each[1]))]);
  else roles.push(...small);
  const bar = html("div", { class: "stack", role: "img", "aria-label": "memory by role" });
  roles.forEach(([role, size], at) => {
    const part = html("i", { class: `c${at % 8}`, title: `${role}: ${bytes(size)}` });
    part.style.setProperty("flex-grow", size / all);
    bar.append(part);
  });
  return [bar, table(["role", "bytes", "share"], roles.map(([role, size], at) => [
    html("span", { class: `key c${at % 8}` }, html("i", {}), role), bytes(size),
    `${((100 * size) / all).toFixed(1)} %`]), [1, 2])];
}

function parameters(run) {
  const { rows, left_out: more, count, states, trained_count: trained } = run.parameters;
  const frozen = trained < count ? `, ${trained} trained` : "";
  return section(`Parameters (${count}${frozen}${states ? `, ${states} states` : ""})`, false,
    table(["name", "type", "kind", "elements", ""], rows.map(([name, type, kind, size, moves]) =>
      [html("code", {}, name), html("code", {}, type), kind, whole(size),
        kind === "param" ? (moves ? "trained" : "not trained") : ""]), [3]),
    more ? html("p", { class: "quiet" }, `and ${whole(more)} more`) : null);
}

function metrics(run) {
  return table(["", "records", "final", "at the best evaluation"],
    run.measures.map(([kind, name, final, best]) =>
      [title(name), kindTitle(kind), number(final), best === null ? "" : number(best)]), [2, 3]);
}

function settings(run) {
  return table(["setting", "value"], run.settings.map(([name, value]) =>
    [html("code", {}, name), html("code", {}, value)]));
}

// The command, the state of the repository and the text of the program.
function program(run) {
  const { commands, texts, left_out: more, repository, version } = run.about.origin;
  const state = repository && [
    html("code", { title: repository.commit }, repository.commit.slice(0, 12)),
    repository.branch ? ` on ${repository.branch}` : "",
    repository.changed === null ? ""
      : repository.changed === 0 ? ", no tracked file changed"
        : `, ${whole(repository.changed)} tracked file${repository.changed === 1 ? "" : "s"} changed`,
  ];
  const rows = [
    ...commands.map((each, at) => [at ? "went on with" : "command", html("code", {}, each)]),
    ...(state ? [["commit", html("span", {}, state)]] : []),
    ...(version ? [["Meganeura", version]] : []),
  ];
  return section("Program", false,
    rows.length ? table(null, rows) : null,
    texts.map(({ name, text }) => html("figure", { class: "card text" },
      html("figcaption", {}, html("h3", {}, name)), html("pre", {}, html("code", {}, text)))),
    more ? html("p", { class: "quiet" }, `and ${whole(more)} files that are too long to keep`) : null);
}

// A matrix whose entries are shares of whole examples is drawn as counts: a confusion matrix.
function counts(frame) {
  const all = frame.rows.flat().map((each) => each * frame.examples);
  return frame.by === 1 && frame.rows.length === frame.rows[0].length
    && all.every((each) => each >= 0 && Math.abs(each - Math.round(each)) < 0.01)
    && Math.abs(sum(all) - frame.examples) < 0.01 * all.length;
}

function matrix(frame, name, classes) {
  const { rows, by, examples } = frame, isCount = counts(frame), size = rows[0].length;
  const isNamed = isCount && classes.length === size;
  const label = (i) => (isNamed ? classes[i] : String(i * by));
  const longest = isNamed ? Math.min(16, Math.max(...classes.map((each) => each.length))) : 0;
  const side = Math.max(8, Math.min(48, Math.floor((isCount ? 380 : 500) / size))), edge = Math.max(34, 10 + 7 * longest);
  const short = (text) => (text.length > 16 ? `${text.slice(0, 15)}…` : text);
  const [low, high] = extent(rows.map((row) => row.filter((each) => each !== null)));
  const text = html("p", { class: "quiet", "aria-live": "polite" },
    isCount ? "rows: labels; columns: predictions" : "rows down, columns across");
  const shown = (value) => (isCount ? whole(Math.round(value * examples)) : number(value));
  const cells = rows.flatMap((row, i) => row.map((value, j) => {
    const share = value === null ? 0 : (value - Math.min(low, 0)) / (high - Math.min(low, 0) || 1);
    const words = isNamed
      ? `${label(i)} taken for ${label(j)}: ${shown(value)}`
      : `row ${i * by}, column ${j * by}: ${shown(value)}`;
    const box = svg("rect", {
      class: isCount && i !== j ? "cell wrong" : "cell", x: edge + j * side, y: i * side,
      width: side - 1, height: side - 1, "fill-opacity": value ? 0.08 + 0.92 * Math.sqrt(share) : 0.03,
      onpointerenter: () => { text.textContent = words; },
    }, svg("title", {}, words));
    const inside = side >= 24 && value && isCount
      ? svg("text", {
        class: share > 0.2 ? "tick middle on" : "tick middle", x: edge + (j + 0.5) * side - 0.5,
        y: (i + 0.5) * side + 3.5,
      }, shown(value)) : null;
    return [box, inside];
  }));
  const every = Math.ceil(20 / side);
  const marks = rows.map((_, i) => i % every ? null
    : svg("text", { class: "tick end", x: edge - 6, y: (i + 0.5) * side + 4 },
      short(label(i))));
  const under = rows[0].map((_, j) => j % every ? null : svg("text", {
    class: isNamed ? "tick end" : "tick middle", x: edge + (j + 0.5) * side,
    y: rows.length * side + (isNamed ? 8 : 14),
    ...(isNamed
      ? { transform: `rotate(-60 ${edge + (j + 0.5) * side} ${rows.length * side + 8})` } : {}),
  }, short(label(j))));
  const drawn = [svg("svg", {
    width: edge + size * side, height: rows.length * side + (isNamed ? 16 + 6.5 * longest : 20), role: "img",
    "aria-label": `${name}, ${rows.length} by ${size}`,
  }, cells, marks, under), text];
  return isCount
    ? [html("div", { class: "beside" }, html("div", {}, drawn), classTable(rows, examples, label))]
    : drawn;
}

// Recall: the share of the examples of a class that are found. Precision: the share of what is
// taken for it that is of it.
function classTable(rows, examples, label) {
  const count = (value) => Math.round(value * examples);
  const part = (of, all) => (all ? `${number(Number(((100 * of) / all).toFixed(1)))} %` : "-");
  return table(["class", "examples", "recall", "precision"], rows.map((row, i) => {
    const [right, all] = [count(row[i]), sum(row.map(count))];
    return [label(i), whole(all), part(right, all), part(right, sum(rows.map((each) => count(each[i]))))];
  }), [1, 2, 3]);
}

function shownValue({ name, frames }, classes) {
  if (!frames.length) return null;
  const box = html("div", { class: "shown" }), step = html("output", {});
  const last = frames.length - 1;
  const draw = (at) => {
    const frame = frames[at];
    step.textContent = `step ${whole(frame.step)}`;
    box.replaceChildren(...(frame.picture
      ? [html("img", { src: frame.picture, alt: `${name} after step ${frame.step}` })]
      : matrix(frame, name, classes)));
  };
  const slider = html("input", {
    type: "range", min: 0, max: last, step: 1, value: Math.min(state.frames[name] ?? last, last),
    "aria-label": `evaluation of ${name}`,
    oninput: (event) => {
      const at = Number(event.target.value);
      if (at === last) delete state.frames[name];
      else state.frames[name] = at;
      draw(at);
    },
  });
  draw(Number(slider.value));
  return html("figure", { class: "card" }, html("figcaption", {}, html("h3", {}, name),
    html("label", { class: "choice" }, last ? slider : null, step)), box);
}

// What a language model wrote: the last text, and those before it.
function samples({ samples: [last, ...earlier] }) {
  const one = ({ step, prompt, text }) => html("figure", { class: "card text" },
    html("figcaption", {}, html("h3", {}, `after step ${whole(step)}`)),
    html("p", { class: "written" }, html("b", {}, prompt), text));
  return section("Samples of text", true, one(last),
    earlier.length ? section("Earlier samples", false, earlier.map(one)) : null);
}

// The mistakes whose label has the least probability, the worst first.
function mistakes({ step, examples, count, worst }, classes) {
  const name = (i) => classes[i] ?? `class ${i}`;
  const percent = (share) => (share === null ? "" : `, which has ${number(Number((100 * share).toPrecision(2)))} %`);
  const said = count
    ? `${whole(count)} of ${whole(examples)} examples held out are wrong after step ${whole(step)}`
      + (count > worst.length ? `; the worst ${whole(worst.length)} of them` : "")
    : `all ${whole(examples)} examples held out are right after step ${whole(step)}`;
  return section("Worst examples", true, html("p", { class: "quiet" }, said),
    html("div", { class: "worst" }, worst.map((each) => html("figure", { class: "card" },
      each.picture ? html("img", { src: each.picture, alt: "" }) : null,
      html("figcaption", {}, html("b", {}, `taken for ${name(each.predicted)}`),
        html("span", {}, `is ${name(each.label)}${percent(each.share)}`),
        html("small", {}, `example ${whole(each.number)}`))))));
}

function oneRun(run) {
  const about = run.about;
  return [
    run.shown.length ? section("What the program shows", true,
      html("div", { class: "charts values" }, run.shown.map((each) => shownValue(each, about?.classes ?? [])))) : null,
    run.mistakes ? mistakes(run.mistakes, about?.classes ?? []) : null,
    run.samples.length ? samples(run) : null,
    section("Metrics", true, metrics(run)),
    about?.memory ? section("Memory of a step", true, memory(run)) : null,
    about ? section("Inputs", true, table(["input", "type", "declared"], about.inputs.map((each) =>
      [html("code", {}, each.name), html("code", {}, each.type),
        html("code", {}, each.declared)]))) : null,
    run.parameters.rows.length ? parameters(run) : null,
    about && (about.origin.texts.length || about.origin.commands.length) ? program(run) : null,
    section("Settings", false, settings(run)),
  ];
}

// --- several runs --------------------------------------------------------------------------------

function comparison() {
  const keys = [...new Set(runs.flatMap((run) => run.measures.map((each) => `${each[0]} ${each[1]}`)))]
    .filter((each) => !each.startsWith("step "));
  const rows = keys.flatMap((key) => {
    const [kind, name] = [key.split(" ")[0], key.slice(key.indexOf(" ") + 1)];
    const found = runs.map((run) => run.measures.find((each) => each[0] === kind && each[1] === name));
    const line = (what, at) =>
      [`${title(name)}, ${kindTitle(kind)}${what}`, ...found.map((each) => number(each?.[at]))];
    return kind === "held_out" ? [line(", final", 2), line(", at the best evaluation", 3)] : [line("", 2)];
  });
  const facts = [
    ["steps", (run) => whole(run.step)],
    ["time", (run) => (run.about ? clock(seconds(run)) : "-")],
    ["steps per second", (run) => number(run.speed)],
    ["weights", (run) => (run.parameters.count ? whole(run.parameters.elements) : "-")],
    ["device", (run) => run.about?.device || "-"],
    ["status", (run) => run.about?.status ?? "-"],
  ].map(([name, of]) => [name, ...runs.map(of)]);
  const names = [...new Set(runs.flatMap((run) => run.settings.map((each) => each[0])))];
  const values = (name) => runs.map((run) => run.settings.find((each) => each[0] === name)?.[1] ?? "-");
  const differ = names.map((name) => [name, ...values(name)])
    .filter(([, ...found]) => new Set(found).size > 1);
  const head = () => ["", ...runs.map((run, at) =>
    html("span", { class: `key c${at % 8} d${Math.floor(at / 8)}` }, html("i", {}), run.label))];
  const right = runs.map((_, at) => at + 1);
  return [
    section("Metrics", true, table(head(), [...rows, ...facts], right)),
    section("Settings that differ", true, differ.length ? table(head(), differ)
      : html("p", { class: "quiet" }, "none")),
  ];
}

// --- the page ------------------------------------------------------------------------------------

function choice(label, name, options) {
  const buttons = options.map(([text, value]) => html("button", {
    type: "button", "aria-pressed": String(state[name] === value),
    onclick: (event) => {
      state[name] = value;
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === event.target));
      redraw();
    },
  }, text));
  return html("div", { class: "choice", role: "group", "aria-label": label },
    html("span", {}, label), buttons);
}

const charts = panels().map(chart);
const redraw = () => charts.forEach((each) => each.draw());

function toolbar() {
  const shown = html("output", {}, state.smooth.toFixed(2));
  const slider = html("input", {
    type: "range", min: 0, max: 0.99, step: 0.01, value: state.smooth, "aria-label": "smoothing",
    oninput: (event) => {
      state.smooth = Number(event.target.value);
      shown.textContent = state.smooth.toFixed(2);
      redraw();
    },
  });
  return html("div", { class: "toolbar" },
    hasEpochs ? choice("x axis", "axis", [["step", "step"], ["epoch", "epoch"]]) : null,
    choice("y axis", "log", [["linear", false], ["log", true]]),
    html("label", { class: "choice" }, html("span", {}, "smoothing"), slider, shown));
}

page.append(
  ...(single ? [header(runs[0]), tiles(runs[0])]
    : [html("header", {}, html("h1", {}, `${runs.length} runs`))]),
  ...(charts.length
    ? [toolbar(), html("div", { class: "charts" }, charts.map((each) => each.figure))]
    : [html("p", { class: "quiet" }, "nothing is measured yet")]),
  ...[single ? oneRun(runs[0]) : comparison()].flat().filter(Boolean),
  html("footer", {}, `written ${new Date(content.written).toLocaleString()} by meganeura`));
redraw();
new ResizeObserver(redraw).observe(page);
window.scrollTo(0, state.top);
addEventListener("pagehide", remember);

// --- while it trains -----------------------------------------------------------------------------

let touched = 0;
for (const kind of ["pointermove", "keydown", "scroll", "input"])
  addEventListener(kind, () => { touched = Date.now(); }, { passive: true });

function again() {
  const age = (Date.now() - Date.parse(content.written)) / 1000;
  const stale = document.querySelector(".stale");
  stale.hidden = age < 60;
  stale.textContent = `no news for ${clock(age)}`;
  const busy = document.hidden || Date.now() - touched < 2500;
  if (!busy) location.reload();
  else setTimeout(again, 500);
}
if (content.every) {
  const about = runs[0].about, total = about.epochs * about.steps_per_epoch || 1;
  document.title = `${Math.floor((100 * runs[0].step) / total)} % ${runs[0].name}`;
  setTimeout(again, content.every * 1000);
}
