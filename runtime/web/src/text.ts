/** Texts as tokens and back. */

const utf8 = new TextEncoder();

/** What makes tokens of a text, and bytes of UTF-8 of a token. */
export interface Tokenizer {
  /** How many tokens there are. */
  readonly size: number;
  readonly encode: (text: string) => number[];
  /** None for a special token. */
  readonly bytes: (token: number) => Uint8Array;
}

/** Each byte of UTF-8 is a token. */
export const byteTokenizer: Tokenizer = {
  size: 256,
  encode: (text) => [...utf8.encode(text)],
  bytes: (token) => (token < 256 ? Uint8Array.of(token) : utf8.encode("\ufffd")),
};
