/** The page's end of its worker. */

import type { Calls, Failure, Reply } from "./protocol.ts";

type Event = Exclude<Reply, { id: number }>;

/** What went wrong in the worker. */
export class Failed extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

type Asked<C> = { [K in keyof C]: (...args: never[]) => unknown };

export class Link<C extends Asked<C> = Calls> {
  #worker: Worker;
  #waiting = new Map<number, { done: (result: never) => void; failed: (error: Failed) => void }>();
  #last = 0;

  constructor(source: string, heard: (event: Event) => void) {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.#worker = new Worker(url);
    this.#worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      if ("event" in data) {
        heard(data);
        return;
      }
      const waiting = this.#waiting.get(data.id)!;
      this.#waiting.delete(data.id);
      if ("failure" in data) waiting.failed(new Failed(data.failure));
      else waiting.done(data.result as never);
    };
    this.#worker.onerror = (event) => {
      const message = `the worker failed: ${event.message}`;
      for (const { failed } of this.#waiting.values()) failed(new Failed({ code: "", message, cure: "" }));
    };
  }

  /** Ask the worker; throws `Failed`. */
  call<K extends keyof C>(call: K, ...args: Parameters<C[K]>): Promise<ReturnType<C[K]>> {
    const id = ++this.#last;
    return new Promise((done, failed) => {
      this.#waiting.set(id, { done, failed });
      this.#worker.postMessage({ id, call, args });
    });
  }
}
