/** What all pages have: chips, messages, and the way to the model that the page holds. */

import { dropzone, el, fill, megabytes } from "./dom.ts";
import type { PageForm } from "./form.ts";
import { Failed } from "./worker_client.ts";
import type { Opened } from "./protocol.ts";

export const form = JSON.parse(text("meganeura-form")) as PageForm;
export const main = document.querySelector("main")!;
/** How products are computed, of a model that was built for matrix units as well. */
const PRECISIONS = {
  f16: "f16 on matrix units",
  f32: "f32: no matrix units here",
} as const;
const problem = document.querySelector<HTMLElement>("#problem")!;
const chips = document.querySelector<HTMLElement>("#chips")!;

/** What an element of the page holds. */
export function text(id: string): string {
  return document.getElementById(id)!.textContent!.trim();
}

/** Show something beside the title. */
export function chip(name: string, words: string): void {
  let found = chips.querySelector<HTMLElement>(`[data-chip=${name}]`);
  if (!found) chips.append((found = el("span", { data: { chip: name } })));
  found.textContent = words;
}

/** Let the page be seen. Until then it is not painted, which would keep the GPU from its answer. */
function reveal(): void {
  document.body.classList.add("shown");
}

/** Say what went wrong, with its code and its cure. */
export function failed(error: unknown): void {
  const found = error instanceof Failed
    ? error.failure : { code: "", message: String((error as Error).message ?? error), cure: "" };
  problem.hidden = false;
  problem.dataset.code = found.code;
  fill(problem, el("b", {}, found.code ? `error ${found.code}` : "error"), ` ${found.message}`,
    found.cure ? el("p", {}, found.cure) : null);
  if (found.code) document.body.dataset.state = "failed";
}

/** Hide what went wrong. */
export function calm(): void {
  problem.hidden = true;
}

/** The bytes of a text that is base64 of gzip. */
export async function unpacked(base64: string): Promise<Uint8Array> {
  const packed = await fetch(`data:application/octet-stream;base64,${base64}`);
  const content = new Response(packed.body!.pipeThrough(new DecompressionStream("gzip")));
  return new Uint8Array(await content.arrayBuffer());
}

/** The model: of the page, of the file beside it, or of a file that is dropped. */
export async function modelBytes(): Promise<Uint8Array> {
  // The script stands before what the page holds, so that a device is asked for while that is read.
  if (document.readyState === "loading") {
    await new Promise((done) => document.addEventListener("DOMContentLoaded", done));
  }
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
    reveal();
  });
}

/** Open the model, and show its page once there is something to see; what goes wrong is said. */
export function start<T extends Opened>(
  open: (bytes: Uint8Array) => Promise<T>, show: (opened: T) => Promise<void> | void,
): void {
  const run = async () => {
    document.title = form.title;
    document.querySelector("h1")!.textContent = form.title;
    fill(main, el("p", { className: "note" }, "opening the model"));
    const began = performance.now();
    const opened = await open(await modelBytes());
    chip("compiled", `opened in ${((performance.now() - began) / 1000).toFixed(1)} s`);
    chip("device", opened.device);
    if (opened.precision) chip("precision", PRECISIONS[opened.precision]);
    chip("memory", `${megabytes(opened.bytes)} of GPU memory`);
    chip("weights", `${megabytes(opened.weights)} of weights`);
    await show(opened);
    document.body.dataset.state ??= "ready";
  };
  run().catch((error: unknown) => {
    fill(main);
    failed(error);
    document.body.dataset.state = "failed";
  }).finally(reveal);
}
