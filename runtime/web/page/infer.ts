/** The page of a model: inputs on the left, what the model makes of them on the right. */

import { brief, el, fill } from "./dom.ts";
import type { PageForm } from "./form.ts";
import type { Widget } from "./inputs.ts";
import { describe, widgetFor } from "./inputs.ts";
import type { Link } from "./link.ts";
import { outputView } from "./outputs.ts";
import type { Contents } from "./protocol.ts";

/** Show the page of a model, which may still be opening; fulfilled at its first answer, or none. */
export function inferencePage(
  parent: HTMLElement, contents: Contents, form: PageForm, link: Link,
  tell: { chip: (name: string, text: string) => void; failed: (error: unknown) => void },
): Promise<void> {
  const outputs = el("div", { className: "outputs" });
  const note = el("p", { className: "note" });
  const widgets = new Map<string, Widget>();
  const other = (name: string) => widgets.get(name)!;
  for (const input of contents.inputs) {
    const given = form.inputs[input.name] ?? { kind: "numbers" };
    widgets.set(input.name, widgetFor(input, given, changed, other));
  }
  let [isRunning, isStale, isFirst] = [false, false, true];

  function changed(): void {
    isStale = true;
    if (!isRunning) void run();
  }

  async function run(): Promise<void> {
    isRunning = true;
    do {
      isStale = false;
      let feeds;
      try {
        feeds = Object.fromEntries([...widgets].map(([name, widget]) => [name, widget.read()]));
        note.textContent = "";
      } catch (error) {
        note.textContent = (error as Error).message;
        break;
      }
      try {
        const found = await link.call("run", feeds);
        tell.chip("latency", `${isFirst ? "first answer in" : "answer in"} ${brief(found.ms)} ms`);
        isFirst = false;
        const text = [...widgets.values()].find((widget) => widget.text)?.text;
        const position = text ? Math.max(0, text() - 1) : null;
        const views = Object.entries(found.outputs).map(([name, tensor]) =>
          outputView(name, tensor, form.labels, position));
        fill(outputs, ...views);
        outputs.dataset.runs = String(Number(outputs.dataset.runs ?? 0) + 1);
      } catch (error) {
        tell.failed(error);
        break;
      }
    } while (isStale);
    isRunning = false;
  }

  const cards = contents.inputs.map((input) => {
    const title = el("h2", {});
    describe(title, input);
    return el("section", { className: "card", data: { input: input.name } }, title,
      widgets.get(input.name)!.element);
  });
  const button = el("button", { type: "button", className: "primary", onclick: changed }, "Run");
  fill(
    parent,
    el("div", {}, ...cards, el("div", { className: "row" }, button), note),
    el("section", { className: "card" }, el("h2", {}, "Outputs"), outputs),
  );
  return run();
}
