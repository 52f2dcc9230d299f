/** The editor: a program with the shapes behind its names, and what is proved above its blocks. */

import { autocompletion, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import type { Completion, CompletionContext } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import type { ChangeSpec, Text } from "@codemirror/state";
import {
  Decoration, EditorView, WidgetType, drawSelection, highlightActiveLine, highlightSpecialChars,
  hoverTooltip, keymap, lineNumbers,
} from "@codemirror/view";
import type { DecorationSet } from "@codemirror/view";

import { el } from "../page/dom.ts";
import type { At, Check, Checker, Edit, Range } from "./checker.ts";
import { language } from "./language.ts";
import { markdown } from "./markdown.ts";

class Said extends WidgetType {
  readonly text: string;
  readonly className: string;

  constructor(text: string, className: string) {
    super();
    this.text = text;
    this.className = className;
  }

  override eq(other: Said): boolean {
    return other.text === this.text && other.className === this.className;
  }

  override toDOM(): HTMLElement {
    return el(this.className === "lens" ? "div" : "span", { className: this.className }, this.text);
  }
}

const checked = StateEffect.define<Check>();

const said = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(shown, change) {
    let now = shown.map(change.changes);
    for (const effect of change.effects) {
      if (effect.is(checked)) now = drawn(effect.value, change.state.doc);
    }
    return now;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function drawn({ hints, lenses }: Check, text: Text): DecorationSet {
  const behind = hints.map(({ at, text: shape, stage }) => {
    const widget = new Said(shape, stage ? "hint stage" : "hint");
    return Decoration.widget({ widget, side: 1 }).range(offset(text, at));
  });
  const above = lenses.map(({ line, text: words }) => {
    const widget = new Said(words, "lens");
    return Decoration.widget({ widget, side: -1, block: true }).range(offset(text, [line, 0]));
  });
  return Decoration.set([...behind, ...above], true);
}

/** The offset of a position; what lies beyond the text is its end. */
export function offset(text: Text, [line, column]: At): number {
  if (line >= text.lines) return text.length;
  const found = text.line(line + 1);
  return Math.min(found.from + column, found.to);
}

function position(text: Text, at: number): At {
  const { number, from } = text.lineAt(at);
  return [number - 1, at - from];
}

const span = (text: Text, [from, to]: Range) => ({ from: offset(text, from), to: offset(text, to) });

function completed(checker: Checker) {
  return async (context: CompletionContext) => {
    const word = context.matchBefore(/[A-Za-z_]\w*/);
    if (!word && !context.explicit) return null;
    const text = context.state.doc;
    const at = position(text, context.pos);
    const found = await checker.ask("complete", { text: text.toString(), at });
    const options = found
      .sort((one, other) => (one.rank < other.rank ? -1 : 1))
      .map((item, index): Completion => ({
        label: item.label, apply: item.text, detail: item.detail, info: item.documentation,
        type: item.kind, boost: -Math.min(index, 99),
      }));
    return { from: word?.from ?? context.pos, options, validFor: /^\w*$/ };
  };
}

function hovered(checker: Checker) {
  return hoverTooltip(async (view, pos) => {
    const text = view.state.doc;
    const found = await checker.ask("hover", { at: position(text, pos) });
    if (!found || view.state.doc !== text) return null;
    const place = found.range ? span(text, found.range) : { from: pos, to: pos };
    const dom = el("div", { className: "hover" }, ...markdown(found.text));
    return { pos: place.from, end: place.to, above: true, create: () => ({ dom }) };
  });
}

export class Editor {
  readonly view: EditorView;

  constructor(parent: HTMLElement, checker: Checker, changed: () => void) {
    const extensions = [
      lineNumbers(), lintGutter(), highlightSpecialChars(), history(), drawSelection(),
      indentOnInput(), bracketMatching(), closeBrackets(), highlightActiveLine(),
      indentUnit.of("  "), EditorState.tabSize.of(2), language, said, hovered(checker),
      autocompletion({ override: [completed(checker)] }),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
      EditorView.contentAttributes.of({ "aria-label": "Program" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) changed();
      }),
    ];
    if (matchMedia("(max-width: 60rem)").matches) extensions.push(EditorView.lineWrapping);
    this.view = new EditorView({ parent, extensions });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  /** Replace the whole program. */
  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  /** Show what was found of this text. */
  show(found: Check): void {
    const text = this.view.state.doc;
    const problems = found.problems.map((problem) => ({
      ...span(text, problem.range), message: problem.message, source: problem.code,
      severity: problem.severity === "note" ? "info" as const : problem.severity,
      actions: problem.fixes.map(({ title, edits }) => ({
        name: title, apply: () => this.apply(edits),
      })),
    }));
    this.view.dispatch({ effects: checked.of(found) });
    this.view.dispatch(setDiagnostics(this.view.state, problems));
  }

  apply(edits: readonly Edit[]): void {
    const text = this.view.state.doc;
    const changes: ChangeSpec[] = edits.map((edit) => ({
      ...span(text, edit.range), insert: edit.text,
    }));
    this.view.dispatch({ changes });
  }

  /** Go to a range, and show it. */
  go(range: Range): void {
    const { from, to } = span(this.view.state.doc, range);
    this.view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
    this.view.focus();
  }
}
