/** A compiled model: safetensors, with its plan and what else is no tensor in its metadata. */

import type { Plan, PlannedTensor } from "./plan.ts";
import * as read from "./plan.ts";
import { notAnArtefact, require } from "./problems.ts";
import { parseTensors } from "./safetensors.ts";
import type { Stored, StoredTensor } from "./tensor.ts";
import { shown } from "./tensor.ts";
import { verifyPlan } from "./verify.ts";

const KEY = "meganeura.artefact";
/** The version of the format that is read. */
export const VERSION = 2;

/** What an index may be: one of 0 ... count - 1, or a number that stands for none. */
export interface Bound {
  readonly count: number;
  readonly exempt: readonly number[];
}

/** An input that data feeds. */
export interface DataInput {
  readonly name: string;
  /** The name of its tensor in the data. */
  readonly tensor: string;
  /** Rows of the tensor that make one example; 0 where the tensor is fed whole. */
  readonly rows: number;
}

/** What a training step is part of. */
export interface TrainingForm {
  readonly name: string;
  readonly batch: number;
  readonly epochs: number;
  readonly seed: number;
  readonly shuffle: boolean;
  /** Hash of the program of a step, which a checkpoint has to be of. */
  readonly program: string;
  readonly inputs: readonly DataInput[];
  /** The parameters and states of the program, with their types in files. */
  readonly parameters: readonly { readonly name: string; readonly stored: Stored }[];
  /** The learning rate of each step, or one where it never changes. */
  readonly rates: readonly number[];
  /** Plans that measure so many held-out examples at once, the largest first. */
  readonly evaluations: readonly { readonly examples: number; readonly plan: Plan }[];
}

/** A compiled model that was read and checked. */
export interface Artefact {
  readonly model: string;
  readonly plan: Plan;
  readonly bounds: ReadonlyMap<string, Bound>;
  readonly training: TrainingForm | null;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

const dataInput = read.record<DataInput>({
  name: read.text, tensor: read.text, rows: read.count,
});
const parameter = read.record<TrainingForm["parameters"][number]>({
  name: read.text,
  stored: read.oneOf<Stored>(
    "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool",
  ),
});
const training = read.record<TrainingForm>({
  name: read.text,
  batch: read.count,
  epochs: read.count,
  seed: read.count,
  shuffle: read.flag,
  program: read.text,
  inputs: read.list(dataInput),
  parameters: read.list(parameter),
  rates: read.list(read.real),
  evaluations: read.list(read.record({ examples: read.count, plan: read.plan })),
});
const bound = read.record<Bound>({ count: read.count, exempt: read.list(read.whole) });

/** Read a compiled model; throws `MeganeuraError` where it is none, or cannot be run. */
export function parseArtefact(bytes: Uint8Array): Artefact {
  const { tensors, metadata } = parseTensors(bytes);
  const text = metadata.get(KEY);
  if (text === undefined) throw notAnArtefact("it holds tensors, but no plan");
  let header: unknown;
  try {
    header = JSON.parse(text);
  } catch {
    throw notAnArtefact("its header is no JSON");
  }
  const version = (header as { version?: unknown } | null)?.version;
  require(version === VERSION, () => `its format is ${version}, and ${VERSION} is read here`);
  const found = read.record({
    model: read.text, plan: read.plan, training: read.orNull(training),
  })(header, "header");
  const given = (header as { bounds?: unknown }).bounds;
  require(typeof given === "object" && given !== null, () => "it has no bounds");
  const bounds = new Map(
    Object.entries(given).map(([name, each]) => [name, bound(each, `bounds.${name}`)]),
  );
  verifyPlan(found.plan);
  requireOneModel(found.plan, tensors, found.training !== null);
  if (found.training) verifyTraining(found.training, found.plan);
  return { ...found, bounds, tensors };
}

function requireOneModel(
  plan: Plan, tensors: ReadonlyMap<string, StoredTensor>, trains: boolean,
): void {
  const same = plan.parameters.length === tensors.size
    && plan.parameters.every(({ name }) => tensors.has(name));
  require(same, () => "its tensors are not the parameters of its plan");
  require(trains || !plan.copies.length, () => "it changes its parameters, and is no training step");
  for (const { name, dtype, shape } of plan.parameters) {
    const tensor = tensors.get(name)!;
    const [given, wanted] = [shown(tensor.stored, tensor.shape), shown(dtype, shape)];
    require(given === wanted, () => `its tensor \`${name}\` is ${given}, and not ${wanted}`);
  }
}

function verifyTraining(form: TrainingForm, plan: Plan): void {
  const names = (tensors: readonly PlannedTensor[]) => new Set(tensors.map(({ name }) => name));
  const [inputs, kept] = [names(plan.inputs), names(plan.parameters)];
  const fed = form.inputs.every(({ name }) => inputs.has(name));
  const all = new Set([...form.inputs.map(({ name }) => name), "counter", "learning_rate"]);
  require(fed && [...inputs].every((name) => all.has(name)), () => "its data is not of its plan");
  const known = form.parameters.every(({ name }) => kept.has(name));
  require(known, () => "its parameters are not those of its plan");
  require(form.batch >= 1 && form.rates.length >= 1, () => "it has no batch or no learning rate");
  require(names(plan.outputs).has("loss"), () => "its plan has no loss");
  const types = new Map(plan.parameters.map(({ name, dtype, shape }) => [name, shown(dtype, shape)]));
  for (const { examples, plan: evaluation } of form.evaluations) {
    verifyPlan(evaluation);
    const fits = evaluation.parameters.every(({ name, dtype, shape }) =>
      types.get(name) === shown(dtype, shape));
    const fed = [...names(evaluation.inputs)].every((name) => all.has(name));
    require(fits && fed && examples >= 1, () => "its evaluation is of another model");
  }
}
