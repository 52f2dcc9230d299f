/** A model as a drawing: layers within layers, opened and closed by a click; dagre lays it out. */

import { Graph, layout } from "@dagrejs/dagre";

import { brief, download, el, fill } from "../page/dom.ts";

export type Layer = {
  id: string; name: string; kind: string; times: number;
  weights: number; flops: number | null; location: string; inside: Layer[];
};

/** As `drawing_data` of `meganeura_dsl/graph_drawing.py` gives it. */
export type Drawing = {
  kind: string;
  layers: Layer[];
  joins: { id: string; name: string; layer: string; location: string }[];
  ends: { id: string; name: string; type: string }[];
  edges: { source: string; target: string; type: string }[];
};

type Measure = "weights" | "flops";
type Box = { lines: string[]; title: string; share: number; shape: "layer" | "join" | "end"; act?: () => void };

const FONT = 12;
const LINE = 16;
/** The height of the name of an open layer. */
const TITLE = 12;
/** Colours of the page, and those of a saved file. */
const STYLE = `
text { font: ${FONT}px system-ui, sans-serif; fill: var(--ink, #1d2327); text-anchor: middle }
.quiet { fill: var(--muted, #66717a); font-size: 10px }
.type { paint-order: stroke; stroke: var(--ground, #fff); stroke-width: 4px }
.begin { text-anchor: start }
rect, ellipse { fill: var(--card, #fff); stroke: var(--muted, #66717a) }
.frame > rect { fill: none; stroke: var(--line, #c9d0d4) }
.share { fill: var(--accent, #0b7a75); stroke: none }
path { fill: none; stroke: var(--muted, #66717a) }
marker path { fill: var(--muted, #66717a); stroke: none }`;

const NAMESPACE = "http://www.w3.org/2000/svg";

function svg(tag: string, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElement {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

const canvas = document.createElement("canvas").getContext("2d")!;

function width(text: string, size = FONT): number {
  canvas.font = `${size}px system-ui, sans-serif`;
  return canvas.measureText(text).width;
}

/** Draws a model with all layers closed; `go` is called with the location of an innermost layer. */
export function draw(parent: HTMLElement, drawing: Drawing, go: (location: string) => void): void {
  const opened = new Set<string>();
  let measure: Measure = "weights";
  const place = el("div");
  const choice = el("select", { ariaLabel: "Colour by" }, ...(["weights", "flops"] as const).map(
    (each) => el("option", { value: each }, each === "flops" ? "FLOPs" : each),
  ));
  choice.onchange = () => {
    measure = choice.value as Measure;
    again();
  };
  const all = el("button", { type: "button" }, "Open all");
  all.onclick = () => {
    const before = opened.size;
    const open = (layer: Layer) => {
      if (layer.inside.length) opened.add(layer.id);
      layer.inside.forEach(open);
    };
    drawing.layers.forEach(open);
    if (opened.size === before) opened.clear();
    all.textContent = opened.size ? "Close all" : "Open all";
    again();
  };
  const save = el("button", { type: "button" }, "Save as SVG");
  save.onclick = () => {
    const text = new XMLSerializer().serializeToString(place.firstChild!);
    download(`${drawing.kind}.svg`, new TextEncoder().encode(text));
  };
  const hasFlops = drawing.layers.some(({ flops }) => flops !== null);
  const toggle = (id: string) => {
    if (!opened.delete(id)) opened.add(id);
    again();
  };
  function again(): void {
    fill(place, picture(drawing, opened, measure, toggle, go));
  }
  const tools = [el("label", {}, "Colour by ", choice), all, save];
  fill(parent, el("div", { className: "row" }, ...(hasFlops ? tools : tools.slice(1))), place);
  again();
}

/** The nodes that are seen: of each node, the closed layer around it or itself. */
function visible(drawing: Drawing, opened: Set<string>): Map<string, string> {
  const seen = new Map(drawing.ends.map(({ id }) => [id, id]));
  const visit = (layer: Layer, closed: string | null) => {
    const shown = closed ?? layer.id;
    seen.set(layer.id, shown);
    const within = closed ?? (opened.has(layer.id) ? null : layer.id);
    for (const each of layer.inside) visit(each, within);
  };
  for (const each of drawing.layers) visit(each, null);
  for (const { id, layer } of drawing.joins) {
    const around = seen.get(layer);
    const isOpen = layer === "" || (around === layer && opened.has(layer));
    seen.set(id, isOpen ? id : around ?? id);
  }
  return seen;
}

function picture(
  drawing: Drawing, opened: Set<string>, measure: Measure,
  toggle: (id: string) => void, go: (location: string) => void,
): SVGElement {
  const seen = visible(drawing, opened);
  const whole = drawing.layers.reduce((sum, each) => sum + (each[measure] ?? 0) * each.times, 0);
  const graph = new Graph({ compound: true });
  graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 22, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  const boxes = new Map<string, Box>();
  const frames = new Map<string, Layer>();
  const add = (id: string, box: Box, around: string) => {
    boxes.set(id, box);
    const widest = Math.max(...box.lines.map((line, at) => width(line, at ? 10 : FONT)));
    graph.setNode(id, { width: widest + 20, height: box.lines.length * LINE + 8 });
    if (around) graph.setParent(id, around);
  };
  const visit = (layer: Layer, around: string) => {
    const many = layer.times > 1 ? `${layer.times} × ` : "";
    if (opened.has(layer.id)) {
      frames.set(layer.id, layer);
      graph.setNode(layer.id, {});
      if (around) graph.setParent(layer.id, around);
      for (const each of layer.inside) visit(each, layer.id);
      return;
    }
    const size = layer.weights ? `${many}${layer.weights.toLocaleString("en")} weights` : many.slice(0, -3);
    const flops = layer.flops === null ? "" : `, ${brief(layer.flops)} FLOPs`;
    const name = layer.name.startsWith(`${around}.`) ? layer.name.slice(around.length + 1) : layer.name;
    add(layer.id, {
      lines: [name, [layer.kind, size].filter(Boolean).join(" · ")].filter(Boolean),
      title: `${layer.name}: ${layer.kind}, ${layer.weights.toLocaleString("en")} weights${flops}\n${layer.location}`,
      share: ((layer[measure] ?? 0) * layer.times) / Math.max(1, whole), shape: "layer",
      act: layer.inside.length ? () => toggle(layer.id) : () => go(layer.location),
    }, around);
  };
  for (const each of drawing.layers) visit(each, "");
  for (const { id, name, layer, location } of drawing.joins) {
    if (seen.get(id) !== id) continue;
    add(id, { lines: [name], title: location, share: 0, shape: "join", act: () => go(location) }, layer);
  }
  for (const { id, name, type } of drawing.ends) {
    add(id, { lines: [name, type], title: type, share: 0, shape: "end" }, "");
  }
  const types = new Map<string, string>();
  for (const { source, target, type } of drawing.edges) {
    const [from, to] = [seen.get(source), seen.get(target)];
    if (from === undefined || to === undefined || from === to || types.has(`${from}\n${to}`)) continue;
    types.set(`${from}\n${to}`, type);
    graph.setEdge(from, to, { width: width(type, 10) + 6, height: 12, labelpos: "c" });
  }
  layout(graph);
  const drawn: SVGElement[] = [];
  for (const [id, layer] of frames) {
    drawn.push(frame(graph.node(id), layer, levels(layer, opened), () => toggle(id)));
  }
  for (const { v, w } of graph.edges()) drawn.push(edge(graph.edge(v, w), types.get(`${v}\n${w}`) ?? ""));
  for (const [id, box] of boxes) drawn.push(node(graph.node(id), box));
  const { width: wide = 0, height: high = 0 } = graph.graph();
  const size = { width: Math.ceil(wide), height: Math.ceil(high) };
  const head = svg("marker", {
    id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto",
  }, svg("path", { d: "M0 0L8 4L0 8z" }));
  return svg(
    "svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": drawing.kind },
    svg("style", {}, STYLE), svg("defs", {}, head), ...drawn,
  );
}

type Placed = { x: number; y: number; width: number; height: number };

/** A group that acts by a click or the Enter key. */
function group(name: string, title: string, act: (() => void) | undefined, ...children: Node[]): SVGElement {
  const role = act ? { role: "button", tabindex: 0, "aria-label": title } : {};
  const made = svg("g", { class: name, ...role }, svg("title", {}, title), ...children);
  if (act) {
    made.addEventListener("click", act);
    made.addEventListener("keydown", (event) => {
      if ((event as KeyboardEvent).key === "Enter") act();
    });
  }
  return made;
}

function corner({ x, y, width, height }: Placed): Record<string, number> {
  return { x: x - width / 2, y: y - height / 2, width, height };
}

function node(placed: Placed, box: Box): SVGElement {
  const { x, y, height: high } = placed;
  const outline = box.shape === "layer"
    ? svg("rect", { ...corner(placed), rx: 6 })
    : svg("rect", { ...corner(placed), rx: high / 2 });
  const tint = svg("rect", { ...corner(placed), rx: 6, class: "share", opacity: (0.5 * box.share).toFixed(3) });
  const top = y - (box.lines.length * LINE) / 2;
  const texts = box.lines.map((line, at) => svg(
    "text", { x, y: top + at * LINE + 12, ...(at ? { class: "quiet" } : {}) }, line,
  ));
  return group(box.shape, box.title, box.act, outline, ...(box.share ? [tint] : []), ...texts);
}

/** The levels of open layers from this one on. */
function levels(layer: Layer, opened: Set<string>): number {
  return opened.has(layer.id) ? 1 + Math.max(0, ...layer.inside.map((each) => levels(each, opened))) : 0;
}

/** The frame of an open layer, with room for its name above that of the frames in it. */
function frame(placed: Placed, layer: Layer, level: number, act: () => void): SVGElement {
  const room = level * TITLE;
  const high = { ...placed, y: placed.y - room / 2, height: placed.height + room };
  const place = corner(high);
  const many = layer.times > 1 ? `${layer.times} × ` : "";
  const words = svg(
    "text", { x: place.x! + 8, y: place.y! + 11, class: "quiet begin" }, `${many}${layer.name} ${layer.kind}`,
  );
  return group("frame", `Close ${layer.name}`, act, svg("rect", { ...place, rx: 8 }), words);
}

function edge(found: { points?: { x: number; y: number }[]; x?: number; y?: number }, type: string): SVGElement {
  const points = found.points ?? [];
  const line = points.map(({ x, y }, at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const label = svg("text", { x: found.x ?? 0, y: (found.y ?? 0) + 3, class: "quiet type" }, type);
  return svg("g", { class: "edge" }, svg("path", { d: line, "marker-end": "url(#arrow)" }), label);
}
