/** Training as the reference does it: the same order of examples, random words and rates. */

import type { Artefact, TrainingForm } from "./artefact.ts";
import type { Dataset, Split } from "./dataset.ts";
import { matchData } from "./dataset.ts";
import type { Gpu } from "./gpu.ts";
import { findDevice, openGpu } from "./gpu.ts";
import { checked } from "./indices.ts";
import type { OpenOptions, Signature, Source } from "./model.ts";
import { artefactOf, inputsOf, onDevice } from "./model.ts";
import { orderOfEpoch } from "./philox.ts";
import type { Plan } from "./plan.ts";
import { MeganeuraError, notAnArtefact } from "./problems.ts";
import { parseTensors, serializeTensors } from "./safetensors.ts";
import { Session } from "./session.ts";
import type { StoredTensor, Tensor, Values } from "./tensor.ts";
import { elements, fromDevice, shown, storedValues, toDevice, toStored } from "./tensor.ts";

/** The entry of the metadata that makes a safetensors file a checkpoint of a page. */
const CHECKPOINT = "meganeura.page";
/** Steps that may be handed to the device before the first of them is done. */
const AHEAD = 3;

/** What a step gave; it is counted from 1. */
export interface Step {
  readonly step: number;
  /** The number of its epoch, from 0. */
  readonly epoch: number;
  readonly rate: number;
  readonly loss: number;
  readonly metrics: Readonly<Record<string, number>>;
}

/** What was measured on the held-out examples after a step. */
export interface HeldOut {
  readonly step: number;
  readonly loss: number;
  readonly metrics: Readonly<Record<string, number>>;
}

export interface RunOptions {
  /** Steps to make at most; all that are left where nothing is said. */
  readonly steps?: number;
  /** Whether to stop after the step at hand. */
  readonly signal?: AbortSignal;
  readonly onStep?: (step: Step) => void;
  readonly onHeldOut?: (heldOut: HeldOut) => void;
}

type Kept = Map<string, Uint8Array>;

/** A training run on a device. */
export class Training {
  readonly artefact: Artefact;
  readonly form: TrainingForm;
  gpu: Gpu;
  #options: OpenOptions;
  #session: Session;
  #evaluations = new Map<number, Session>();
  #data: Dataset | null = null;
  #order: { epoch: number; numbers: Uint32Array } | null = null;
  #step = 0;
  #saved: { step: number; kept: Kept };

  private constructor(
    artefact: Artefact, gpu: Gpu, session: Session, options: OpenOptions, kept: Kept,
  ) {
    this.artefact = artefact;
    this.form = artefact.training!;
    this.gpu = gpu;
    this.#options = options;
    this.#session = session;
    this.#saved = { step: 0, kept };
  }

  /** Read, check and prepare a training step; throws `MeganeuraError`. */
  static async open(source: Source | Artefact, options: OpenOptions = {}): Promise<Training> {
    const device = options.device ?? findDevice(options.gpu);
    const artefact = await artefactOf(source);
    if (!artefact.training) throw notAnArtefact("it is a model, which `Model` runs");
    const gpu = await openGpu(plansOf(artefact), device);
    const values = onDevice(artefact.tensors);
    const session = await Session.open(artefact.plan, gpu, { progress: options.progress, values });
    return new Training(artefact, gpu, session, options, values);
  }

  get name(): string {
    return this.form.name;
  }

  /** The inputs that the data feeds, for a batch. */
  get inputs(): readonly Signature[] {
    return inputsOf(this.artefact);
  }

  /** Bytes of the device's memory that a step takes. */
  get bytes(): number {
    return this.#session.bytes;
  }

  /** Steps made since the start. */
  get step(): number {
    return this.#step;
  }

  get data(): Dataset | null {
    return this.#data;
  }

  get stepsPerEpoch(): number {
    return this.#data ? Math.floor(this.#data.train.examples / this.form.batch) : 0;
  }

  /** Steps of the whole run. */
  get steps(): number {
    return this.stepsPerEpoch * this.form.epochs;
  }

  /** Train on these tensors; throws `MeganeuraError` where they do not fit. */
  useData(tensors: ReadonlyMap<string, StoredTensor>): Dataset {
    const found = matchData(this.artefact, tensors);
    const { rates, batch, epochs } = this.form;
    const steps = Math.floor(found.train.examples / batch) * epochs;
    if (rates.length > 1 && rates.length !== steps) {
      const text = `this data makes ${steps} steps, and the learning rate was laid out for `
        + `${rates.length}`;
      const cure = "build the page with this data, or with a steady learning rate";
      throw new MeganeuraError("E0557", text, cure);
    }
    this.#data = found;
    this.#order = null;
    return found;
  }

  /**
   * Make steps until the run is at its end, or as far as `options` say. Throws `MeganeuraError`
   * where a loss is not finite, and goes back to what was saved last; where the device is lost,
   * `recover` does.
   */
  async run(options: RunOptions = {}): Promise<void> {
    const { steps = Infinity, signal, onStep, onHeldOut } = options;
    const last = Math.min(this.#step + steps, this.steps);
    const running: Promise<Step>[] = [];
    const settle = async (behind: number) => {
      while (running.length > behind) onStep?.(finite(await running.shift()!));
    };
    try {
      while (this.#step < last && !signal?.aborted) {
        running.push(this.#next());
        running.at(-1)!.catch(() => {});
        await settle(AHEAD - 1);
        if (this.#step % this.stepsPerEpoch) continue;
        await settle(0);
        await this.save();
        const heldOut = await this.evaluate();
        if (heldOut) onHeldOut?.(heldOut);
      }
      await settle(0);
      await this.save();
    } catch (error) {
      this.#step = this.#saved.step;
      if (!this.#session.isLost) this.#session.write(this.#saved.kept);
      throw error;
    }
  }

  /** One step on the device; its number decides all that it is fed. */
  #next(): Promise<Step> {
    const { batch, seed, rates } = this.form;
    const [number, perEpoch] = [this.#step++, this.stepsPerEpoch];
    const epoch = Math.floor(number / perEpoch);
    const position = number % perEpoch;
    const examples = this.#orderOf(epoch).subarray(position * batch, (position + 1) * batch);
    const rate = rates[rates.length > 1 ? number : 0]!;
    const feeds = withClock(this.#data!.train.take(examples), seed, number, rate);
    return this.#session.step(feeds).then((outputs) => {
      const { loss, ...metrics } = scalars(checked(this.#session.plan.outputs, outputs));
      return { step: number + 1, epoch, rate, loss: loss!, metrics };
    });
  }

  #orderOf(epoch: number): Uint32Array {
    if (this.#order?.epoch !== epoch) {
      const { seed, shuffle } = this.form;
      const examples = this.#data!.train.examples;
      this.#order = { epoch, numbers: orderOfEpoch(seed, epoch, examples, shuffle) };
    }
    return this.#order.numbers;
  }

  /** The mean loss and metrics of the held-out examples; `null` where there are none. */
  async evaluate(): Promise<HeldOut | null> {
    const test = this.#data?.test;
    if (!test || !this.form.evaluations.length) return null;
    const totals: Record<string, number> = {};
    let at = 0;
    for (const { examples, plan } of this.form.evaluations) {
      if (test.examples - at < examples) continue;
      const session = await this.#evaluation(examples, plan);
      for (; test.examples - at >= examples; at += examples) {
        const feeds = withClock(test.take(numbersFrom(at, examples)), this.form.seed, 0, 0);
        const found = scalars(checked(plan.outputs, await session.step(feeds)));
        for (const [name, value] of Object.entries(found)) {
          totals[name] = (totals[name] ?? 0) + value * examples;
        }
      }
    }
    const means = Object.entries(totals).map(([name, total]) => [name, total / test.examples]);
    const { loss, ...metrics } = Object.fromEntries(means) as Record<string, number>;
    return { step: this.#step, loss: loss!, metrics };
  }

  async #evaluation(examples: number, plan: Plan): Promise<Session> {
    let session = this.#evaluations.get(examples);
    if (!session) {
      session = await Session.open(plan, this.gpu);
      this.#evaluations.set(examples, session);
    }
    session.adopt(this.#session);
    return session;
  }

  /** Keep what there is on the host, where no lost device can take it. */
  async save(): Promise<void> {
    const kept = await this.#session.kept();
    for (const { name, dtype, shape } of this.artefact.plan.parameters) {
      if (dtype !== "f32" && dtype !== "f16") continue;
      const values = fromDevice(dtype, kept.get(name)!, elements(shape));
      if (values.every(Number.isFinite)) continue;
      const text = `\`${name}\` is not finite after step ${this.#step}`;
      throw new MeganeuraError("E0550", text, "a smaller learning rate may help");
    }
    this.#saved = { step: this.#step, kept };
  }

  /** Open the device again, and go back to what was saved last. */
  async recover(): Promise<void> {
    this.close();
    this.gpu = await openGpu(plansOf(this.artefact), findDevice(this.#options.gpu));
    const given = { progress: this.#options.progress, values: this.#saved.kept };
    this.#session = await Session.open(this.artefact.plan, this.gpu, given);
    this.#step = this.#saved.step;
  }

  /** The weights as safetensors, as they were saved last: names and types of the program. */
  weights(): Uint8Array<ArrayBuffer> {
    const stored = this.form.parameters.map(({ name, stored }) => {
      const { dtype, shape } = this.#planned(name);
      const values = fromDevice(dtype, this.#saved.kept.get(name)!, elements(shape));
      return [name, { stored, shape, bytes: toStored(stored, dtype, values) }] as const;
    });
    const metadata = { format: "pt", train: this.form.name, step: String(this.#saved.step) };
    return serializeTensors(new Map(stored), new Map(Object.entries(metadata)));
  }

  /** All that a run needs to go on, as safetensors: weights, moments, and the step. */
  checkpoint(): Uint8Array<ArrayBuffer> {
    const stored = this.artefact.plan.parameters.map(({ name, dtype, shape }) => {
      const values = fromDevice(dtype, this.#saved.kept.get(name)!, elements(shape));
      return [name, { stored: dtype, shape, bytes: toStored(dtype, dtype, values) }] as const;
    });
    const progress = JSON.stringify({ program: this.form.program, step: this.#saved.step });
    return serializeTensors(new Map(stored), new Map([[CHECKPOINT, progress]]));
  }

  /** Go on with a checkpoint, or begin with weights; throws `MeganeuraError` for other tensors. */
  load(bytes: Uint8Array): void {
    const { tensors, metadata } = parseTensors(bytes);
    const progress = metadata.get(CHECKPOINT);
    const wanted = progress === undefined
      ? this.form.parameters.map(({ name }) => name)
      : this.artefact.plan.parameters.map(({ name }) => name);
    let step = 0;
    if (progress !== undefined) {
      const found = parsedProgress(progress);
      if (found.program !== this.form.program) {
        throw new MeganeuraError("E0553", "this checkpoint is of another program");
      }
      step = found.step;
    }
    const kept = onDevice(this.artefact.tensors);
    for (const { name, shape, dtype } of this.artefact.plan.parameters) {
      if (!wanted.includes(name)) continue;
      const tensor = tensors.get(name);
      if (!tensor || String(tensor.shape) !== String(shape)) {
        const given = tensor ? shown(tensor.stored, tensor.shape) : "missing";
        const text = `\`${name}\` is ${given}, and must be ${shown(dtype, shape)}`;
        throw new MeganeuraError("E0540", text);
      }
      const values = Array.from(storedValues(tensor), Number);
      kept.set(name, toDevice(dtype, valuesOf(dtype, values)));
    }
    const other = [...tensors.keys()].find((name) => !wanted.includes(name));
    if (other !== undefined) {
      throw new MeganeuraError("E0540", `the program has no parameter \`${other}\``);
    }
    this.#saved = { step, kept };
    this.#session.write(kept);
    this.#step = step;
  }

  /** Give the memory back. */
  close(): void {
    this.#session.close();
    for (const session of this.#evaluations.values()) session.close();
    this.#evaluations.clear();
    this.gpu.device.destroy();
  }

  #planned(name: string) {
    return this.artefact.plan.parameters.find((tensor) => tensor.name === name)!;
  }
}

function plansOf(artefact: Artefact): Plan[] {
  return [artefact.plan, ...artefact.training!.evaluations.map(({ plan }) => plan)];
}

function withClock(
  data: Map<string, Values>, seed: number, step: number, rate: number,
): Map<string, Values> {
  return data.set("counter", Uint32Array.of(seed, step)).set("learning_rate", Float32Array.of(rate));
}

function scalars(outputs: ReadonlyMap<string, Tensor>): Record<string, number> {
  return Object.fromEntries([...outputs].map(([name, { data }]) => [name, data[0]!]));
}

function finite(step: Step): Step {
  if (Number.isFinite(step.loss)) return step;
  const text = `the loss is ${step.loss} after step ${step.step}`;
  throw new MeganeuraError("E0550", text, "a smaller learning rate may help");
}

function numbersFrom(first: number, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => first + i);
}

function valuesOf(dtype: string, values: readonly number[]): Values {
  if (dtype === "i32") return Int32Array.from(values);
  return dtype === "f32" || dtype === "f16" ? Float32Array.from(values) : Uint32Array.from(values);
}

function parsedProgress(text: string): { program: unknown; step: number } {
  try {
    const { program, step } = JSON.parse(text) as Record<string, unknown>;
    if (Number.isSafeInteger(step) && (step as number) >= 0) return { program, step: step as number };
  } catch {
    // It is told below.
  }
  throw new MeganeuraError("E0530", "this checkpoint does not say how far it is");
}

export type { Dataset, Split };
