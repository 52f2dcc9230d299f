/** A model as a drawing of a page: layers within layers, opened and closed by a click. */

import { download, el, fill } from "../page/dom.ts";
import { MEASURES, openedTo, picture, written } from "./picture.ts";
import type { Act, Drawing, Measure, Shape } from "./picture.ts";

const NAMESPACE = "http://www.w3.org/2000/svg";
const canvas = document.createElement("canvas").getContext("2d")!;

function width(text: string, size: number): number {
  canvas.font = `${size}px system-ui, sans-serif`;
  return canvas.measureText(text).width;
}

/** The element of a shape; what acts does so by a click or the Enter key. */
function element({ tag, attributes, children, act }: Shape, does: (act: Act) => void): SVGElement {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children.map((each) => (typeof each === "string" ? each : element(each, does))));
  if (act) {
    const id = "toggle" in act.act ? act.act.toggle : "";
    const told = { role: "button", tabindex: "0", "aria-label": act.words, "data-id": id };
    for (const [name, value] of Object.entries(told)) made.setAttribute(name, value);
    made.addEventListener("click", () => does(act.act));
    made.addEventListener("keydown", (event) => {
      if ((event as KeyboardEvent).key === "Enter") does(act.act);
    });
  }
  return made;
}

/**
 * Draws a model, with layers opened to so many levels; `go` is called with the location of an
 * innermost layer.
 */
export function draw(
  parent: HTMLElement, drawing: Drawing, go: (location: string) => void,
  { depth = 1, measure = "weights" as Measure } = {},
): void {
  const opened = new Set(openedTo(drawing.layers, depth));
  const every = openedTo(drawing.layers, Infinity);
  const place = el("div", { className: "picture" });
  const known = (Object.keys(MEASURES) as Measure[]).filter(
    (each) => drawing.layers.some((layer) => layer[each] !== null),
  );
  const choice = el("select", { ariaLabel: "Colour by" }, ...known.map(
    (each) => el("option", { value: each, selected: each === measure }, MEASURES[each]),
  ));
  choice.onchange = () => {
    measure = choice.value as Measure;
    again();
  };
  const all = el("button", { type: "button" });
  all.onclick = () => {
    if (opened.size === every.length) opened.clear();
    else every.forEach((each) => opened.add(each));
    again();
  };
  const save = el("button", { type: "button" }, "Save as SVG");
  save.onclick = () => {
    const text = written(picture(drawing, opened, measure, width));
    download(`${drawing.kind}.svg`, new TextEncoder().encode(text));
  };
  function again(): void {
    all.textContent = opened.size === every.length ? "Close all" : "Open all";
    fill(place, element(picture(drawing, opened, measure, width), (act) => {
      if ("go" in act) return go(act.go);
      if (!opened.delete(act.toggle)) opened.add(act.toggle);
      again();
      place.querySelector<SVGElement>(`[data-id="${CSS.escape(act.toggle)}"]`)?.focus();
    }));
  }
  const colour = el("label", {}, "Colour by ", choice);
  fill(parent, el("div", { className: "row" }, known.length > 1 && colour, every.length > 0 && all, save), place);
  again();
}
