/** The colours of a program, by its words. */

import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

/** The words of the grammar; the build reads them from there. */
declare const KEYWORDS: string[];

const TYPES = /^(?:any|bool|bf16|f16|f32|f64|i32|i64|u8|u32)\b(?=\s*\[)/;
const words = new Set(KEYWORDS);

const meganeura = StreamLanguage.define<{ above: string }>({
  name: "meganeura",
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["(", "[", "{", '"'] } },
  startState: () => ({ above: "" }),
  token(stream, state) {
    if (stream.eatSpace()) return null;
    const above = state.above;
    state.above = "";
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"[^"]*"?/)) return "string";
    if (stream.match(/^\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][-+]?\d+)?/)) return "number";
    if (stream.match(TYPES)) return "typeName";
    if (above === "|>" && stream.match(/^[\w.[\]{}+\- ]+?(?=\s*:)/)) return "labelName";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (word) {
      const text = (word as RegExpMatchArray)[0];
      if (/^(?:def|block|model|train)$/.test(above)) return "className";
      if (words.has(text) && !/^\s*(?:=[^=]|,)/.test(stream.string.slice(stream.pos))) {
        state.above = text;
        return /^(?:true|false)$/.test(text) ? "bool" : "keyword";
      }
      return stream.match(/^\s*\(/, false) ? "function" : "variableName";
    }
    if (stream.match("|>")) {
      state.above = "|>";
      return "operator";
    }
    if (stream.match(/^(?:->|\.\.\.?|\*\*|\/\/|[=!<>]=|[-+*/%@<>=])/)) return "operator";
    stream.next();
    return null;
  },
  tokenTable: { function: tags.function(tags.variableName) },
});

const style = HighlightStyle.define([
  { tag: tags.comment, color: "var(--comment)", fontStyle: "italic" },
  { tag: [tags.keyword, tags.bool], color: "var(--keyword)" },
  { tag: [tags.string, tags.number], color: "var(--literal)" },
  { tag: [tags.className, tags.typeName], color: "var(--type)" },
  { tag: tags.labelName, color: "var(--label)" },
  { tag: tags.function(tags.variableName), color: "var(--call)" },
]);

export const language = [meganeura, syntaxHighlighting(style)];
