/** The page of a training step: data, the run and its curve, and the weights. */

import type { HeldOut, Signature, Step, Tensor } from "../src/index.ts";
import { Curve } from "./curve.ts";
import { brief, download, dropzone, el, fill } from "./dom.ts";
import type { PageForm, PictureForm } from "./form.ts";
import { drawing } from "./inputs.ts";
import type { Link } from "./worker_client.ts";
import type { Contents, DataFile, RunState } from "./protocol.ts";
import { shown } from "../src/tensor.ts";

/** What the page shows of steps and of the worker's events. */
export interface TrainingPage {
  readonly steps: (steps: readonly Step[]) => void;
  readonly heldOut: (heldOut: HeldOut) => void;
  readonly lost: () => void;
  readonly useFiles: (files: readonly DataFile[]) => Promise<void>;
}

const ACCEPTED = ".safetensors,.npz,.npy";
/** A set of classes that there are buttons for. */
const MOST_BUTTONS = 40;

export function trainingPage(
  parent: HTMLElement, contents: Contents, form: PageForm, link: Link,
  tell: { chip: (name: string, text: string) => void; failed: (error: unknown) => void; calm: () => void },
): TrainingPage {
  const { batch } = contents.training!;
  const canvas = el("canvas", { className: "curve" });
  canvas.setAttribute("aria-label", "the loss of each step");
  const curve = new Curve(canvas);
  const bar = el("progress", { max: 1, value: 0 });
  const where = el("p", { className: "note" }, "no data yet");
  const numbers = el("dl", { className: "numbers" });
  const held = el("tbody");
  const table = el("table", { hidden: true }, el("caption", {}, "held out"), held);
  const dataNote = el("p", { className: "note", data: { role: "data" } });
  let state: RunState | null = null;
  let isRunning = false;
  let last: Step | null = null;
  let speed = { step: 0, time: 0, rate: 0 };

  const start = el("button", { type: "button", className: "primary", disabled: true }, "Train");
  const once = el("button", { type: "button", disabled: true }, "One step");
  const recover = el("button", { type: "button", hidden: true }, "Open the device again");
  const files = { weights: "weights.safetensors", checkpoint: "checkpoint.safetensors" };
  let metrics: object[] = [];
  const saveMetrics = el("button", { type: "button" }, "Save metrics");
  saveMetrics.onclick = () => {
    const lines = metrics.map((each) => `${JSON.stringify(each)}\n`);
    download("metrics.jsonl", new TextEncoder().encode(lines.join("")));
  };
  const saves = (["weights", "checkpoint"] as const).map((what) => {
    const button = el("button", { type: "button" }, `Save ${what}`);
    button.onclick = async () => attempt(async () => download(files[what], await link.call(what)));
    return button;
  });

  async function attempt(action: () => Promise<void>): Promise<boolean> {
    tell.calm();
    try {
      await action();
      return true;
    } catch (error) {
      tell.failed(error);
      return false;
    }
  }

  function update(): void {
    const done = state !== null && state.steps > 0 && state.step >= state.steps;
    const ready = state !== null && state.steps > 0 && recover.hidden;
    start.disabled = !isRunning && (!ready || done);
    once.disabled = isRunning || !ready || done;
    start.textContent = isRunning ? "Pause" : state && state.step ? "Go on" : "Train";
    for (const button of saves) button.disabled = isRunning;
    const step = last?.step ?? state?.step ?? 0;
    if (state?.steps) {
      bar.max = state.steps;
      bar.value = step;
      const epoch = Math.min(contents.training!.epochs, Math.floor(step / state.stepsPerEpoch) + 1);
      where.textContent = `step ${step.toLocaleString("en")} of ${state.steps.toLocaleString("en")}`
        + `, epoch ${epoch} of ${contents.training!.epochs}`;
    }
    where.dataset.step = String(step);
    if (!last) return;
    const entries: [string, string][] = [
      ["loss", brief(last.loss)],
      ...Object.entries(last.metrics).map(([name, value]): [string, string] => [name, brief(value)]),
      ["learning rate", brief(last.rate)],
    ];
    if (speed.rate) entries.push(["steps / s", brief(speed.rate)]);
    fill(numbers, ...entries.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }

  async function train(steps: number): Promise<void> {
    isRunning = true;
    speed = { step: 0, time: 0, rate: 0 };
    update();
    const done = await attempt(async () => {
      state = await link.call("train", steps);
    });
    if (!done) {
      // It is back at what was saved last.
      state = await link.call("state");
      last = null;
    }
    isRunning = false;
    update();
  }

  function used(found: RunState): void {
    state = found;
    const rest = found.test ? `, ${found.test.toLocaleString("en")} held out` : "";
    dataNote.textContent = `${found.train.toLocaleString("en")} examples to train on${rest}`;
    update();
  }

  async function useFiles(given: readonly DataFile[]): Promise<void> {
    await attempt(async () => used(await link.call("useFiles", given)));
  }

  start.onclick = () => void (isRunning ? link.call("pause") : train(Infinity));
  once.onclick = () => void train(1);
  recover.onclick = () => attempt(async () => {
    state = await link.call("recover");
    recover.hidden = true;
    last = null;
    update();
  });

  const load = dropzone("Drop weights or a checkpoint", ".safetensors", ([file]) =>
    void attempt(async () => {
      state = await link.call("load", new Uint8Array(await file!.arrayBuffer()));
      last = null;
      metrics = [];
      curve.clear();
      fill(held);
      update();
    }));
  load.dataset.role = "load";
  const drop = dropzone(`Drop data: ${ACCEPTED.replaceAll(",", ", ")}`, ACCEPTED, (given) =>
    void read(given).then(useFiles));
  drop.dataset.role = "data";
  const wanted = el("ul", { className: "wanted" }, ...contents.inputs.map((input) =>
    el("li", {}, el("b", {}, input.name), el("code", {}, exampleType(input, batch)))));
  const draw = drawnExamples(contents, form, (tensors) =>
    attempt(async () => used(await link.call("useDrawn", tensors))));
  fill(
    parent,
    el("div", {},
      el("section", { className: "card" }, el("h2", {}, "Data"),
        el("p", { className: "note" }, `a batch is ${batch} examples of`), wanted, drop, dataNote),
      draw,
      el("section", { className: "card" }, el("h2", {}, "Weights"),
        el("p", { className: "note" }, "Weights load wherever safetensors do. A checkpoint has also "
          + "what the optimizer keeps, and the step."),
        el("div", { className: "row" }, ...saves, saveMetrics), load)),
    el("section", { className: "card" },
      el("h2", {}, "Run"),
      el("div", { className: "row" }, start, once, recover), bar, where, numbers, canvas, table),
  );
  update();

  return {
    useFiles,
    steps(steps) {
      for (const { step, epoch, loss, metrics: measured, rate } of steps) {
        curve.add(step, loss);
        metrics.push({ kind: "step", step, epoch, loss, ...measured, learning_rate: rate });
      }
      last = steps.at(-1) ?? last;
      const now = performance.now();
      if (last && now - speed.time > 500) {
        const rate = speed.time ? (1000 * (last.step - speed.step)) / (now - speed.time) : 0;
        speed = { step: last.step, time: now, rate };
      }
      update();
    },
    heldOut({ step, loss, metrics: measured }) {
      curve.addHeldOut(step, loss);
      metrics.push({ kind: "held_out", step, loss, ...measured });
      const words = Object.entries({ loss, ...measured }).map(([name, value]) => `${name} ${brief(value)}`);
      table.hidden = false;
      held.prepend(el("tr", {}, el("th", {}, `step ${step}`), el("td", {}, words.join(", "))));
    },
    lost() {
      recover.hidden = false;
      update();
    },
  };
}

function exampleType(input: Signature, batch: number): string {
  const [first = 1, ...rest] = input.shape;
  const rows = first % batch === 0 ? first / batch : first;
  return shown(input.dtype, rows === 1 ? rest : [rows, ...rest]);
}

/** The files that were dropped. */
export async function read(files: readonly File[]): Promise<DataFile[]> {
  return await Promise.all(files.map(async (file) => {
    return { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
  }));
}

/** Pictures that are drawn and named one by one, where the data is a picture and its class. */
function drawnExamples(
  contents: Contents, form: PageForm, use: (tensors: Record<string, Tensor>) => unknown,
): HTMLElement | null {
  const { batch } = contents.training!;
  const picture = contents.inputs.find(({ name }) => form.inputs[name]?.kind === "picture");
  const label = contents.inputs.find((input) => input !== picture);
  const count = label?.count ?? 0;
  const isPair = picture && label && contents.inputs.length === 2 && String(label.shape) === `${batch}`;
  if (!isPair || count < 2 || count > MOST_BUTTONS) return null;
  const steps = form.inputs[picture.name] as PictureForm;
  const pictures: Float32Array[] = [];
  const classes: number[] = [];
  const note = el("p", { className: "note" }, `draw one, then say what it is`);
  const pad = drawing(steps, () => {}, (text) => (note.textContent = text));
  const add = (place: number) => {
    pictures.push(pad.read(true));
    classes.push(place);
    pad.clear();
    note.textContent = `${classes.length} drawn; a batch takes ${batch}`;
    train.disabled = classes.length < batch;
  };
  const buttons = Array.from({ length: count }, (_, place) =>
    el("button", { type: "button", onclick: () => add(place) }, form.labels[place] ?? String(place)));
  const train = el("button", { type: "button", disabled: true }, "Train on what is drawn");
  train.onclick = () => use(Object.fromEntries([
    [picture.name, {
      dtype: "f32",
      shape: [classes.length, ...picture.shape.slice(1)],
      data: Float32Array.from(pictures.flatMap((each) => [...each])),
    }],
    [label.name, { dtype: "i32", shape: [classes.length], data: Int32Array.from(classes) }],
  ]) as Record<string, Tensor>);
  return el("section", { className: "card" }, el("h2", {}, "Draw examples"),
    el("div", { className: "picture" }, pad.frame,
      el("div", { className: "side" }, el("div", { className: "names" }, ...buttons), train, note)));
}
