/** Integers that pick something: those that are given, and those that a step computes. */

import type { Bound } from "./artefact.ts";
import { MeganeuraError } from "./problems.ts";
import type { PlannedTensor } from "./plan.ts";
import type { Tensor, Values } from "./tensor.ts";

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

/** The outputs of a step without its checks; throws `MeganeuraError` where one does not hold. */
export function checked(
  planned: readonly PlannedTensor[], outputs: ReadonlyMap<string, Tensor>,
): Map<string, Tensor> {
  const rest = new Map(outputs);
  for (const { name, check } of planned) {
    const largest = outputs.get(name)?.data[0];
    if (!check || largest === undefined) continue;
    rest.delete(name);
    if (largest < check.count) continue;
    const value = check.dtype === "i32" ? largest | 0 : largest;
    const wanted = value < 0 ? "at least 0" : `below ${check.count}`;
    const text = `a computed index is ${value}, and must be ${wanted}: ${check.location}`;
    throw new MeganeuraError("E0537", text);
  }
  return rest;
}
