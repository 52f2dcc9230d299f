/** What the page and the worker say to each other. */

import type { Drawing } from "../drawing/picture.ts";

/** Line and column from 0. */
export type At = [number, number];
export type Range = [At, At];
export type Edit = { range: Range; text: string };

export type Problem = {
  range: Range;
  severity: "error" | "warning" | "note";
  code: string;
  /** As an editor shows it. */
  message: string;
  /** As the command line draws it. */
  text: string;
  fixes: { title: string; safe: boolean; edits: Edit[] }[];
};

export type Check = {
  verdict: string;
  fine: boolean;
  /** The models that hold. */
  models: string[];
  problems: Problem[];
  /** How many more problems there are. */
  unshown: number;
  hints: { at: At; text: string; stage: boolean }[];
  lenses: { line: number; text: string }[];
};

export type Item = {
  label: string; kind: string; detail: string; documentation: string; text: string; rank: string;
};

/** The methods of `meganeura/language_server/playground.py`. */
export type Calls = {
  check(given: { text: string }): Check;
  hover(given: { at: At }): { text: string; range: Range | null } | null;
  complete(given: { text: string; at: At }): Item[];
  format(given: { text: string }): Edit[];
  layers(given: { model: string }): string;
  drawing(given: { model: string }): Drawing;
  page(given: { code: string }): string | null;
  source(given: { name: string }): string;
};

export type Request = { id: number; method: keyof Calls; given: object };
export type Reply =
  | { id: number; result: unknown; took: number }
  | { id: number; failure: string }
  | { state: string }
  | { broken: string };

type Waiting = { done: (answer: never) => void; failed: (error: Error) => void };

/** The checker in its worker. */
export class Checker {
  #worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  #waiting = new Map<number, Waiting>();
  #last = 0;

  /** Calls `heard` with what is being loaded, and `broken` if nothing will be checked. */
  constructor(heard: (state: string) => void, broken: (why: string) => void) {
    this.#worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      if ("state" in data) return heard(data.state);
      if ("broken" in data) return broken(data.broken);
      const waiting = this.#waiting.get(data.id)!;
      this.#waiting.delete(data.id);
      if ("failure" in data) waiting.failed(new Error(data.failure));
      else waiting.done([data.result, data.took] as never);
    };
    this.#worker.onerror = ({ message }) => broken(message || "the worker could not be loaded");
  }

  /** Ask for an answer; throws an `Error` of what Python raised. */
  async ask<K extends keyof Calls>(
    method: K, given: Parameters<Calls[K]>[0],
  ): Promise<ReturnType<Calls[K]>> {
    return (await this.timed(method, given))[0];
  }

  /** An answer, with the milliseconds it took when its turn had come. */
  timed<K extends keyof Calls>(
    method: K, given: Parameters<Calls[K]>[0],
  ): Promise<[ReturnType<Calls[K]>, number]> {
    const id = ++this.#last;
    return new Promise((done, failed) => {
      this.#waiting.set(id, { done, failed });
      this.#worker.postMessage({ id, method, given } satisfies Request);
    });
  }
}
