/** The page that `meganeura graph` writes: the drawing of a model beside the program. */

import { el, fill } from "../page/dom.ts";
import { draw } from "./drawing.ts";
import { grouped, short } from "./picture.ts";
import type { Drawing, Measure } from "./picture.ts";

/** As `meganeura/drawing/write.py` gives it. */
type Form = {
  drawing: Drawing;
  depth: number | null;
  measure: Measure;
  totals: { weights: number; flops: number | null; memory: number | null; sizes: string };
  /** The texts of the programs that the drawing is of, by their names. */
  sources: Record<string, string>;
};

const form = JSON.parse(document.getElementById("meganeura-form")!.textContent!) as Form;
const { drawing, totals } = form;
const at = (id: string) => document.getElementById(id)!;

document.title = drawing.kind;
document.querySelector("h1")!.textContent = drawing.kind;
const chips = [
  `${grouped(totals.weights)} weights`, totals.flops !== null && `${short(totals.flops)}FLOPs`,
  totals.memory !== null && `${short(totals.memory)}B of memory`, totals.sizes,
];
fill(at("chips"), ...chips.map((each) => each && el("span", {}, each)));

const title = at("file");
const program = at("program");
let shown = "";

/** Shows a place in a program, `net.mgn:7`. */
function go(location: string, scroll = true): void {
  const [, name = "", line = ""] = /^(.*):(\d+)$/.exec(location) ?? [];
  const text = form.sources[name];
  title.textContent = location || "The program";
  if (text === undefined) {
    shown = "";
    fill(program, "The text of this place is not in the page.");
    return;
  }
  if (shown !== name) {
    shown = name;
    const lines = text.replace(/\n$/, "").split("\n");
    fill(program, ...lines.map((each) => el("li", {}, el("code", {}, each || " "))));
  }
  program.querySelector(".here")?.classList.remove("here");
  const here = program.children[Number(line) - 1];
  here?.classList.add("here");
  if (!scroll || !here) return;
  if (getComputedStyle(at("source")).position !== "sticky") at("source").scrollIntoView({ block: "nearest" });
  here.scrollIntoView({ block: "center" });
}

const first = Object.keys(form.sources)[0];
if (first === undefined) at("source").remove();
else go(`${first}:0`, false);
if (first !== undefined) title.textContent = first;
draw(at("drawing"), drawing, go, { depth: form.depth ?? 1, measure: form.measure });
document.body.dataset.state = "ready";
