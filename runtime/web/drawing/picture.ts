/**
 * A model as a picture, laid out by dagre. It knows no browser: a page shows it, and
 * `meganeura graph` writes it.
 */

import { Graph, layout } from "@dagrejs/dagre";

export type Layer = {
  id: string; name: string; kind: string; times: number;
  weights: number; flops: number | null; memory: number | null; location: string; inside: Layer[];
};

/** As `drawing_data` of `meganeura_dsl/graph_drawing.py` gives it. */
export type Drawing = {
  kind: string;
  layers: Layer[];
  joins: { id: string; name: string; layer: string; location: string }[];
  ends: { id: string; name: string; type: string }[];
  edges: { source: string; target: string; type: string }[];
};

/** The measures that layers are coloured by, with their words. */
export const MEASURES = { weights: "weights", flops: "FLOPs", memory: "memory" } as const;
export type Measure = keyof typeof MEASURES;

/** What a click does: a layer opens or closes, or the page goes to a place in the program. */
export type Act = { toggle: string } | { go: string };

/** An element of SVG. */
export type Shape = {
  tag: string;
  attributes: Record<string, string | number>;
  children: (Shape | string)[];
  /** What a click does, and its words. */
  act?: { act: Act; words: string };
};

/** The width of a text in pixels, in a font of so many. */
export type Width = (text: string, size: number) => number;

export const FONT = 12;
const SMALL = 10;
const LINE = 16;
/** The height of the name of an open layer. */
const TITLE = 12;
/** Colours of the page, and those of a file by itself. */
const STYLE = `
text { font: ${FONT}px system-ui, sans-serif; fill: var(--ink, #1d2327); text-anchor: middle }
.quiet { fill: var(--muted, #5c666e); font-size: ${SMALL}px }
.type { paint-order: stroke; stroke: var(--card, #fff); stroke-width: 6px }
.begin { text-anchor: start }
rect { fill: var(--card, #fff); stroke: var(--muted, #5c666e) }
.ground { stroke: none }
.frame > rect { fill: none; stroke: var(--muted, #5c666e); stroke-opacity: .5; pointer-events: all }
.share { fill: var(--accent, #0b7a75); stroke: none }
path { fill: none; stroke: var(--muted, #5c666e) }
marker path { fill: var(--muted, #5c666e); stroke: none }`;

type Box = { lines: string[]; title: string; share: number; name: "layer" | "join" | "end"; act?: Act };
type Placed = { x: number; y: number; width: number; height: number };

function svg(
  tag: string, attributes: Record<string, string | number>, ...children: (Shape | string)[]
): Shape {
  return { tag, attributes, children };
}

/** The layers to open so that so many levels of layers are seen. */
export function openedTo(layers: Layer[], levels: number): string[] {
  const within = layers.filter(({ inside }) => inside.length && levels > 1);
  return within.flatMap(({ id, inside }) => [id, ...openedTo(inside, levels - 1)]);
}

/** The nodes that are seen: of each node, the closed layer around it or itself. */
function visible(drawing: Drawing, opened: ReadonlySet<string>): Map<string, string> {
  const seen = new Map(drawing.ends.map(({ id }) => [id, id]));
  const visit = (layer: Layer, closed: string | null) => {
    seen.set(layer.id, closed ?? layer.id);
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

/** A picture in which some layers are open. */
export function picture(
  drawing: Drawing, opened: ReadonlySet<string>, measure: Measure, width: Width,
): Shape {
  const seen = visible(drawing, opened);
  const whole = drawing.layers.reduce((sum, each) => sum + (each[measure] ?? 0) * each.times, 0);
  const graph = new Graph({ compound: true });
  graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 22, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  const boxes = new Map<string, Box>();
  const frames = new Map<string, Layer>();
  const add = (id: string, box: Box, around: string) => {
    boxes.set(id, box);
    const widest = Math.max(...box.lines.map((line, at) => width(line, at ? SMALL : FONT)));
    graph.setNode(id, { width: widest + 20, height: box.lines.length * LINE + 8 });
    if (around) graph.setParent(id, around);
  };
  const visit = (layer: Layer, around: string) => {
    if (opened.has(layer.id)) {
      frames.set(layer.id, layer);
      graph.setNode(layer.id, {});
      if (around) graph.setParent(layer.id, around);
      for (const each of layer.inside) visit(each, layer.id);
      return;
    }
    add(layer.id, boxed(layer, around, ((layer[measure] ?? 0) * layer.times) / Math.max(1, whole)), around);
  };
  for (const each of drawing.layers) visit(each, "");
  for (const { id, name, layer, location } of drawing.joins) {
    if (seen.get(id) !== id) continue;
    const title = `${name}\n${location}`;
    add(id, { lines: [name], title, share: 0, name: "join", act: { go: location } }, layer);
  }
  for (const { id, name, type } of drawing.ends) {
    add(id, { lines: [name, type], title: `${name}: ${type}`, share: 0, name: "end" }, "");
  }
  const types = new Map<string, string>();
  for (const { source, target, type } of drawing.edges) {
    const [from, to] = [seen.get(source), seen.get(target)];
    if (from === undefined || to === undefined || from === to || types.has(`${from}\n${to}`)) continue;
    types.set(`${from}\n${to}`, type);
    graph.setEdge(from, to, { width: width(type, SMALL) + 6, height: 12, labelpos: "c" });
  }
  layout(graph);
  const drawn: Shape[] = [];
  for (const [id, layer] of frames) drawn.push(frame(graph.node(id), layer, levels(layer, opened)));
  for (const { v, w } of graph.edges()) drawn.push(edge(graph.edge(v, w), types.get(`${v}\n${w}`) ?? ""));
  for (const [id, box] of boxes) drawn.push(node(graph.node(id), box));
  const { width: wide = 0, height: high = 0 } = graph.graph();
  const size = { width: Math.ceil(wide), height: Math.ceil(high) };
  const head = svg("marker", {
    id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto",
  }, svg("path", { d: "M0 0L8 4L0 8z" }));
  return svg(
    "svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": drawing.kind },
    svg("style", {}, STYLE), svg("defs", {}, head), svg("rect", { ...size, class: "ground" }), ...drawn,
  );
}

/** A closed layer. */
function boxed(layer: Layer, around: string, share: number): Box {
  const { kind, weights, flops, memory, location } = layer;
  const name = layer.name.startsWith(`${around}.`) ? layer.name.slice(around.length + 1) : layer.name;
  const sizes = [
    weights ? `${grouped(weights)} weights` : "", flops === null ? "" : `${short(flops)}FLOPs`,
    memory === null ? "" : `${short(memory)}B of memory`,
  ];
  const words = [kind, weights ? `${many(layer)}${grouped(weights)} weights` : many(layer).slice(0, -3)];
  const known = sizes.filter(Boolean).join(", ");
  return {
    lines: [name, words.filter(Boolean).join(" · ")].filter(Boolean), share, name: "layer",
    title: [[layer.name, kind].filter(Boolean).join(": "), known, location].filter(Boolean).join("\n"),
    act: layer.inside.length ? { toggle: layer.id } : { go: location },
  };
}

function many({ times }: Layer): string {
  return times > 1 ? `${times} × ` : "";
}

/** A number with commas, for engines without locales as well. */
export function grouped(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A number with three digits and the sign of a unit. */
export function short(number: number): string {
  for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]] as const) {
    if (number >= size) return `${+(number / size).toPrecision(3)} ${unit}`;
  }
  return `${number} `;
}

/** A group with a title, and what a click does. */
function group(name: string, title: string, act: Act | undefined, ...children: Shape[]): Shape {
  const made = svg("g", { class: name }, svg("title", {}, title), ...children);
  return act ? { ...made, act: { act, words: title } } : made;
}

function corner({ x, y, width, height }: Placed): Placed {
  return { x: x - width / 2, y: y - height / 2, width, height };
}

function node(placed: Placed, box: Box): Shape {
  const { x, y, height: high } = placed;
  const rx = box.name === "layer" ? 6 : high / 2;
  const outline = svg("rect", { ...corner(placed), rx });
  const tint = svg("rect", { ...corner(placed), rx, class: "share", opacity: (0.5 * box.share).toFixed(3) });
  const top = y - (box.lines.length * LINE) / 2;
  const texts = box.lines.map((line, at) => svg(
    "text", { x, y: top + at * LINE + 12, ...(at ? { class: "quiet" } : {}) }, line,
  ));
  return group(box.name, box.title, box.act, outline, ...(box.share ? [tint] : []), ...texts);
}

/** The levels of open layers from this one on. */
function levels(layer: Layer, opened: ReadonlySet<string>): number {
  return opened.has(layer.id) ? 1 + Math.max(0, ...layer.inside.map((each) => levels(each, opened))) : 0;
}

/** The frame of an open layer, with room for its name above that of the frames in it. */
function frame(placed: Placed, layer: Layer, level: number): Shape {
  const room = level * TITLE;
  const place = corner({ ...placed, y: placed.y - room / 2, height: placed.height + room });
  const words = svg(
    "text", { x: place.x + 8, y: place.y + 11, class: "quiet begin" }, `${many(layer)}${layer.name} ${layer.kind}`,
  );
  return group("frame", `Close ${layer.name}`, { toggle: layer.id }, svg("rect", { ...place, rx: 8 }), words);
}

function edge(found: { points?: { x: number; y: number }[]; x?: number; y?: number }, type: string): Shape {
  const points = found.points ?? [];
  const line = points.map(({ x, y }, at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const label = svg("text", { x: found.x ?? 0, y: (found.y ?? 0) + 3, class: "quiet type" }, type);
  return svg("g", { class: "edge" }, svg("path", { d: line, "marker-end": "url(#arrow)" }), label);
}

const escaped = (text: string) =>
  text.replace(/[&<>"]/g, (found) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[found]!);

/** The text of an SVG file; without a page a click does nothing. */
export function written(shape: Shape): string {
  const text = ({ tag, attributes, children }: Shape): string => {
    const given = Object.entries(attributes).map(([name, value]) => ` ${name}="${escaped(String(value))}"`);
    const inner = children.map((each) => (typeof each === "string" ? escaped(each) : text(each)));
    return `<${tag}${given.join("")}>${inner.join("")}</${tag}>`;
  };
  const whole = { ...shape, attributes: { xmlns: "http://www.w3.org/2000/svg", ...shape.attributes } };
  return `${text(whole)}\n`;
}
