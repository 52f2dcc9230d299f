/** Checksums of tensors and of the header of a file: the same entry that the Python runtime has. */

import type { StoredTensor } from "./tensor.ts";
import { shown } from "./tensor.ts";

/** The entry of the metadata. */
export const KEY = "meganeura.checksums";
/** The sums of pieces that the Python runtime writes too, for files that are larger than memory. */
export const PIECES = "meganeura.pieces";
const MARK = "meganeura-crc32";
const PIECE = 1 << 20;

/** Table k at 256 k: what a byte makes of the sum with k zeros behind it. */
const TABLES = new Int32Array(8 * 256);
for (let i = 0; i < TABLES.length; i++) {
  let rest = i < 256 ? i : TABLES[i - 256]!;
  for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ (rest & 1 && 0xedb88320);
  TABLES[i] = rest;
}

/** The CRC-32 of bytes that follow others with the sum `before`: eight at a time, where aligned. */
export function crc32(bytes: Uint8Array, before = 0): number {
  let sum = ~before;
  let at = 0;
  const upTo = (end: number) => {
    while (at < end) sum = (sum >>> 8) ^ TABLES[(sum ^ bytes[at++]!) & 255]!;
  };
  upTo(Math.min(bytes.length, -bytes.byteOffset & 3));
  const count = ((bytes.length - at) >>> 3) << 1;
  const words = new Int32Array(bytes.buffer, (bytes.byteOffset + at) & ~3, count);
  for (let i = 0; i < count; i += 2) {
    const low = sum ^ words[i]!;
    const high = words[i + 1]!;
    sum = TABLES[1792 + (low & 255)]! ^ TABLES[1536 + ((low >>> 8) & 255)]!
      ^ TABLES[1280 + ((low >>> 16) & 255)]! ^ TABLES[1024 + (low >>> 24)]!
      ^ TABLES[768 + (high & 255)]! ^ TABLES[512 + ((high >>> 8) & 255)]!
      ^ TABLES[256 + ((high >>> 16) & 255)]! ^ TABLES[high >>> 24]!;
  }
  at += 4 * count;
  upTo(bytes.length);
  return ~sum >>> 0;
}

/** The order of Python's `sorted`: that of code points, which is that of their UTF-8. */
function inOrder(one: string, other: string): number {
  const [left, right] = [[...one], [...other]];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const difference = left[i]!.codePointAt(0)! - right[i]!.codePointAt(0)!;
    if (difference) return difference;
  }
  return left.length - right.length;
}

function sumOf(bytes: Uint8Array): number {
  if (bytes.length <= PIECE) return crc32(bytes);
  const sums = new Uint8Array(4 * Math.ceil(bytes.length / PIECE));
  const view = new DataView(sums.buffer);
  for (let at = 0; at < bytes.length; at += PIECE) {
    view.setUint32(4 * (at / PIECE), crc32(bytes.subarray(at, at + PIECE)), true);
  }
  return crc32(sums);
}

/** The entry for these tensors and the other metadata. */
export function checksums(
  metadata: ReadonlyMap<string, string>,
  tensors: ReadonlyMap<string, StoredTensor>,
): string {
  const names = [...tensors.keys()].sort(inOrder);
  const sums = names.map((name) => hexadecimal(sumOf(tensors.get(name)!.bytes)));
  const others = [...metadata].filter(([key]) => key !== KEY);
  const entries = others.sort(([one], [other]) => inOrder(one, other));
  const types = names.map((name) => {
    const { stored, shape } = tensors.get(name)!;
    return [name, shown(stored, shape)];
  });
  // Each part begins with an empty text, so that none can pass into the next.
  const texts = ["", ...entries.flat(), "", ...types.flat(), "", ...sums];
  const utf8 = new TextEncoder();
  let header = 0;
  for (const text of texts) {
    const content = utf8.encode(text);
    header = crc32(content, crc32(utf8.encode(`${content.length}:`), header));
  }
  return [MARK, hexadecimal(header), ...sums].join(" ");
}

/** Whether a file has checksums and they are not those of what it holds. */
export function isDamaged(
  metadata: ReadonlyMap<string, string>,
  tensors: ReadonlyMap<string, StoredTensor>,
): boolean {
  const claims = [...metadata].filter(([key, text]) => key === KEY || text.startsWith(MARK));
  if (!claims.length) return false;
  return claims.length > 1 || metadata.get(KEY) !== checksums(metadata, tensors);
}

function hexadecimal(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}
