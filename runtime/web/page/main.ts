/** The page: it reads what `meganeura build` put into it, and shows a model or a training step. */

import { inferencePage } from "./infer.ts";
import { Failed, Link } from "./link.ts";
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

start((bytes) => link.call("open", bytes), async (opened) => {
  if (!opened.training) {
    inferencePage(main, opened, form, link, { chip, failed });
    return;
  }
  page = trainingPage(main, opened, form, link, { chip, failed, calm });
  if (!document.getElementById("meganeura-data")) return;
  const file: DataFile = { name: "data.safetensors", bytes: await unpacked(text("meganeura-data")) };
  await page.useFiles([file]);
});
