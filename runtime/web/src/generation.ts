/**
 * Generation as the Python runtime does it: a prompt is read in a few large steps, then each step
 * reads the token that was drawn last, which stays on the device.
 */

import type { Artefact, GenerationForm } from "./artefact.ts";
import type { Gpu } from "./gpu.ts";
import { findDevice, openGpu } from "./gpu.ts";
import { checked, checkIndices } from "./indices.ts";
import type { OpenOptions, Source } from "./model.ts";
import { artefactOf, onDevice } from "./model.ts";
import type { Plan } from "./plan.ts";
import { MeganeuraError, notAnArtefact } from "./problems.ts";
import { Session } from "./session.ts";
import type { Progress } from "./session.ts";
import type { Tensor, Values } from "./tensor.ts";
import type { Tokenizer } from "./text.ts";
import { byteTokenizer } from "./text.ts";

/** Tokens that may be drawn ahead of the one that is read. */
const AHEAD = 3;
/** Tokens that are drawn where nothing is said, and there is room for them. */
const STEPS = 128;

export interface GenerateOptions {
  /** The most tokens that are drawn: 128, or what fits. */
  readonly steps?: number;
  /** What logits are divided by before a token is drawn; 0, the default, takes the likeliest. */
  readonly temperature?: number;
  /** How many of the likeliest are drawn from; 0, the default, for all. */
  readonly topK?: number;
  /** Of what is drawn at random, 0 by default. */
  readonly seed?: number;
  /** Whether to stop before the next token. */
  readonly signal?: AbortSignal;
  /** Called with each token, also where its text is not whole yet. */
  readonly onToken?: (token: number) => void;
}

/** A model that writes texts, with its weights and caches on a device. */
export class Generator {
  readonly artefact: Artefact;
  readonly form: GenerationForm;
  readonly gpu: Gpu;
  readonly tokenizer: Tokenizer;
  #progress: Progress | undefined;
  #step: Session;
  #others = new Map<Plan, Session>();
  #turn = 0;

  private constructor(artefact: Artefact, gpu: Gpu, step: Session, tokenizer: Tokenizer) {
    this.artefact = artefact;
    this.form = artefact.generation!;
    this.gpu = gpu;
    this.tokenizer = tokenizer;
    this.#step = step;
  }

  /** Read, check and prepare a compiled model; throws `MeganeuraError`. */
  static async open(source: Source | Artefact, options: OpenOptions = {}): Promise<Generator> {
    const device = options.device ?? findDevice(options.gpu);
    const artefact = await artefactOf(source);
    const form = artefact.generation;
    if (!form) throw notAnArtefact("it writes no texts: build it with --mode generate");
    const tokenizer = form.tokenizer === null
      ? byteTokenizer : (await import("./tokenizer.ts")).parseTokenizer(form.tokenizer);
    if (tokenizer.size > form.vocabulary) {
      const text = `the tokenizer has ${tokenizer.size} tokens, and the model ${form.vocabulary}`;
      throw new MeganeuraError("E0663", text);
    }
    const plans = [...form.prompts.map(({ plan }) => plan), ...Object.values(form.draws)];
    const gpu = await openGpu([artefact.plan, ...plans], device);
    const given = { progress: options.progress, values: onDevice(artefact.tensors) };
    const step = await Session.open(artefact.plan, gpu, given);
    const made = new Generator(artefact, gpu, step, tokenizer);
    made.#progress = options.progress;
    return made;
  }

  get name(): string {
    return this.artefact.model;
  }

  /** Bytes of the device's memory that it takes so far. */
  get bytes(): number {
    return [this.#step, ...this.#others.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * The text that follows a prompt, in pieces of whole characters, up to a token that ends it.
   * Throws `MeganeuraError`.
   */
  async *generate(prompt: string, options: GenerateOptions = {}): AsyncGenerator<string, void> {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const ends = new Set(this.form.ends);
    for await (const token of this.tokens(this.tokenizer.encode(prompt), options)) {
      options.onToken?.(token);
      if (ends.has(token)) break;
      const piece = decoder.decode(this.tokenizer.bytes(token), { stream: true });
      if (piece) yield piece;
    }
    const rest = decoder.decode();
    if (rest) yield rest;
  }

  /**
   * The tokens that follow those of a prompt. A call begins a new sequence, and ends that of the
   * call before. Throws `MeganeuraError`.
   */
  async *tokens(
    prompt: ArrayLike<number>, options: GenerateOptions = {},
  ): AsyncGenerator<number, void> {
    const { temperature = 0, topK = 0, seed = 0, signal } = options;
    const steps = options.steps ?? Math.max(1, Math.min(STEPS, this.form.capacity - prompt.length + 1));
    const ids = Int32Array.from(prompt);
    this.#require(ids, steps, temperature, topK, seed);
    const { likeliest, all, top } = this.form.draws;
    const draw = await this.#session(temperature === 0 ? likeliest : topK === 0 ? all : top);
    const turn = ++this.#turn;
    const isOver = () => signal?.aborted || turn !== this.#turn;
    this.#step.clear(new Set(this.form.caches));

    let [place, session] = [0, this.#step];
    for (const size of this.#chunks(ids.length)) {
      session = await this.#session(this.form.prompts.find((each) => each.tokens === size)?.plan);
      if (isOver()) return;
      await read(session, place, ids.subarray(place, (place += size)));
    }
    const drawn = () => {
      const feeds = new Map<string, Values>([
        ["temperature", Float32Array.of(temperature)],
        ["top_k", Int32Array.of(topK)],
        ["counter", Uint32Array.of(seed, place)],
      ]);
      const links = [{ input: "logits", from: session, output: "logits" }];
      const token = draw.step(feeds, links).then((outputs) =>
        checked(draw.plan.outputs, outputs).get("token")!.data[0]!);
      token.catch(() => {});
      return token;
    };
    const running = [drawn()];
    session = this.#step;
    for (let number = 1; number < steps && !isOver(); number++) {
      if (this.#isChained) await read(session, place++, draw);
      else {
        const token = await running.shift()!;
        yield token;
        checkIndices("ids", Int32Array.of(token), this.artefact.bounds.get("ids"));
        await read(session, place++, Int32Array.of(token));
      }
      running.push(drawn());
      if (running.length > AHEAD) yield await running.shift()!;
    }
    for (const token of running) {
      if (isOver()) return;
      yield await token;
    }
  }

  /** Give the memory back. */
  close(): void {
    for (const session of [...this.#others.values(), this.#step]) session.close();
    this.gpu.device.destroy();
  }

  /** Whether the model has every token that can be drawn, so that nobody checks them. */
  get #isChained(): boolean {
    return this.form.vocabulary <= (this.artefact.bounds.get("ids")?.count ?? Infinity);
  }

  /** A length as a sum of the sizes of steps, the largest first. */
  *#chunks(length: number): Generator_<number> {
    for (const size of [...this.form.prompts.map(({ tokens }) => tokens), 1]) {
      for (; length >= size; length -= size) yield size;
    }
  }

  /** The session of a plan, which shares what the first one keeps; that first one of none. */
  async #session(plan: Plan | undefined): Promise<Session> {
    if (!plan) return this.#step;
    let found = this.#others.get(plan);
    if (!found) {
      const given = { progress: this.#progress, other: this.#step };
      found = await Session.open(plan, this.gpu, given);
      this.#others.set(plan, found);
    }
    return found;
  }

  #require(ids: Int32Array, steps: number, temperature: number, topK: number, seed: number): void {
    const { capacity, vocabulary } = this.form;
    const ranges: [string, number, number, number][] = [
      ["steps", steps, 1, 2 ** 31], ["top_k", topK, 0, 2 ** 31], ["seed", seed, 0, 2 ** 32 - 1],
    ];
    for (const [name, value, least, most] of ranges) {
      if (Number.isInteger(value) && value >= least && value <= most) continue;
      throw new MeganeuraError("E0662", `\`${name}\` is ${value}`, `it is a number from ${least}`);
    }
    if (!(temperature >= 0 && temperature <= 1000)) {
      const cure = "it is a number from 0 to 1,000";
      throw new MeganeuraError("E0662", `\`temperature\` is ${temperature}`, cure);
    }
    if (temperature > 0 && topK > vocabulary) {
      const text = `\`top_k\` is ${topK}, and the model has ${vocabulary} tokens`;
      throw new MeganeuraError("E0664", text, "a `top_k` of 0 draws from all of them");
    }
    if (!ids.length) throw new MeganeuraError("E0665", "the prompt is empty");
    const needed = ids.length + steps - 1;
    if (needed > capacity) {
      const text = `a prompt of ${ids.length} tokens and ${steps} after it take ${needed} places, `
        + `and there are ${capacity}`;
      const fewer = capacity - ids.length + 1;
      throw new MeganeuraError("E0661", text, fewer >= 1 ? `ask for at most ${fewer}` : "shorten the prompt");
    }
    checkIndices("ids", ids, this.artefact.bounds.get("ids"));
  }
}

type Generator_<T> = globalThis.Generator<T, void>;

/** Have a step read tokens: those given, or the one that a session drew last. */
async function read(session: Session, place: number, tokens: Int32Array | Session): Promise<void> {
  const feeds = new Map<string, Values>([["position", Int32Array.of(place)]]);
  const links = [];
  if (tokens instanceof Session) links.push({ input: "ids", from: tokens, output: "token" });
  else feeds.set("ids", tokens);
  const checks = session.plan.outputs.filter(({ check }) => check);
  const outputs: Promise<Map<string, Tensor>> = session.step(feeds, links, checks);
  if (checks.length) checked(checks, await outputs);
}
