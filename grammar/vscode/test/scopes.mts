/**
 * Colours texts as Visual Studio Code does: reads `{"texts": [...]}` and writes, for each text, its
 * tokens as `[offset, end, innermost scope]` in characters.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import type * as TextMate from "vscode-textmate";

const require = createRequire(import.meta.url);
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate") as typeof TextMate;
const oniguruma = require("vscode-oniguruma") as typeof import("vscode-oniguruma");

const here = (path: string) => new URL(path, import.meta.url);
await oniguruma.loadWASM(readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")));
const registry = new Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  }),
  loadGrammar: async () => {
    const file = here("../syntaxes/mgn.tmLanguage.json");
    return parseRawGrammar(readFileSync(file, "utf8"), file.pathname);
  },
});
const grammar = (await registry.loadGrammar("source.mgn"))!;

const { texts } = JSON.parse(readFileSync(0, "utf8")) as { texts: string[] };
const answers = texts.map((text) => {
  const found: [number, number, string][] = [];
  let state = INITIAL;
  let offset = 0;
  for (const line of text.split("\n")) {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
    for (const { startIndex, endIndex, scopes } of tokens) {
      found.push([offset + startIndex, offset + Math.min(endIndex, line.length), scopes.at(-1)!]);
    }
    state = ruleStack;
    offset += line.length + 1;
  }
  return found;
});
console.log(JSON.stringify(answers));
