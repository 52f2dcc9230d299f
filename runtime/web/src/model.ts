/** A compiled model for inference. */

import type { Artefact } from "./artefact.ts";
import { parseArtefact } from "./artefact.ts";
import type { Device, Gpu } from "./gpu.ts";
import { findDevice, lacking, openGpu } from "./gpu.ts";
import { checked, checkIndices } from "./indices.ts";
import type { PlannedTensor } from "./plan.ts";
import { MeganeuraError, notAnArtefact } from "./problems.ts";
import { Session } from "./session.ts";
import type { Progress } from "./session.ts";
import type { DType, StoredTensor, Tensor, Values } from "./tensor.ts";
import { elements, shown } from "./tensor.ts";

/** Where a compiled model is: an address, a file, or its bytes. */
export type Source = string | URL | Blob | ArrayBuffer | Uint8Array;

/** What an input may be given as: numbers in row-major order. */
export type Given = ArrayLike<number> | { readonly data: ArrayLike<number> };

/** An input or an output. */
export interface Signature {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Of an input whose integers pick something: how many things there are. */
  readonly count?: number;
}

export interface OpenOptions {
  /** WebGPU; that of the browser where none is given. */
  readonly gpu?: GPU;
  /** What `findDevice` gave, which is this model's from now on; one is asked for otherwise. */
  readonly device?: Promise<Device>;
  readonly progress?: Progress;
}

/** The bytes of a source; throws `MeganeuraError` where there are none. */
export async function bytesOf(source: Source): Promise<Uint8Array> {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (source instanceof Blob) return new Uint8Array(await source.arrayBuffer());
  let answer: Response;
  try {
    answer = await fetch(source);
  } catch (error) {
    throw new MeganeuraError("E0533", `${source} cannot be read: ${(error as Error).message}`);
  }
  if (!answer.ok) {
    throw new MeganeuraError("E0533", `${source} is not there: ${answer.status} ${answer.statusText}`);
  }
  return new Uint8Array(await answer.arrayBuffer());
}

/** The compiled model of a source, or one that was read already; throws `MeganeuraError`. */
export async function artefactOf(source: Source | Artefact): Promise<Artefact> {
  if (typeof source === "object" && "plan" in source) return source;
  return parseArtefact(await bytesOf(source));
}

/** What a plan takes but for what the loop feeds, or gives but for checks. */
export function signatures(
  artefact: Artefact, tensors: readonly PlannedTensor[],
): readonly Signature[] {
  return tensors
    .filter(({ check }) => !check)
    .map(({ name, dtype, shape }) => {
      const count = artefact.bounds.get(name)?.count;
      return count === undefined ? { name, dtype, shape } : { name, dtype, shape, count };
    });
}

/** What a caller or data gives; the loop feeds the other inputs of a training step. */
export function inputsOf(artefact: Artefact): readonly Signature[] {
  const fed = artefact.training && new Set(artefact.training.inputs.map(({ name }) => name));
  return signatures(artefact, artefact.plan.inputs).filter(({ name }) => fed?.has(name) ?? true);
}

/** A model with its weights on a device. */
export class Model {
  readonly artefact: Artefact;
  readonly gpu: Gpu;
  #session: Session;

  private constructor(artefact: Artefact, gpu: Gpu, session: Session) {
    this.artefact = artefact;
    this.gpu = gpu;
    this.#session = session;
  }

  /** Read, check and prepare a compiled model; throws `MeganeuraError`. */
  static async open(source: Source | Artefact, options: OpenOptions = {}): Promise<Model> {
    const device = options.device ?? findDevice(options.gpu);
    const artefact = await artefactOf(source);
    if (artefact.training) throw notAnArtefact("it is a training step, which `Training` runs");
    if (artefact.generation) throw notAnArtefact("it writes texts, which `Generator` does");
    const { matrices } = artefact;
    const { adapter } = await device;
    const halves = matrices !== null && lacking([matrices], adapter).length === 0;
    const plan = halves ? matrices : artefact.plan;
    const gpu = await openGpu([plan], device);
    const given = { progress: options.progress, values: onDevice(artefact.tensors) };
    const session = await Session.open(plan, gpu, given);
    return new Model(artefact, gpu, session);
  }

  get name(): string {
    return this.artefact.model;
  }

  get inputs(): readonly Signature[] {
    return inputsOf(this.artefact);
  }

  get outputs(): readonly Signature[] {
    return signatures(this.artefact, this.artefact.plan.outputs);
  }

  /** The floats of its products: f16, where it was built for matrix units and the device has them. */
  get precision(): "f16" | "f32" {
    return this.#session.plan === this.artefact.plan ? "f32" : "f16";
  }

  /** Bytes of the device's memory that it takes. */
  get bytes(): number {
    return this.#session.bytes;
  }

  /** The outputs for one array for each of `inputs`, by name; throws `MeganeuraError`. */
  async run(inputs: Readonly<Record<string, Given>>): Promise<Record<string, Tensor>> {
    const feeds = new Map<string, Values>();
    const unknown = Object.keys(inputs).filter((name) => !this.inputs.some((x) => x.name === name));
    const missing = this.inputs.filter(({ name }) => !(name in inputs)).map(({ name }) => name);
    if (unknown.length || missing.length) {
      const wanted = this.inputs.map(({ name, dtype, shape }) => `${name}: ${shown(dtype, shape)}`);
      throw new MeganeuraError("E0560", `the model takes ${wanted.join(", ")}`);
    }
    for (const input of this.inputs) {
      const data = asValues(input, inputs[input.name]!);
      checkIndices(input.name, data, this.artefact.bounds.get(input.name));
      feeds.set(input.name, data);
    }
    const { outputs } = this.#session.plan;
    return Object.fromEntries(checked(outputs, await this.#session.step(feeds)));
  }

  /** Give the memory back. */
  close(): void {
    this.#session.close();
    this.gpu.device.destroy();
  }
}

/** Tensors of a file as the bytes that the device holds: a bool takes a word there. */
export function onDevice(tensors: ReadonlyMap<string, StoredTensor>): Map<string, Uint8Array> {
  return new Map([...tensors].map(([name, { stored, bytes }]) =>
    [name, stored === "bool" ? new Uint8Array(Uint32Array.from(bytes).buffer) : bytes]));
}

/** Numbers as the values of an input; throws `MeganeuraError` where they do not fit. */
export function asValues(input: Signature, given: Given): Values {
  const { name, dtype, shape } = input;
  const numbers = "data" in given ? given.data : given;
  if (numbers.length !== elements(shape)) {
    const text = `\`${name}\` is ${shown(dtype, shape)}, and not ${numbers.length} numbers`;
    throw new MeganeuraError("E0561", text);
  }
  const values = dtype === "i32"
    ? Int32Array.from(numbers)
    : dtype === "f32" || dtype === "f16" ? Float32Array.from(numbers) : Uint32Array.from(numbers);
  if (dtype === "f32" || dtype === "f16") return values;
  const most = dtype === "bool" ? 1 : Infinity;
  const at = values.findIndex((value, i) => value !== numbers[i] || value > most);
  if (at >= 0) {
    throw new MeganeuraError("E0532", `\`${name}\` holds ${numbers[at]} at ${at}, which is no ${dtype}`);
  }
  return values;
}
