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
export const VERSION = 4;

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

/** What writes texts: the plan of the model reads one token and gives the logits of the next. */
export interface GenerationForm {
  /** Tokens that the caches hold. */
  readonly capacity: number;
  readonly vocabulary: number;
  /** Parameters that begin as zeros and are in no file. */
  readonly caches: readonly string[];
  /** Plans that read so many tokens at once, the largest first. */
  readonly prompts: readonly { readonly tokens: number; readonly plan: Plan }[];
  /** Plans that draw a token from logits: the likeliest, from all, from the likeliest few. */
  readonly draws: { readonly likeliest: Plan; readonly all: Plan; readonly top: Plan };
  /** The text of a tokenizer.json; `null` where tokens are bytes. */
  readonly tokenizer: string | null;
  /** The tokens at which a text ends. */
  readonly ends: readonly number[];
}

/** A compiled model that was read and checked. */
export interface Artefact {
  readonly model: string;
  readonly plan: Plan;
  readonly bounds: ReadonlyMap<string, Bound>;
  readonly training: TrainingForm | null;
  readonly generation: GenerationForm | null;
  /** The plan in f16, for adapters with matrix units, if the model was built with one. */
  readonly matrices: Plan | null;
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
const generation = read.record<GenerationForm>({
  capacity: read.count,
  vocabulary: read.count,
  caches: read.list(read.text),
  prompts: read.list(read.record({ tokens: read.count, plan: read.plan })),
  draws: read.record({ likeliest: read.plan, all: read.plan, top: read.plan }),
  tokenizer: read.orNull(read.text),
  ends: read.list(read.count),
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
    generation: read.orNull(generation), matrices: read.orNull(read.plan),
  })(header, "header");
  const given = (header as { bounds?: unknown }).bounds;
  require(typeof given === "object" && given !== null, () => "it has no bounds");
  const bounds = new Map(
    Object.entries(given).map(([name, each]) => [name, bound(each, `bounds.${name}`)]),
  );
  verifyPlan(found.plan);
  const caches = new Set(found.generation?.caches);
  requireOneModel(found.plan, tensors, caches, found.training !== null);
  require(!found.training || !found.generation, () => "it trains and writes texts");
  if (found.matrices) verifyMatrices(found.matrices, found.plan);
  if (found.training) verifyTraining(found.training, found.plan);
  if (found.generation) verifyGeneration(found.generation, found.plan);
  return { ...found, bounds, tensors };
}

function requireOneModel(
  plan: Plan, tensors: ReadonlyMap<string, StoredTensor>, caches: ReadonlySet<string>, trains: boolean,
): void {
  const same = plan.parameters.length === tensors.size + caches.size
    && plan.parameters.every(({ name }) => tensors.has(name) !== caches.has(name));
  require(same, () => "its tensors are not the parameters of its plan");
  require(trains || caches.size > 0 || !plan.copies.length, () => "it changes its parameters, and is no training step");
  for (const { name, dtype, shape } of plan.parameters) {
    const tensor = tensors.get(name);
    if (!tensor) continue;
    const [given, wanted] = [shown(tensor.stored, tensor.shape), shown(dtype, shape)];
    require(given === wanted, () => `its tensor \`${name}\` is ${given}, and not ${wanted}`);
  }
}

function verifyMatrices(matrices: Plan, plan: Plan): void {
  verifyPlan(matrices);
  const titles = ({ inputs, parameters, outputs }: Plan) =>
    JSON.stringify([inputs, parameters, outputs].map((tensors) => tensors
      .map(({ name, dtype, shape, check }) => JSON.stringify([name, dtype, shape, check])).sort()));
  const same = titles(matrices) === titles(plan) && !matrices.copies.length;
  require(same, () => "its plan for matrix units is of another model");
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

function verifyGeneration(form: GenerationForm, plan: Plan): void {
  const titles = (tensors: readonly PlannedTensor[]) =>
    tensors.map(({ name, dtype, shape }) => `${name}: ${shown(dtype, shape)}`);
  const logits = `logits: ${shown("f32", [1, form.vocabulary])}`;
  const takes = (of: Plan, first: string, ...others: string[]) => {
    const given = titles(of.inputs);
    return given.includes(first) && given.every((each) => each === first || others.includes(each));
  };
  const places = (of: Plan) => JSON.stringify([
    of.parameters, of.buffers.map(({ role, bytes }) => (role === "parameters" ? bytes : null))
      .slice(0, Math.max(0, ...of.parameters.map(({ slot }) => slot.buffer + 1))),
  ]);
  for (const { tokens, plan: step } of [{ tokens: 1, plan }, ...form.prompts]) {
    if (step !== plan) verifyPlan(step);
    const text = () => `its step of ${tokens} tokens is of another model`;
    require(places(step) === places(plan) && tokens >= 1 && tokens <= form.capacity, text);
    require(takes(step, `ids: ${shown("i32", [1, tokens])}`, "position: i32[]"), text);
    require(titles(step.outputs).includes(logits), text);
  }
  for (const draw of Object.values(form.draws)) {
    verifyPlan(draw);
    const fits = takes(draw, logits, "temperature: f32[]", "top_k: i32[]", "counter: u32[2]")
      && titles(draw.outputs).includes(`token: ${shown("i32", [1, 1])}`)
      && !draw.parameters.length && !draw.copies.length;
    require(fits, () => "what draws its tokens takes or gives something else");
  }
}
