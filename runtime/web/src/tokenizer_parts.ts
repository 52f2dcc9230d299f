/** What tokenizers of all kinds have: tokens that were added, and tokens around a text. */

import { MeganeuraError } from "./problems.ts";

export type Json = { readonly [name: string]: any };

/** An error that names what is not known here. */
export function unknown(what: string): MeganeuraError {
  const cure = "byte-level BPE is known where texts are written, as of GPT-2, Llama 3 and SmolLM2, "
    + "and WordPiece where they are read, as of BERT";
  return new MeganeuraError("E0533", `the tokenizer.json cannot be used: ${what}`, cure);
}

/** The tokens of a text: those added, wherever they stand, and those of the rest. */
export function finder(
  added: readonly Json[], normalized: (text: string) => string, rest: (text: string) => number[],
): (text: string) => number[] {
  for (const name of ["single_word", "lstrip", "rstrip"]) {
    const found = added.find((each) => each[name]);
    if (found) throw unknown(`its token \`${found.content}\` has ${name}`);
  }
  const tokens = new Map(added.map(({ content, id }) => [normalized(content), id as number]));
  const texts = [...tokens.keys()].filter(Boolean).sort((one, other) => other.length - one.length);
  if (!texts.length) return rest;
  const pattern = texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|");
  return (text) => {
    const parts = text.split(new RegExp(`(${pattern})`));
    return parts.flatMap((part, i) => (i % 2 ? tokens.get(part)! : part ? rest(part) : []));
  };
}

/** The tokens that are put before and after a text. */
export function surroundings(from: Json | null): [number[], number[]] {
  const around: [number[], number[]] = [[], []];
  if (!from || from.type === "ByteLevel") return around;
  if (from.type === "Sequence") {
    for (const each of from.processors as Json[]) {
      const [before, after] = surroundings(each);
      around[0].unshift(...before);
      around[1].push(...after);
    }
    return around;
  }
  if (from.type !== "TemplateProcessing") throw unknown(`its post-processor is ${from.type}`);
  let side = 0;
  for (const { Sequence: text, SpecialToken: token } of from.single as Json[]) {
    if (text) side = 1;
    else around[side as 0 | 1].push(...(from.special_tokens[token.id].ids as number[]));
  }
  return around;
}
