/** Integers that pick something: those that are given, and those that a step computes. */

import type { Bound } from "./artefact.ts";
import { MeganeuraError } from "./problems.ts";
import type { Tensor, Values } from "./tensor.ts";

const NAME = /^index (\d+), (i32|u32) below (\d+): (.*)$/s;

/** Throw `MeganeuraError` at the first value that is out of range and stands for nothing else. */
export function checkIndices(name: string, data: Values, bound: Bound | undefined): void {
  if (!bound) return;
  const at = data.findIndex(
    (value) => (value < 0 || value >= bound.count) && !bound.exempt.includes(value),
  );
  if (at < 0) return;
  const wanted = data[at]! < 0 ? "at least 0" : `below ${bound.count}`;
  const text = `\`${name}\` holds ${data[at]} at ${at}, and must be ${wanted}`;
  throw new MeganeuraError("E0535", text);
}

/** Whether an output is one that checks an index. */
export function isCheck(name: string): boolean {
  return NAME.test(name);
}

/** The outputs of a step without its checks; throws `MeganeuraError` where one does not hold. */
export function checked(outputs: ReadonlyMap<string, Tensor>): Map<string, Tensor> {
  const rest = new Map<string, Tensor>();
  for (const [name, tensor] of outputs) {
    const found = NAME.exec(name);
    if (!found) {
      rest.set(name, tensor);
      continue;
    }
    const [, , dtype, count, place] = found;
    const largest = tensor.data[0]!;
    if (largest < Number(count)) continue;
    const value = dtype === "i32" ? largest | 0 : largest;
    const wanted = value < 0 ? "at least 0" : `below ${count}`;
    const text = `a computed index is ${value}, and must be ${wanted}: ${place}`;
    throw new MeganeuraError("E0537", text);
  }
  return rest;
}
