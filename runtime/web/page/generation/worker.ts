/** The worker of a page that writes texts: it has the device. */

import { findDevice, Generator } from "../../src/index.ts";
import type { WriterCalls } from "../protocol.ts";
import { progress, say, serve, watch } from "../serve.ts";

const device = findDevice();
let generator: Generator | null = null;
let stopping: AbortController | null = null;

serve<WriterCalls>({
  async open(bytes) {
    generator = await Generator.open(bytes, { progress, device });
    watch(generator.gpu, () => generator?.gpu);
    const { gpu, bytes: memory, artefact, form: { capacity, vocabulary } } = generator;
    const weights = [...artefact.tensors.values()].reduce((sum, each) => sum + each.bytes.length, 0);
    return { device: gpu.title, bytes: memory, weights, capacity, vocabulary };
  },

  async write(prompt, options) {
    if (!generator) throw new Error("there is no model");
    stopping = new AbortController();
    const began = performance.now();
    let [tokens, first] = [0, 0];
    const onToken = () => {
      if (!tokens++) first = performance.now() - began;
    };
    const given = { ...options, signal: stopping.signal, onToken };
    for await (const text of generator.generate(prompt, given)) say({ event: "piece", text });
    return { tokens, first, ms: performance.now() - began, bytes: generator.bytes };
  },

  async stop() {
    stopping?.abort();
    return null;
  },
});
