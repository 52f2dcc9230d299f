/** The safetensors format: eight bytes of length, a JSON header, then the values. */

import { checksums, isDamaged, KEY, PIECES } from "./checksums.ts";
import { MeganeuraError } from "./problems.ts";
import type { Stored, StoredTensor } from "./tensor.ts";
import { elements, STORED_BYTES } from "./tensor.ts";

const METADATA = "__metadata__";

/** The tensors of a file, and its metadata without the checksums. */
export interface TensorFile {
  readonly tensors: Map<string, StoredTensor>;
  readonly metadata: Map<string, string>;
}

/** Read a file; throws `MeganeuraError` where it is none, contradicts itself, or is damaged. */
export function parseTensors(bytes: Uint8Array): TensorFile {
  if (bytes.length < 8) throw unreadable("it is too short for a safetensors file");
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length > BigInt(bytes.length - 8)) throw unreadable("its header ends behind its end");
  const start = 8 + Number(length);
  const header = parseHeader(bytes.subarray(8, start));
  const metadata = new Map<string, string>();
  for (const [key, text] of Object.entries(header[METADATA] ?? {})) {
    if (typeof text !== "string") throw unreadable(`its metadata \`${key}\` is no text`);
    metadata.set(key, text);
  }
  const tensors = new Map<string, StoredTensor>();
  const places: [number, number][] = [];
  for (const [name, entry] of Object.entries(header)) {
    if (name === METADATA) continue;
    const { tensor, place } = parseTensor(name, entry, bytes.subarray(start));
    tensors.set(name, tensor);
    places.push(place);
  }
  requireNoHoles(places, bytes.length - start);
  if (isDamaged(metadata, tensors)) {
    const text = "this file is damaged: it is not what its checksums say it was";
    throw new MeganeuraError("E0542", text, "get it again from where it is from");
  }
  metadata.delete(KEY);
  metadata.delete(PIECES);
  return { tensors, metadata };
}

function parseHeader(bytes: Uint8Array): Record<string, Record<string, unknown>> {
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw unreadable("its header is no JSON");
  }
  if (!isRecord(header) || !Object.values(header).every(isRecord)) {
    throw unreadable("its header does not list tensors");
  }
  return header as Record<string, Record<string, unknown>>;
}

function parseTensor(
  name: string,
  entry: Record<string, unknown>,
  values: Uint8Array,
): { tensor: StoredTensor; place: [number, number] } {
  const { dtype, shape, data_offsets: offsets } = entry;
  const stored = String(dtype).toLowerCase();
  if (!(stored in STORED_BYTES)) throw unreadable(`\`${name}\` has the type ${stored}`);
  if (!isSizes(shape) || !isSizes(offsets) || offsets.length !== 2) {
    throw unreadable(`\`${name}\` has no shape or no place`);
  }
  const [first, last] = offsets as [number, number];
  const size = elements(shape) * STORED_BYTES[stored as Stored];
  if (last > values.length || last - first !== size) {
    throw unreadable(`\`${name}\` does not lie where it says`);
  }
  const tensor = { stored: stored as Stored, shape, bytes: values.subarray(first, last) };
  return { tensor, place: [first, last] };
}

function requireNoHoles(places: [number, number][], size: number): void {
  let end = 0;
  for (const [first, last] of places.sort((one, other) => one[0] - other[0] || one[1] - other[1])) {
    if (first !== end) throw unreadable("its tensors overlap, or leave holes");
    end = last;
  }
  if (end !== size) throw unreadable("there is more in it than its tensors");
}

/** A file of these tensors and this metadata, with checksums. */
export function serializeTensors(
  tensors: ReadonlyMap<string, StoredTensor>,
  metadata: ReadonlyMap<string, string>,
): Uint8Array<ArrayBuffer> {
  const names = [...tensors.keys()].sort();
  // The widest first, so that each lies at a multiple of its width.
  names.sort((one, other) => width(tensors.get(other)!) - width(tensors.get(one)!));
  const header: Record<string, unknown> = {
    [METADATA]: { ...Object.fromEntries(metadata), [KEY]: checksums(metadata, tensors) },
  };
  let end = 0;
  for (const name of names) {
    const { stored, shape, bytes } = tensors.get(name)!;
    header[name] = {
      dtype: stored.toUpperCase(), shape, data_offsets: [end, (end += bytes.length)],
    };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = 8 + Math.ceil(text.length / 8) * 8;
  const file = new Uint8Array(start + end).fill(32, 8, start);
  new DataView(file.buffer).setBigUint64(0, BigInt(start - 8), true);
  file.set(text, 8);
  let at = start;
  for (const name of names) {
    const { bytes } = tensors.get(name)!;
    file.set(bytes, at);
    at += bytes.length;
  }
  return file;
}

function width(tensor: StoredTensor): number {
  return STORED_BYTES[tensor.stored];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

function unreadable(reason: string): MeganeuraError {
  return new MeganeuraError("E0530", `this file cannot be read: ${reason}`);
}
