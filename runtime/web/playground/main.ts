/** The playground: an editor, the verdict of the checker, and lessons. */

import { el, fill } from "../page/dom.ts";
import { Checker } from "./checker.ts";
import type { Check, Problem } from "./checker.ts";
import { draw } from "../drawing/drawing.ts";
import { Editor } from "./editor.ts";
import { markdown } from "./markdown.ts";
import { packed, unpacked } from "./share.ts";

type Lesson = {
  id: string; group: string; title: string; text: string; program?: string; answer?: string;
};

const PAUSE = 120;
const DRAFT = "meganeura.draft";
const OWN: Lesson = { id: "program", group: "", title: "Your program", text: "" };

const at = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const programs = at<HTMLSelectElement>("programs");
const verdict = at("verdict");

const checker = new Checker(
  (state) => {
    at("state").textContent = state;
    if (state) verdict.textContent = `${state}…`;
  },
  (why) => {
    document.body.dataset.state = "broken";
    verdict.textContent = `The checker could not be loaded: ${why}`;
  },
);

const lessons: Lesson[] = [
  ...((await (await fetch(new URL("lessons.json", import.meta.url))).json()) as Lesson[]), OWN,
];

// --- checking -------------------------------------------------------------------------------------

let timer = 0;
let checking = false;
let lesson = OWN;

const editor = new Editor(at("editor"), checker, () => {
  delete document.body.dataset.checked;
  sessionStorage.setItem(DRAFT, JSON.stringify({ id: lesson.id, text: editor.text }));
  clearTimeout(timer);
  timer = window.setTimeout(() => void check(), PAUSE);
});

async function check(): Promise<void> {
  if (checking) return;
  checking = true;
  let text: string;
  do {
    text = editor.text;
    try {
      const [found, took] = await checker.timed("check", { text });
      if (text === editor.text) show(found, took);
    } catch (error) {
      fail(error);
    }
  } while (text !== editor.text);
  checking = false;
}

function show(found: Check, took: number): void {
  editor.show(found);
  document.body.dataset.state = found.fine ? "fine" : "wrong";
  document.body.dataset.checked = lesson.id;
  verdict.textContent = found.verdict;
  at("state").textContent = `checked in ${took.toFixed(0)} ms`;
  const solved = document.querySelector<HTMLElement>(".solved");
  if (solved) solved.hidden = !found.fine;
  const more = found.unshown && el("p", { className: "more" }, `${found.unshown} more, not shown`);
  fill(at("problems"), ...found.problems.map(article), more || null);
  fill(at("models"), ...found.models.flatMap((model) => [layers(model), drawing(model)]));
}

function layers(model: string): HTMLElement {
  const table = el("pre", { tabIndex: 0 });
  const shown = el("details", {}, el("summary", {}, `Layers of ${model}`), table);
  shown.ontoggle = async () => {
    if (shown.open) table.textContent = await checker.ask("layers", { model });
  };
  return shown;
}

function drawing(model: string): HTMLElement {
  const place = el("div", { className: "drawing" });
  const shown = el("details", {}, el("summary", {}, `Drawing of ${model}`), place);
  shown.ontoggle = async () => {
    if (!shown.open || place.childElementCount) return;
    draw(place, await checker.ask("drawing", { model }), (location) => {
      const [file, line] = location.split(":");
      const row = Number(line) - 1;
      if (file === "program.mgn") editor.go([[row, 0], [row, 0]]);
    });
  };
  return shown;
}

function fail(error: unknown): void {
  document.body.dataset.state = "broken";
  const words = error instanceof Error ? error.message : String(error);
  verdict.textContent = "The checker failed on this program; please report it.";
  fill(at("problems"), el("article", { className: "problem" }, el("pre", {}, words)));
}

function article(problem: Problem): HTMLElement {
  const about = el("button", { type: "button" }, `About ${problem.code}`);
  const page = el("div", { className: "page", hidden: true });
  about.onclick = async () => {
    if (page.hidden) {
      const text = await checker.ask("page", { code: problem.code });
      fill(page, ...markdown(text ?? "There is no page of this code."));
    }
    page.hidden = !page.hidden;
  };
  const go = el("button", { type: "button" }, `Line ${problem.range[0][0] + 1}`);
  go.onclick = () => editor.go(problem.range);
  const fixes = problem.fixes.map(({ title, safe, edits }) => {
    const fix = el("button", { type: "button", className: safe ? "safe" : "unsafe" }, `Fix: ${title}`);
    fix.onclick = () => editor.apply(edits);
    return fix;
  });
  return el(
    "article", { className: `problem ${problem.severity}` },
    el("pre", { tabIndex: 0 }, problem.text), el("div", { className: "row" }, go, about, ...fixes), page,
  );
}

// --- lessons, puzzles, models ---------------------------------------------------------------------

const groups = Map.groupBy(lessons, ({ group }) => group);
programs.append(...[...groups].map(([group, each]) => {
  const options = each.map(({ id, title }) => el("option", { value: id }, title));
  return group ? el("optgroup", { label: group }, ...options) : options[0]!;
}));
programs.onchange = () => {
  location.hash = programs.value;
};

async function open(chosen: Lesson, text: string): Promise<void> {
  lesson = chosen;
  delete document.body.dataset.checked;
  programs.value = chosen.id;
  document.title = `${chosen.title} · Meganeura playground`;
  fill(at("lesson"), ...described(chosen));
  editor.text = text;
}

function described(chosen: Lesson): (Node | string)[] {
  if (!chosen.text) return [];
  const place = lessons.indexOf(chosen);
  const beside = (step: number, label: string) => {
    const other = lessons[place + step];
    if (!other || other.group !== chosen.group) return null;
    return el("a", { href: `#${other.id}`, title: other.title }, label);
  };
  const again = el("button", { type: "button" }, "Start again");
  again.onclick = () => {
    editor.text = chosen.program!;
  };
  const answer = el("button", { type: "button", hidden: !chosen.answer }, "Show an answer");
  answer.onclick = () => {
    editor.text = chosen.answer!;
  };
  const links = [beside(-1, "← Before"), beside(1, "Next →")].filter((link) => link !== null);
  const count = lessons.filter(({ group }) => group === chosen.group);
  return [
    el("p", { className: "place" }, `${chosen.group}, ${count.indexOf(chosen) + 1} of ${count.length}`),
    el("h2", {}, chosen.title), ...markdown(chosen.text),
    el("div", { className: "row" }, ...links, again, answer,
      chosen.answer ? el("span", { className: "solved", hidden: true }, "✓ Mended") : null),
  ];
}

/** Opens what the address says; what was typed there before a reload is kept. */
async function follow(): Promise<void> {
  const [id = "", letters = ""] = location.hash.slice(1).split("=", 2);
  const draft = JSON.parse(sessionStorage.getItem(DRAFT) ?? "null") as { id: string; text: string } | null;
  if (letters) {
    try {
      await open(OWN, await unpacked(letters));
    } catch {
      await open(OWN, "# The program of this link is damaged: it was not copied whole.\n");
    }
    history.replaceState(null, "", `#${OWN.id}`);
    return;
  }
  const chosen = lessons.find((each) => each.id === id) ?? lessons[0]!;
  const text = chosen.program ?? (chosen === OWN ? editor.text : await modelText(chosen));
  await open(chosen, draft?.id === chosen.id ? draft.text : text);
}

async function modelText(chosen: Lesson): Promise<string> {
  return checker.ask("source", { name: chosen.id });
}

window.onhashchange = () => void follow();

// --- tools ----------------------------------------------------------------------------------------

at("format").onclick = async () => {
  const { text } = editor;
  const edits = await checker.ask("format", { text });
  if (text === editor.text) editor.apply(edits);
};

at("share").onclick = async () => {
  const link = new URL(location.href);
  link.hash = `${OWN.id}=${await packed(editor.text)}`;
  history.replaceState(null, "", link);
  const share = at("share");
  try {
    await navigator.clipboard.writeText(link.href);
    share.textContent = "Copied";
  } catch {
    share.textContent = "In the address";
  }
  setTimeout(() => {
    share.textContent = "Share";
  }, 2000);
};

const theme = localStorage.getItem("meganeura.theme");
if (theme) document.documentElement.dataset.theme = theme;
at("theme").onclick = () => {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("meganeura.theme", dark ? "light" : "dark");
};

await follow();
void check();
