/** What the page and its worker say to each other. */

import type { HeldOut, Signature, Step, Tensor, Values } from "../src/index.ts";

/** A model or a training step that was opened. */
export interface Opened {
  readonly name: string;
  readonly inputs: readonly Signature[];
  readonly outputs: readonly Signature[];
  readonly device: string;
  readonly bytes: number;
  readonly weights: number;
  readonly training: { readonly batch: number; readonly epochs: number } | null;
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
  open(bytes: Uint8Array): Opened;
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

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly cure: string;
}

export type Request = {
  [K in keyof Calls]: { id: number; call: K; args: Parameters<Calls[K]> };
}[keyof Calls];

export type Reply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly failure: Failure }
  | { readonly event: "compiled"; readonly done: number; readonly of: number }
  | { readonly event: "steps"; readonly steps: readonly Step[] }
  | { readonly event: "heldOut"; readonly heldOut: HeldOut }
  | { readonly event: "lost"; readonly failure: Failure };
