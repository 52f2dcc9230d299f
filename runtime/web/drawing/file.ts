/** The drawing as a file, for an engine without a browser: `drawn` is all that it is asked. */

import { openedTo, picture, written } from "./picture.ts";
import type { Drawing, Measure } from "./picture.ts";

/** Widths of letters of sans-serif fonts, in parts of their size, rather too wide than too narrow. */
function width(text: string, size: number): number {
  const parts = [...text].map((letter) => {
    if (/[ijlI.,:;|'!()[\]f t]/.test(letter)) return 0.4;
    if (/[mwMW@%]/.test(letter)) return 0.98;
    if (/[A-Z]/.test(letter)) return 0.72;
    return letter < "\u1100" ? 0.63 : 1;
  });
  return size * parts.reduce((sum, each) => sum + each, 0);
}

/** The text of an SVG file of a drawing in JSON, with layers opened to `depth` levels or all. */
function drawn(json: string, depth: number | null, measure: Measure): string {
  const drawing = JSON.parse(json) as Drawing;
  return written(picture(drawing, new Set(openedTo(drawing.layers, depth ?? Infinity)), measure, width));
}

/** Engines without a browser have none; dagre copies numbers and records of them. */
function structuredClone<T>(value: T): T {
  if (Array.isArray(value)) return value.map(structuredClone) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, structuredClone(each)])) as T;
}

Object.assign(globalThis, { drawn, structuredClone });
