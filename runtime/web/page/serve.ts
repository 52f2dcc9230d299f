/** The worker's end: it answers what the page asks. */

import type { Gpu } from "../src/gpu.ts";
import { MeganeuraError } from "../src/index.ts";
import { bytesOf } from "../src/tensor.ts";
import type { Failure, Reply, Request } from "./protocol.ts";

/** What answers each call. */
export type Handlers<C> = {
  [K in keyof C]: C[K] extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;
};

export function say(reply: Reply, transfer: Transferable[] = []): void {
  (self as unknown as Worker).postMessage(reply, transfer);
}

function failure(error: unknown): Failure {
  if (error instanceof MeganeuraError) {
    return { code: error.code, message: error.message, cure: error.cure };
  }
  return { code: "", message: error instanceof Error ? error.message : String(error), cure: "" };
}

export function progress(done: number, of: number): void {
  say({ event: "compiled", done, of });
}

/** Say it when a device is lost, unless another one is used by then. */
export function watch(gpu: Gpu, current: () => Gpu | undefined): void {
  void gpu.lost.then((error) => {
    if (current() === gpu) say({ event: "lost", failure: failure(error) });
  });
}

export function serve<C>(handlers: Handlers<C>): void {
  self.onmessage = async ({ data: { id, call, args } }: MessageEvent<Request>) => {
    try {
      const handler = handlers[call as keyof C] as (...args: readonly unknown[]) => Promise<unknown>;
      const result = await handler(...args);
      const transfer = result instanceof Uint8Array ? [bytesOf(result).buffer as ArrayBuffer] : [];
      say({ id, result }, transfer);
    } catch (error) {
      say({ id, failure: failure(error) });
    }
  };
}
