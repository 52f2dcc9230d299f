/** Markdown of messages as elements: headings, lists, tables, fences, rules; code and bold within. */

import { el } from "../page/dom.ts";

function inline(text: string): (Node | string)[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*|\[[^\]]+\]\([^)]+\))/).map((part) => {
    if (/^`.+`$/.test(part)) return el("code", {}, part.slice(1, -1));
    if (/^\*\*.+\*\*$/.test(part)) return el("strong", {}, part.slice(2, -2));
    if (/^\*.+\*$/.test(part)) return el("em", {}, part.slice(1, -1));
    const link = /^\[(.+)\]\((.+)\)$/.exec(part);
    if (!link) return part;
    return /^[\w./#-]+$/.test(link[2]!) ? el("a", { href: link[2]! }, link[1]!) : link[1]!;
  });
}

/** The cells of a row of a table; a bar within code is none between cells. */
function cells(row: string): string[] {
  const parts = row.replace(/^\s*\||\|\s*$/g, "").match(/(?:`[^`]*`|\\.|[^|`])*(?:\||$)/g) ?? [];
  return parts.slice(0, -1).map((part) => part.replace(/\|$/, "").replace(/\\\|/g, "|").trim());
}

function block(text: string): Node {
  const lines = text.split("\n");
  const heading = /^(#+) (.*)$/.exec(text);
  if (heading) return el(heading[1]!.length === 1 ? "h3" : "h4", {}, ...inline(heading[2]!));
  if (/^-{3,}$/.test(text)) return el("hr");
  if (lines.every((line) => /^\s*\|/.test(line)) && lines.length > 1) {
    const row = (line: string, cell: "th" | "td") =>
      el("tr", {}, ...cells(line).map((words) => el(cell, {}, ...inline(words))));
    return el("table", {}, row(lines[0]!, "th"), ...lines.slice(2).map((line) => row(line, "td")));
  }
  if (/^(?:- |\d+\. )/.test(text)) {
    const items = text.split(/\n(?=- |\d+\. )/).map((item) => item.replace(/^(?:- |\d+\. )/, ""));
    return el("ul", {}, ...items.map((item) => el("li", {}, ...inline(item))));
  }
  return el("p", {}, ...inline(lines.join(" ")));
}

export function markdown(text: string): Node[] {
  return text.split(/^(```\w*\n[\s\S]*?^```)$/m).flatMap((part) => {
    const fence = /^```\w*\n([\s\S]*?)\n?```$/.exec(part);
    if (fence) return [el("pre", {}, fence[1]!)];
    return part.split(/\n{2,}/).map((each) => each.trim()).filter(Boolean).map(block);
  });
}
