/** Tensors of files that people have: safetensors, .npy and .npz. */

import { crc32 } from "./checksums.ts";
import { MeganeuraError } from "./problems.ts";
import { parseTensors } from "./safetensors.ts";
import type { Stored, StoredTensor } from "./tensor.ts";
import { elements, STORED_BYTES } from "./tensor.ts";

const KINDS: Readonly<Record<string, Stored>> = {
  "<f8": "f64", "<f4": "f32", "<f2": "f16", "<i8": "i64", "<i4": "i32", "<i2": "i16", "|i1": "i8",
  "<u8": "u64", "<u4": "u32", "<u2": "u16", "|u1": "u8", "|b1": "bool",
};
/** No archive is unpacked further than this. */
const LARGEST = 2 ** 31;

/** The tensors of a file, by name; that of a .npy file has the name of the file. */
export async function readTensors(
  file: string, bytes: Uint8Array,
): Promise<Map<string, StoredTensor>> {
  if (file.endsWith(".npz")) return await readNpz(file, bytes);
  if (file.endsWith(".npy")) return new Map([[file.replace(/\.npy$/, ""), parseNpy(file, bytes)]]);
  if (file.endsWith(".safetensors")) return parseTensors(bytes).tensors;
  const text = `\`${file}\` is no data: .safetensors, .npz and .npy are read`;
  throw new MeganeuraError("E0521", text);
}

/** An array of NumPy: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
export function parseNpy(file: string, bytes: Uint8Array): StoredTensor {
  const refuse = (reason: string) =>
    new MeganeuraError("E0530", `\`${file}\` cannot be read: ${reason}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(1, 6)) !== "NUMPY") {
    throw refuse("it is no array of NumPy");
  }
  const wide = bytes[6]! > 1;
  const start = (wide ? 12 : 10) + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = new TextDecoder("latin1").decode(bytes.subarray(wide ? 12 : 10, start));
  const kind = /'descr': *'([^']*)'/.exec(header)?.[1] ?? "objects";
  const stored = KINDS[kind];
  if (!stored) throw refuse(`it holds ${kind}`);
  if (!/'fortran_order': *False/.test(header)) throw refuse("its columns come first, not its rows");
  const sizes = /'shape': *\(([\d, ]*)\)/.exec(header)?.[1];
  if (sizes === undefined) throw refuse("it has no shape");
  const shape = sizes.split(",").map((size) => size.trim()).filter(Boolean).map(Number);
  const values = bytes.subarray(start);
  if (values.length !== elements(shape) * STORED_BYTES[stored]) throw refuse("it was cut short");
  return { stored, shape, bytes: values };
}

/** A zip archive of arrays: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT */
async function readNpz(file: string, bytes: Uint8Array): Promise<Map<string, StoredTensor>> {
  const refuse = (reason: string) =>
    new MeganeuraError("E0530", `\`${file}\` cannot be read: ${reason}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const inside = (at: number, size: number) => {
    if (at < 0 || at + size > bytes.length) throw refuse("it was cut short");
    return at;
  };
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw refuse("it is no archive");
  const found = new Map<string, StoredTensor>();
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    inside(at, 46);
    const method = view.getUint16(at + 10, true);
    const [packed, size] = [view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const [name, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true));
    const local = inside(view.getUint32(at + 42, true), 30);
    const title = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + name!));
    const first = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    if (packed === 0xffffffff || size > LARGEST) throw refuse(`\`${title}\` is too large`);
    const content = bytes.subarray(inside(first, packed), first + packed);
    if (method !== 0 && method !== 8) throw refuse(`\`${title}\` is packed in a way of its own`);
    const array = method === 0 ? content : await inflated(content, size, refuse);
    if (crc32(array) !== view.getUint32(at + 16, true)) throw refuse(`\`${title}\` is damaged`);
    found.set(title.replace(/\.npy$/, ""), parseNpy(`${file}: ${title}`, array));
    at += 46 + name! + extra! + comment!;
  }
  return found;
}

async function inflated(
  content: Uint8Array, size: number, refuse: (reason: string) => MeganeuraError,
): Promise<Uint8Array> {
  const stream = new Blob([content as Uint8Array<ArrayBuffer>]).stream();
  const reader = stream.pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const whole = new Uint8Array(size);
  let at = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (at + value.length > size) throw new Error("it holds more than it claims");
      whole.set(value, at);
      at += value.length;
    }
  } catch (error) {
    throw refuse((error as Error).message);
  }
  if (at !== size) throw refuse("it holds less than it claims");
  return whole;
}
