/**
 * A tokenizer.json of WordPiece (Schuster and Nakajima 2012, Devlin et al. 2018), as the library
 * `tokenizers` of Hugging Face runs it. It reads texts and writes none.
 */

import { MeganeuraError } from "./problems.ts";
import { finder, surroundings, unknown } from "./tokenizer_parts.ts";
import type { Json } from "./tokenizer_parts.ts";

/** What makes tokens of a text, for a model that reads a number of them. */
export interface TextReader {
  /** How many tokens there are. */
  readonly size: number;
  /** The token behind a text that is shorter than what a model reads. */
  readonly pad: number;
  /** The tokens of a text; at most `most` of them, those around the text among them. */
  readonly encode: (text: string, most?: number) => number[];
}

/** ASCII's, and those of Unicode. */
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}]/u;
const WHITE = /\p{White_Space}/u;
const CHINESE = new RegExp(
  "[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}"
  + "\u{2b920}-\u{2ceaf}\u{f900}-\u{faff}\u{2f800}-\u{2fa1f}]", "gu",
);

/** Read a tokenizer.json; throws `MeganeuraError` that names what is not known here. */
export function parseWordPiece(text: string): TextReader {
  try {
    return wordPiece(JSON.parse(text) as Json);
  } catch (error) {
    if (error instanceof MeganeuraError) throw error;
    throw unknown(`it is none: ${(error as Error).message}`);
  }
}

function wordPiece(file: Json): TextReader {
  const { model, added_tokens: added = [], post_processor: around, padding } = file;
  if (model.type !== "WordPiece") throw unknown(`its model is ${model.type}`);
  const vocabulary = new Map<string, number>(Object.entries(model.vocab as Json));
  const none = vocabulary.get(model.unk_token);
  if (none === undefined) throw unknown(`it has no token \`${model.unk_token}\``);
  const prefix: string = model.continuing_subword_prefix;
  const normalized = normalizer(file.normalizer);
  if (file.pre_tokenizer?.type !== "BertPreTokenizer") {
    throw unknown(`its pre-tokenizer is ${file.pre_tokenizer?.type ?? "none"}`);
  }

  /** The longest piece that a word begins with, again and again; one token where there is none. */
  function word(whole: string): number[] {
    const characters = [...whole];
    if (characters.length > model.max_input_chars_per_word) return [none!];
    const tokens: number[] = [];
    for (let begin = 0; begin < characters.length;) {
      let end = characters.length;
      let token: number | undefined;
      for (; end > begin; end--) {
        token = vocabulary.get((begin ? prefix : "") + characters.slice(begin, end).join(""));
        if (token !== undefined) break;
      }
      if (token === undefined) return [none!];
      tokens.push(token);
      begin = end;
    }
    return tokens;
  }

  const plain = (text: string) => words(text).flatMap(word);
  const again = finder(added.filter((each: Json) => each.normalized), normalized, plain);
  const find = finder(added.filter((each: Json) => !each.normalized), (text) => text, (text) =>
    again(normalized(text)));
  const [before, after] = around?.type === "BertProcessing"
    ? [[around.cls[1] as number], [around.sep[1] as number]] : surroundings(around ?? null);
  for (const { id, content } of added) vocabulary.set(content, id);
  return {
    size: Math.max(...vocabulary.values()) + 1,
    pad: padding?.pad_id ?? vocabulary.get("[PAD]") ?? 0,
    encode: (text, most = Infinity) => {
      const room = Math.max(0, most - before.length - after.length);
      return [...before, ...find(text).slice(0, room), ...after];
    },
  };
}

/** Words, and each sign of punctuation by itself. */
function words(text: string): string[] {
  const found: string[] = [];
  let open = false;
  for (const character of text) {
    if (WHITE.test(character)) open = false;
    else if (PUNCTUATION.test(character)) {
      found.push(character);
      open = false;
    } else if (open) found[found.length - 1] += character;
    else open = found.push(character) > 0;
  }
  return found;
}

/** What is done to a text before it is cut, character by character as in Rust. */
function normalizer(from: Json | null): (text: string) => string {
  if (!from) return (text) => text;
  if (from.type !== "BertNormalizer") throw unknown(`its normalizer is ${from.type}`);
  const { clean_text: cleans, handle_chinese_chars: parts, lowercase } = from;
  const strips = from.strip_accents ?? lowercase;
  return (text) => {
    let found = text;
    if (cleans) {
      found = found.replace(/(?![\t\n\r])[\0\ufffd\p{Cc}\p{Cf}\p{Co}]/gu, "")
        .replace(/\p{White_Space}/gu, " ");
    }
    if (parts) found = found.replace(CHINESE, " $& ");
    if (strips) found = found.normalize("NFD").replace(/\p{Mn}/gu, "");
    if (lowercase) found = Array.from(found, (character) => character.toLowerCase()).join("");
    return found;
  };
}
