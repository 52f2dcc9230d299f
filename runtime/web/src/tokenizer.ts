/**
 * A tokenizer.json of byte-level BPE (Sennrich et al. 2016, Radford et al. 2019), as the library
 * `tokenizers` of Hugging Face runs it. Models whose tokens are bytes do not load this module.
 */

import { MeganeuraError } from "./problems.ts";
import type { Tokenizer } from "./text.ts";
import { finder, surroundings, unknown } from "./tokenizer_parts.ts";
import type { Json } from "./tokenizer_parts.ts";

/** Cuts a piece of a text into smaller ones. */
type Cut = (piece: string) => string[];

const utf8 = new TextEncoder();
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
/** Words whose tokens are held. */
const MOST_WORDS = 1 << 14;

/** The character that stands for each byte: itself where it can be seen, else one from U+0100. */
const SHOWN: readonly string[] = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const seen = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCharCode(seen ? byte : next++);
  });
})();
const BYTES = new Map(SHOWN.map((character, byte) => [character, byte]));

/** Read a tokenizer.json; throws `MeganeuraError` that names what is not known here. */
export function parseTokenizer(text: string): Tokenizer {
  let file: Json;
  try {
    file = JSON.parse(text) as Json;
    return bpe(file);
  } catch (error) {
    if (error instanceof MeganeuraError) throw error;
    throw unknown(`it is none: ${(error as Error).message}`);
  }
}

function bpe(file: Json): Tokenizer {
  const { model, added_tokens: added = [], decoder, truncation, padding } = file;
  if ((model.type ?? "BPE") !== "BPE") throw unknown(`its model is ${model.type}`);
  for (const name of ["dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"]) {
    if (model[name]) throw unknown(`its model has ${name}`);
  }
  if (decoder?.type !== "ByteLevel") throw unknown(`its decoder is ${decoder?.type}`);
  if (truncation || padding) throw unknown("it truncates or pads");
  const vocabulary = new Map<string, number>(Object.entries(model.vocab as Json));
  const missing = SHOWN.find((character) => !vocabulary.has(character));
  if (missing !== undefined) throw unknown(`it has no token for the byte ${BYTES.get(missing)}`);
  const ranks = new Map((model.merges as (string | string[])[]).map((merge, rank) => {
    return [typeof merge === "string" ? merge : merge.join(" "), rank];
  }));
  const words = new Map<string, readonly number[]>();

  /** The tokens of a word: the pair that was merged first in training, again and again. */
  function word(whole: string): readonly number[] {
    const known = words.get(whole);
    if (known) return known;
    let parts = [...utf8.encode(whole)].map((byte) => SHOWN[byte]!);
    const at = model.ignore_merges ? vocabulary.get(parts.join("")) : undefined;
    while (at === undefined) {
      let [least, pair] = [Infinity, ""];
      for (let i = 1; i < parts.length; i++) {
        const rank = ranks.get(`${parts[i - 1]} ${parts[i]}`) ?? Infinity;
        if (rank < least) [least, pair] = [rank, `${parts[i - 1]} ${parts[i]}`];
      }
      if (!pair) break;
      const merged: string[] = [];
      for (let i = 0; i < parts.length; i++) {
        const both = `${parts[i]} ${parts[i + 1]}` === pair;
        merged.push(both ? parts[i]! + parts[++i]! : parts[i]!);
      }
      parts = merged;
    }
    const tokens = at === undefined ? parts.map((part) => vocabulary.get(part)!) : [at];
    if (words.size > MOST_WORDS) words.clear();
    words.set(whole, tokens);
    return tokens;
  }

  const normalized = normalizer(file.normalizer);
  const cut = preTokenizer(file.pre_tokenizer);
  const plain = (text: string) => cut(text).flatMap(word);
  // Added tokens are found in the text as it is first, and then, as most are, in what it becomes.
  const again = finder(added.filter((each: Json) => each.normalized), normalized, plain);
  const find = finder(added.filter((each: Json) => !each.normalized), (text) => text, (text) =>
    again(normalized(text)));
  const [before, after] = surroundings(file.post_processor);

  const pieces = new Map([...vocabulary].map(([piece, token]) => [token, piece]));
  const special = new Set<number>();
  for (const { id, content, special: isSpecial, normalized: isNormalized } of added) {
    pieces.set(id, isNormalized ? normalized(content) : content);
    if (isSpecial) special.add(id);
  }
  return {
    size: Math.max(...pieces.keys()) + 1,
    encode: (text) => [...before, ...find(text), ...after],
    bytes: (token) => {
      const piece = special.has(token) ? "" : pieces.get(token) ?? "";
      const bytes = [...piece].map((character) => BYTES.get(character));
      const isText = bytes.includes(undefined);
      return isText ? utf8.encode(piece) : Uint8Array.from(bytes as number[]);
    },
  };
}

function normalizer(from: Json | null): (text: string) => string {
  if (!from) return (text) => text;
  if (from.type === "Sequence") {
    const all = (from.normalizers as Json[]).map(normalizer);
    return (text) => all.reduce((found, each) => each(found), text);
  }
  if (!["NFC", "NFD", "NFKC", "NFKD"].includes(from.type)) {
    throw unknown(`its normalizer is ${from.type}`);
  }
  return (text) => text.normalize(from.type);
}

function preTokenizer(from: Json | null): Cut {
  const all: Json[] = from?.type === "Sequence" ? from.pretokenizers : [from ?? {}];
  const last = all.at(-1)!;
  if (last.type !== "ByteLevel") throw unknown(`its pre-tokenizer is ${last.type ?? "none"}`);
  const cuts = all.slice(0, -1).map(splitter);
  if (last.add_prefix_space) cuts.push((piece) => [piece.startsWith(" ") ? piece : ` ${piece}`]);
  if (last.use_regex !== false) cuts.push(matches(GPT2));
  return (text) => cuts.reduce((pieces, cut) => pieces.flatMap(cut), [text]);
}

function splitter(from: Json): Cut {
  if (from.type === "Digits") return matches(from.individual_digits ? "\\p{N}" : "\\p{N}+");
  const { pattern, behavior, invert } = from;
  const isKnown = from.type === "Split" && (behavior === "Isolated" || (behavior === "Removed" && invert));
  const source: unknown = pattern?.Regex;
  if (!isKnown || typeof source !== "string") {
    throw unknown(`its pre-tokenizer is ${[from.type, behavior].filter(Boolean).join(" ")}`);
  }
  return matches(source, behavior === "Isolated");
}

/** The matches of a pattern, and what lies between them. */
function matches(source: string, between = true): Cut {
  let pattern: RegExp;
  try {
    // These mean something else to Oniguruma; what JavaScript does not know is an error by itself.
    const bare = source.replace(/\\[^dwbDWB]|\[[^\]]*\]/g, "");
    if (/\\[dwDW]|&&/.test(source) || /\\|\./.test(bare)) throw new SyntaxError("it is Oniguruma's");
    // What is white in Oniguruma: JavaScript has the byte order mark too, and lacks U+0085.
    const white = source.replace(/\\s/g, "\\p{White_Space}").replace(/\\S/g, "\\P{White_Space}");
    pattern = new RegExp(white, "gmu");
  } catch (error) {
    throw unknown(`its pattern ${source} is none of JavaScript: ${(error as Error).message}`);
  }
  return (text) => {
    const pieces: string[] = [];
    let at = 0;
    for (const { 0: found, index } of text.matchAll(pattern)) {
      if (between) pieces.push(text.slice(at, index));
      pieces.push(found);
      at = index + found.length;
    }
    if (between) pieces.push(text.slice(at));
    return pieces.filter(Boolean);
  };
}
