/** The page: it reads what `meganeura build` put into it, and shows a model or a training step. */

import { dropzone, el, fill, megabytes } from "./dom.ts";
import type { PageForm } from "./form.ts";
import { inferencePage } from "./infer.ts";
import { Failed, Link } from "./link.ts";
import type { DataFile } from "./protocol.ts";
import type { TrainingPage } from "./train.ts";
import { trainingPage } from "./train.ts";

declare const WORKER: string;

const form = JSON.parse(text("meganeura-form")) as PageForm;
const main = document.querySelector("main")!;
const problem = document.querySelector<HTMLElement>("#problem")!;
const chips = document.querySelector<HTMLElement>("#chips")!;
let page: TrainingPage | null = null;

function text(id: string): string {
  return document.getElementById(id)!.textContent!.trim();
}

function chip(name: string, words: string): void {
  let found = chips.querySelector<HTMLElement>(`[data-chip=${name}]`);
  if (!found) chips.append((found = el("span", { data: { chip: name } })));
  found.textContent = words;
}

/** Say what went wrong, with its code and its cure. */
function failed(error: unknown): void {
  const found = error instanceof Failed
    ? error.failure : { code: "", message: String((error as Error).message ?? error), cure: "" };
  problem.hidden = false;
  problem.dataset.code = found.code;
  fill(problem, el("b", {}, found.code ? `error ${found.code}` : "error"), ` ${found.message}`,
    found.cure ? el("p", {}, found.cure) : null);
  if (found.code) document.body.dataset.state = "failed";
}

function calm(): void {
  problem.hidden = true;
}

const link = new Link(WORKER, (event) => {
  switch (event.event) {
    case "compiled":
      chip("compiled", `kernels ${event.done} of ${event.of}`);
      break;
    case "steps":
      page?.steps(event.steps);
      break;
    case "heldOut":
      page?.heldOut(event.heldOut);
      break;
    case "lost":
      failed(new Failed(event.failure));
      page?.lost();
      break;
  }
});

/** The bytes of a text in base64. */
async function unpacked(base64: string): Promise<Uint8Array> {
  const answer = await fetch(`data:application/octet-stream;base64,${base64}`);
  return new Uint8Array(await answer.arrayBuffer());
}

/** The model: of the page, of the file beside it, or of a file that is dropped. */
async function modelBytes(): Promise<Uint8Array> {
  if (form.beside === null) return await unpacked(text("meganeura-model"));
  try {
    const answer = await fetch(form.beside);
    if (answer.ok) return new Uint8Array(await answer.arrayBuffer());
  } catch {
    // A page that was opened as a file may not read the one beside it: it is asked for.
  }
  return await new Promise((done) => {
    const zone = dropzone(`Drop ${form.beside}, which lies beside this page`, ".mgb", ([file]) =>
      void file!.arrayBuffer().then((bytes) => done(new Uint8Array(bytes))));
    fill(main, el("section", { className: "card" }, el("h2", {}, "The model"), zone));
  });
}

async function open(): Promise<void> {
  document.title = form.title;
  document.querySelector("h1")!.textContent = form.title;
  fill(main, el("p", { className: "note" }, "opening the model"));
  const began = performance.now();
  const opened = await link.call("open", await modelBytes());
  chip("compiled", `opened in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  chip("device", opened.device);
  chip("memory", `${megabytes(opened.bytes)} of GPU memory`);
  chip("weights", `${megabytes(opened.weights)} of weights`);
  if (!opened.training) {
    inferencePage(main, opened, form, link, { chip, failed });
  } else {
    page = trainingPage(main, opened, form, link, { chip, failed, calm });
    const data = document.getElementById("meganeura-data");
    if (data) {
      const file: DataFile = {
        name: "data.safetensors", bytes: await unpacked(text("meganeura-data")),
      };
      await page.useFiles([file]);
    }
  }
  document.body.dataset.state = "ready";
}

open().catch((error: unknown) => {
  fill(main);
  failed(error);
  document.body.dataset.state = "failed";
});
