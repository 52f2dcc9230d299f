/** Examples for a training step: tensors of files, matched with its inputs. */

import type { Artefact, DataInput } from "./artefact.ts";
import { checkIndices } from "./indices.ts";
import type { PlannedTensor } from "./plan.ts";
import { MeganeuraError } from "./problems.ts";
import type { StoredTensor, Values } from "./tensor.ts";
import { elements, isFloat, shown, storedValues } from "./tensor.ts";

/** One input, and the numbers that feed it. */
interface Feed {
  readonly input: DataInput;
  readonly values: ArrayLike<number>;
  /** Numbers of one example; of all that is fed where it is fed whole. */
  readonly size: number;
  readonly examples: number;
  readonly make: (length: number) => Values;
}

/** Examples to train on, or those held out. */
export class Split {
  readonly examples: number;
  #feeds: readonly Feed[];

  constructor(feeds: readonly Feed[]) {
    this.#feeds = feeds;
    this.examples = feeds.find(({ input }) => input.rows)?.examples ?? 1;
  }

  /** What to feed for these examples. */
  take(examples: ArrayLike<number>): Map<string, Values> {
    return new Map(this.#feeds.map(({ input, values, size, make }) => {
      if (!input.rows) return [input.name, make(size).map((_, i) => values[i]!) as Values];
      const batch = make(size * examples.length);
      for (let i = 0; i < examples.length; i++) {
        const start = examples[i]! * size;
        for (let j = 0; j < size; j++) batch[i * size + j] = values[start + j]!;
      }
      return [input.name, batch];
    }));
  }
}

/** The examples that a training step is fed, and those that are held out, if there are any. */
export interface Dataset {
  readonly train: Split;
  readonly test: Split | null;
}

/** Match tensors with the inputs of a training step; throws `MeganeuraError` where they do not. */
export function matchData(
  artefact: Artefact, tensors: ReadonlyMap<string, StoredTensor>,
): Dataset {
  const inputs = artefact.training!.inputs;
  const has = (prefix: string) => inputs.some(({ tensor }) => tensors.has(prefix + tensor));
  const split = (prefix: string) => matched(artefact, tensors, prefix);
  if (!has("train.")) return { train: split(""), test: null };
  return { train: split("train."), test: has("test.") ? split("test.") : null };
}

function matched(
  artefact: Artefact, tensors: ReadonlyMap<string, StoredTensor>, prefix: string,
): Split {
  const { inputs, batch } = artefact.training!;
  const feeds = inputs.map((input) => {
    const shared = input.rows === 0
      && !["train.", "test."].every((each) => tensors.has(each + input.tensor));
    const name = shared ? input.tensor : prefix + input.tensor;
    const tensor = tensors.get(name);
    if (!tensor) {
      const there = [...tensors.keys()].join(", ") || "nothing";
      throw new MeganeuraError("E0522", `the data has no tensor \`${name}\`; it has ${there}`);
    }
    const wanted = artefact.plan.inputs.find((each) => each.name === input.name)!;
    return feedOf(artefact, input, wanted, name, tensor);
  });
  const counts = new Map(feeds.filter((x) => x.input.rows).map((x) => [x.examples, x.input.name]));
  if (counts.size > 1) {
    const told = [...counts].map(([count, name]) => `${count} of \`${name}\``).join(", ");
    throw new MeganeuraError("E0525", `the data has unequal numbers of examples: ${told}`);
  }
  const split = new Split(feeds);
  if (prefix !== "test." && split.examples < batch) {
    const text = `there are ${split.examples} examples, and a batch takes ${batch}`;
    throw new MeganeuraError("E0526", text);
  }
  if (prefix === "test." && !split.examples) {
    throw new MeganeuraError("E0556", "no examples are held out");
  }
  return split;
}

function feedOf(
  artefact: Artefact, input: DataInput, wanted: PlannedTensor, name: string, tensor: StoredTensor,
): Feed {
  const given = shown(tensor.stored, tensor.shape);
  const integers = wanted.dtype === "i32" || wanted.dtype === "u32" || wanted.dtype === "bool";
  if (isFloat(tensor.stored) && integers) {
    const text = `\`${name}\` is ${given}, and \`${input.name}\` takes ${wanted.dtype}`;
    throw new MeganeuraError("E0524", text);
  }
  const [rows = 1, ...rest] = tensor.shape;
  const same = input.rows
    ? tensor.shape.length > 0 && String(rest) === String(wanted.shape.slice(1))
      && rows % input.rows === 0
    : String(tensor.shape) === String(wanted.shape);
  if (!same) {
    const form = input.rows ? ["examples", ...wanted.shape.slice(1)] : wanted.shape;
    const text = `\`${name}\` is ${given}, and must be ${wanted.dtype}[${form.join(", ")}]`;
    throw new MeganeuraError("E0523", text);
  }
  const values = numbers(name, tensor, wanted.dtype);
  const bound = artefact.bounds.get(input.name);
  if (bound) checkIndices(name, Int32Array.from(values), bound);
  const size = input.rows ? input.rows * elements(rest) : elements(tensor.shape);
  const examples = input.rows ? rows / input.rows : 1;
  const make = (length: number): Values => {
    if (wanted.dtype === "i32") return new Int32Array(length);
    return integers ? new Uint32Array(length) : new Float32Array(length);
  };
  return { input, values, size, examples, make };
}

/** The numbers of a tensor, each one that the type of a graph can hold. */
function numbers(name: string, tensor: StoredTensor, dtype: string): ArrayLike<number> {
  const values = storedValues(tensor);
  const wide = values instanceof BigInt64Array || values instanceof BigUint64Array;
  const found = wide ? Float64Array.from(values, Number) : (values as Float32Array);
  const [least, most] = {
    i32: [-(2 ** 31), 2 ** 31 - 1], u32: [0, 2 ** 32 - 1], bool: [0, 1],
  }[dtype] ?? [-3.4028235677973362e38, 3.4028235677973362e38];
  const at = found.findIndex((value) => !(value >= least! && value <= most!));
  if (at < 0) return found;
  const [code, text] = Number.isFinite(found[at])
    ? ["E0532", `which is no ${dtype}`] : ["E0531", "which is not finite"];
  throw new MeganeuraError(code!, `\`${name}\` holds ${found[at]} at ${at}, ${text}`);
}
