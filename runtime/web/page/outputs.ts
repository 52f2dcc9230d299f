/** What an output is shown as: classes, the next byte of a text, a picture, or numbers. */

import type { Tensor } from "../src/index.ts";
import { serializeTensors } from "../src/index.ts";
import { toStored } from "../src/tensor.ts";
import { brief, download, el } from "./dom.ts";
import { show } from "./inputs.ts";

const TOP = 10;
const MOST_CLASSES = 200_000;
const SHOWN = 12;

/**
 * An output as an element; `position` is that of the last byte of a text that was fed. The only
 * output of a model needs no name.
 */
export function outputView(
  name: string, tensor: Tensor, labels: readonly string[], position: number | null, isOnly: boolean,
): HTMLElement {
  const { shape, dtype, data } = tensor;
  const float = dtype === "f32" || dtype === "f16";
  const [classes = 0] = shape.slice(-1);
  const lead = shape.slice(0, -1);
  const isRow = lead.every((size) => size === 1) && classes > 1 && classes <= MOST_CLASSES;
  const save = () => {
    const stored = { stored: dtype, shape, bytes: toStored(dtype, dtype, data) };
    download(`${name}.safetensors`, serializeTensors(new Map([[name, stored]]), new Map()));
  };
  const button = el("button", { type: "button", className: "small", onclick: save }, "Save");
  button.title = "all numbers of it, as safetensors";
  const section = (...children: HTMLElement[]) =>
    el("section", {}, !isOnly && el("h3", {}, name), ...children, button);
  if (float && isRow) return section(likeliest(data, labels));
  if (float && position !== null && shape.length === 3 && shape[0] === 1) {
    const row = data.subarray(position * classes, (position + 1) * classes);
    const words = labels.length ? labels : Array.from({ length: classes }, (_, i) => byteName(i));
    return section(el("p", { className: "note" }, "what comes next"), likeliest(row, words));
  }
  const [n, colors = 0, height = 0, width = 0] = shape;
  if (float && shape.length === 4 && n === 1 && [1, 3].includes(colors) && Math.min(height, width) > 3) {
    const canvas = el("canvas", { className: "seen" });
    show(canvas, data, { colors, crop: { height, width } });
    return section(canvas, numbersView(tensor));
  }
  return section(numbersView(tensor));
}

/** The likeliest classes, with the share each has if the numbers are logits. */
function likeliest(logits: ArrayLike<number>, labels: readonly string[]): HTMLElement {
  const numbers = Array.from(logits);
  const most = numbers.reduce((one, other) => Math.max(one, other), -Infinity);
  const total = numbers.reduce((sum, value) => sum + Math.exp(value - most), 0);
  const order = numbers.map((_, i) => i).sort((one, other) => numbers[other]! - numbers[one]!);
  const list = el("ol", { className: "classes" });
  for (const place of order.slice(0, TOP)) {
    const share = Math.exp(numbers[place]! - most) / total;
    const label = labels[place] ?? String(place);
    const bar = el("span", { className: "bar" });
    bar.style.width = `${100 * share}%`;
    list.append(el(
      "li", { data: { class: String(place) }, title: `${brief(numbers[place]!)}` },
      el("b", {}, label), el("span", { className: "track" }, bar),
      el("span", { className: "share" }, `${(100 * share).toFixed(1)} %`),
    ));
  }
  return list;
}

function byteName(byte: number): string {
  if (byte === 32) return "space";
  if (byte === 10) return "line feed";
  return byte > 32 && byte < 127 ? String.fromCharCode(byte) : `byte ${byte}`;
}

function numbersView({ data }: Tensor): HTMLElement {
  let [least, most, sum] = [Infinity, -Infinity, 0];
  for (const value of data) {
    [least, most, sum] = [Math.min(least, value), Math.max(most, value), sum + value];
  }
  const first = Array.from(data.subarray(0, SHOWN), brief).join("  ");
  const rest = data.length > SHOWN ? " ..." : "";
  return el(
    "div", {},
    el("p", {}, `from ${brief(least)} to ${brief(most)}, mean ${brief(sum / data.length)}`),
    el("pre", {}, first + rest),
  );
}
