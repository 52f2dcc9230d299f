/** What the page and its worker say to each other. */

import type { GenerateOptions, HeldOut, Signature, Step, Tensor, Values } from "../src/index.ts";

/** What a file holds: a model or a training step. It is known before its kernels are compiled. */
export interface Contents {
  readonly inputs: readonly Signature[];
  readonly training: { readonly batch: number; readonly epochs: number } | null;
}

/** Where a model was opened, and the memory that it and its weights take, in bytes. */
export interface Opened {
  readonly device: string;
  readonly bytes: number;
  readonly weights: number;
  /** The floats of products, of a model that was built for matrix units. */
  readonly precision?: "f16" | "f32" | undefined;
}

export interface DataFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** How far a run is. */
export interface RunState {
  readonly step: number;
  readonly steps: number;
  readonly stepsPerEpoch: number;
  readonly train: number;
  readonly test: number;
}

/** What the page asks of the worker. */
export interface Calls {
  /** What a file holds, which is being opened from then on. */
  read(bytes: Uint8Array): Contents;
  /** What was read, once it is open. */
  open(): Opened;
  run(feeds: Readonly<Record<string, Values>>): { outputs: Record<string, Tensor>; ms: number };
  useFiles(files: readonly DataFile[]): RunState;
  useDrawn(tensors: Readonly<Record<string, Tensor>>): RunState;
  train(steps: number): RunState;
  pause(): null;
  state(): RunState;
  weights(): Uint8Array<ArrayBuffer>;
  checkpoint(): Uint8Array<ArrayBuffer>;
  load(bytes: Uint8Array): RunState;
  recover(): RunState;
}

/** A model that writes texts, opened. */
export interface Writer extends Opened {
  readonly capacity: number;
  readonly vocabulary: number;
}

/** How a text was written: tokens and milliseconds, of the first one and of all. */
export interface Written {
  readonly tokens: number;
  readonly first: number;
  readonly ms: number;
  readonly bytes: number;
}

/** What the page of a model that writes texts asks of its worker. */
export interface WriterCalls {
  open(bytes: Uint8Array): Writer;
  /** The pieces come as events. */
  write(prompt: string, options: Omit<GenerateOptions, "signal">): Written;
  stop(): null;
}

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly cure: string;
}

export interface Request {
  readonly id: number;
  readonly call: string;
  readonly args: readonly unknown[];
}

export type Reply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly failure: Failure }
  | { readonly event: "compiled"; readonly done: number; readonly of: number }
  | { readonly event: "steps"; readonly steps: readonly Step[] }
  | { readonly event: "heldOut"; readonly heldOut: HeldOut }
  | { readonly event: "piece"; readonly text: string }
  | { readonly event: "lost"; readonly failure: Failure };
