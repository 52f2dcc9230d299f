/** The page of a model: inputs on the left, what the model makes of them on the right. */

import { shown } from "../src/tensor.ts";
import { brief, el, fill, takeDropped } from "./dom.ts";
import type { InputForm, PageForm } from "./form.ts";
import type { Widget } from "./inputs.ts";
import { described, widgetFor } from "./inputs.ts";
import type { Link } from "./worker_client.ts";
import { outputView } from "./outputs.ts";
import type { Contents } from "./protocol.ts";

/** Files that may hold the tensors of several inputs. */
const ARCHIVE = /\.(npz|safetensors)$/;

/**
 * Show the page of a model, which may still be opening. Fulfilled once the model ran on empty
 * inputs, which makes it quick; that answer is not shown, since nobody asked for it.
 */
export function inferencePage(
  parent: HTMLElement, contents: Contents, form: PageForm, link: Link,
  tell: { chip: (name: string, text: string) => void; failed: (error: unknown) => void },
): Promise<void> {
  const outputs = el("div", { className: "outputs" });
  const note = el("p", { className: "note" });
  const types = el("ul");
  const formOf = (name: string): InputForm => form.inputs[name] ?? { kind: "numbers" };
  const widgets = new Map<string, Widget>();
  const other = (name: string) => widgets.get(name)!;
  for (const input of contents.inputs) {
    widgets.set(input.name, widgetFor(input, formOf(input.name), changed, other));
  }
  let [isRunning, isStale] = [true, false];

  function changed(): void {
    isStale = true;
    if (!isRunning) void run();
  }

  /** What the reader has yet to give is asked for, where there would be an answer. */
  function ask(missing: readonly string[]): void {
    const words = [...new Set(missing)].join("; ");
    note.textContent = "";
    fill(outputs, el("p", { className: "asked" },
      `${words.charAt(0).toUpperCase()}${words.slice(1)}: the answer comes here.`));
  }

  const missing = () => [...widgets.values()].flatMap((widget) => widget.missing() ?? []);
  const feeds = () => Object.fromEntries([...widgets].map(([name, { read }]) => [name, read()]));

  async function run(): Promise<void> {
    isRunning = true;
    do {
      isStale = false;
      const wanted = missing();
      if (wanted.length) {
        ask(wanted);
        continue;
      }
      let given;
      try {
        given = feeds();
        note.textContent = "";
      } catch (error) {
        note.textContent = (error as Error).message;
        continue;
      }
      try {
        const found = await link.call("run", given);
        tell.chip("latency", `answer in ${brief(found.ms)} ms`);
        const text = [...widgets.values()].find((widget) => widget.text)?.text;
        const position = text ? Math.max(0, text() - 1) : null;
        const all = Object.entries(found.outputs);
        fill(outputs, ...all.map(([name, tensor]) =>
          outputView(name, tensor, form.labels, position, all.length === 1)));
        outputs.dataset.runs = String(Number(outputs.dataset.runs ?? 0) + 1);
      } catch (error) {
        tell.failed(error);
        break;
      }
    } while (isStale);
    isRunning = false;
  }

  /** Run the model once on what stands in the empty inputs. */
  async function warm(): Promise<void> {
    try {
      const found = await link.call("run", feeds());
      for (const [name, { dtype, shape }] of Object.entries(found.outputs)) {
        types.append(el("li", {}, `${name} is`, el("code", {}, shown(dtype, shape))));
      }
      outputs.dataset.warm = "true";
    } catch (error) {
      tell.failed(error);
    }
    isRunning = false;
    if (isStale) await run();
  }

  /** Files that were dropped anywhere go to the inputs that take them. */
  function dropped(files: File[]): void {
    const unread: string[] = [];
    const taken = new Set<string>();
    note.textContent = "";
    for (const file of files) {
      const takers = [...widgets].filter(([, widget]) => widget.files?.accepts(file));
      const named = takers.find(([name]) => file.name.startsWith(`${name}.`));
      const first = named ?? takers.find(([name]) => !taken.has(name)) ?? takers[0];
      if (!first) unread.push(`\`${file.name}\``);
      for (const [name, widget] of ARCHIVE.test(file.name) ? takers : first ? [first] : []) {
        taken.add(name);
        widget.files!.take([file]);
      }
    }
    if (!unread.length) return;
    note.textContent = `no input takes ${unread.join(", ")}: ${missing().join("; ")
      || contents.inputs.map((input) => described(input, formOf(input.name))).join("; ")}`;
  }

  const sections = contents.inputs.map((input) => {
    const widget = widgets.get(input.name)!;
    types.append(el("li", {}, `${input.name} is`, el("code", {}, shown(input.dtype, input.shape))));
    const words = described(input, formOf(input.name));
    const section = el("section", { data: { input: input.name } },
      el("h2", {}, input.name, el("span", { className: "kind" }, words)), widget.element);
    if (widget.files) takeDropped(section, (files) => {
      if (files.every(widget.files!.accepts)) widget.files!.take(files);
      else dropped(files);
    });
    return section;
  });
  const button = el("button", { type: "button", className: "primary", onclick: changed }, "Run");
  const [only] = widgets.values();
  if (widgets.size === 1) only!.row.prepend(button);
  const details = el("details", {}, el("summary", {}, "Names and types"), types);
  takeDropped(document.documentElement, dropped);
  ask(missing().length ? missing() : ["change a number, or press Run"]);
  parent.classList.add("model");
  fill(
    parent,
    el("section", { className: "card inputs" }, ...sections,
      widgets.size !== 1 && el("div", { className: "row" }, button), note),
    el("section", { className: "card" }, el("h2", {}, "Answer"), outputs, details),
  );
  return warm();
}
