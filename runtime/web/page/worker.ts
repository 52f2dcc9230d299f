/** The worker: it has the device, so that the page stays quick. */

import type { Step } from "../src/index.ts";
import { findDevice, Model, parseArtefact, readTensors, Training } from "../src/index.ts";
import type { StoredTensor } from "../src/index.ts";
import { inputsOf } from "../src/model.ts";
import { toStored } from "../src/tensor.ts";
import type { Calls, Contents, Opened, RunState } from "./protocol.ts";
import { progress, say, serve, watch } from "./serve.ts";

/** Milliseconds between two reports of steps. */
const REPORT_EVERY = 50;

const device = findDevice();
let opening: Promise<Model | Training> | null = null;
let training: Training | null = null;
let pausing: AbortController | null = null;

function state(): RunState {
  const { step, steps, stepsPerEpoch, data } = started();
  return {
    step, steps, stepsPerEpoch,
    train: data?.train.examples ?? 0,
    test: data?.test?.examples ?? 0,
  };
}

function started(): Training {
  if (!training) throw new Error("there is no training step");
  return training;
}

serve<Calls>({
  async read(bytes): Promise<Contents> {
    const artefact = parseArtefact(bytes);
    const options = { progress, device };
    opening = artefact.training ? Training.open(artefact, options) : Model.open(artefact, options);
    opening.catch(() => {});
    const form = artefact.training;
    const training = form && { batch: form.batch, epochs: form.epochs };
    return { inputs: inputsOf(artefact), training };
  },

  async open(): Promise<Opened> {
    const opened = await opening!;
    if (opened instanceof Training) training = opened;
    watch(opened.gpu, () => opened.gpu);
    const { artefact, gpu, bytes } = opened;
    const weights = [...artefact.tensors.values()].reduce((sum, each) => sum + each.bytes.length, 0);
    const precision = artefact.matrices && opened instanceof Model ? opened.precision : undefined;
    return { device: gpu.title, bytes, weights, precision };
  },

  async run(feeds) {
    const model = await opening!;
    if (model instanceof Training) throw new Error("there is no model");
    const began = performance.now();
    const outputs = await model.run(feeds);
    return { outputs, ms: performance.now() - began };
  },

  async useFiles(files) {
    const tensors = new Map<string, StoredTensor>();
    for (const { name, bytes } of files) {
      for (const [key, tensor] of await readTensors(name, bytes)) tensors.set(key, tensor);
    }
    started().useData(tensors);
    return state();
  },

  async useDrawn(tensors) {
    const stored = Object.entries(tensors).map(([name, { dtype, shape, data }]) => {
      return [name, { stored: dtype, shape, bytes: toStored(dtype, dtype, data) }] as const;
    });
    started().useData(new Map(stored));
    return state();
  },

  async train(steps) {
    pausing = new AbortController();
    let unsaid: Step[] = [];
    let last = 0;
    const report = () => {
      if (unsaid.length) say({ event: "steps", steps: unsaid });
      unsaid = [];
      last = performance.now();
    };
    try {
      await started().run({
        steps,
        signal: pausing.signal,
        onStep: (step) => {
          unsaid.push(step);
          if (performance.now() - last > REPORT_EVERY) report();
        },
        onHeldOut: (heldOut) => {
          report();
          say({ event: "heldOut", heldOut });
        },
      });
    } finally {
      report();
      pausing = null;
    }
    return state();
  },

  async pause() {
    pausing?.abort();
    return null;
  },

  async state() {
    return state();
  },

  async weights() {
    return started().weights();
  },

  async checkpoint() {
    return started().checkpoint();
  },

  async load(bytes) {
    started().load(bytes);
    return state();
  },

  async recover() {
    await started().recover();
    watch(started().gpu, () => started().gpu);
    return state();
  },
});
