/** The page: it reads what `meganeura build` put into it, and shows a model or a training step. */

import { inferencePage } from "./infer.ts";
import { Failed, Link } from "./worker_client.ts";
import type { DataFile } from "./protocol.ts";
import { calm, chip, failed, form, main, start, text, unpacked } from "./shell.ts";
import type { TrainingPage } from "./train.ts";
import { trainingPage } from "./train.ts";

declare const WORKER: string;

let page: TrainingPage | null = null;

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

/** Open what the page holds; a model's interface is made while its kernels are compiled. */
async function open(bytes: Uint8Array) {
  const contents = await link.call("read", bytes);
  const answered = contents.training
    ? null : inferencePage(main, contents, form, link, { chip, failed });
  return { ...await link.call("open"), contents, answered };
}

start(open, async ({ contents, answered }) => {
  if (answered) return await answered;
  page = trainingPage(main, contents, form, link, { chip, failed, calm });
  if (!document.getElementById("meganeura-data")) return;
  const file: DataFile = { name: "data.safetensors", bytes: await unpacked(text("meganeura-data")) };
  await page.useFiles([file]);
});
