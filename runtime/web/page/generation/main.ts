/** The page of a model that writes texts: a prompt, and what follows it as it is written. */

import { brief, el, fill, megabytes } from "../dom.ts";
import { Failed, Link } from "../worker_client.ts";
import type { Writer, WriterCalls } from "../protocol.ts";
import { calm, chip, failed, main, start } from "../shell.ts";

declare const WORKER: string;

let add: (piece: string) => void = () => {};

const link = new Link<WriterCalls>(WORKER, (event) => {
  switch (event.event) {
    case "compiled":
      chip("compiled", `kernels ${event.done} of ${event.of}`);
      break;
    case "piece":
      add(event.text);
      break;
    case "lost":
      failed(new Failed(event.failure));
      break;
  }
});

/** A number with its name; nothing where the default is meant. */
function setting(name: string, label: string, value: string, step: string, hint: string) {
  const input = el("input", { type: "number", min: "0", step, value, placeholder: hint });
  const field = el("label", { className: "setting", data: { setting: name } }, label, input);
  return { field, number: () => (input.value === "" ? undefined : Number(input.value)) };
}

function page(opened: Writer): void {
  const prompt = el("textarea", { rows: 5, value: "The ", spellcheck: false });
  prompt.setAttribute("aria-label", "prompt");
  const steps = setting("steps", "tokens", "", "1", "as fit");
  const temperature = setting("temperature", "temperature", "0", "any", "0");
  const topK = setting("top_k", "top k", "0", "1", "all");
  const seed = setting("seed", "seed", "0", "1", "0");
  const given = el("span", { className: "given" });
  const text = el("span", { data: { role: "text" } });
  const written = el("div", { className: "written" }, given, text);
  written.setAttribute("aria-live", "polite");
  const note = el("p", { className: "note" });
  const write = el("button", { type: "button", className: "primary" }, "Write");
  const stop = el("button", { type: "button", disabled: true }, "Stop");

  async function run(): Promise<void> {
    calm();
    [write.disabled, stop.disabled] = [true, false];
    [given.textContent, text.textContent, note.textContent] = [prompt.value, "", ""];
    add = (piece) => (text.textContent += piece);
    const settings = Object.entries({
      steps: steps.number(), temperature: temperature.number(), topK: topK.number(), seed: seed.number(),
    }).filter(([, value]) => value !== undefined);
    try {
      const done = await link.call("write", prompt.value, Object.fromEntries(settings));
      const each = done.tokens > 1 ? (done.ms - done.first) / (done.tokens - 1) : 0;
      chip("latency", `first token in ${brief(done.first)} ms`);
      if (each) chip("speed", `${brief(1000 / each)} tokens a second`);
      chip("memory", `${megabytes(done.bytes)} of GPU memory`);
      note.textContent = `${done.tokens} tokens`;
    } catch (error) {
      failed(error);
    }
    [write.disabled, stop.disabled] = [false, true];
    main.dataset.runs = String(Number(main.dataset.runs ?? 0) + 1);
  }

  write.onclick = () => void run();
  stop.onclick = () => void link.call("stop");
  prompt.onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !write.disabled) void run();
  };
  const places = `${opened.capacity} tokens of ${opened.vocabulary} kinds fit, prompt and text`;
  main.classList.add("model");
  fill(
    main,
    el("section", { className: "card" }, el("h2", {}, "Prompt"), prompt,
      el("div", { className: "row" }, steps.field, temperature.field, topK.field, seed.field),
      el("div", { className: "row" }, write, stop), el("p", { className: "note" }, places)),
    el("section", { className: "card" }, el("h2", {}, "Text"), written, note),
  );
}

start((bytes) => link.call("open", bytes), page);
