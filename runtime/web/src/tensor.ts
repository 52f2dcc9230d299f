/** Element types, and tensors as the host has them. */

/** Element types that graphs compute with. */
export type DType = "f32" | "f16" | "i32" | "u32" | "bool";

/** Element types that files hold. */
export type Stored = DType | "f64" | "bf16" | "i64" | "i16" | "i8" | "u64" | "u16" | "u8";

/** The values of a tensor of a graph: f16 values are held as f32, bools as 0 and 1 in u32. */
export type Values = Float32Array | Int32Array | Uint32Array;

/** A tensor on the host, in row-major order. */
export interface Tensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data: Values;
}

/** A tensor of a file: bits in little-endian order. */
export interface StoredTensor {
  readonly stored: Stored;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** Bytes of an element in a file. */
export const STORED_BYTES: Readonly<Record<Stored, number>> = {
  f64: 8, f32: 4, f16: 2, bf16: 2, i64: 8, i32: 4, i16: 2, i8: 1, u64: 8, u32: 4, u16: 2, u8: 1,
  bool: 1,
};

/** Elements that a shape has. */
export function elements(shape: readonly number[]): number {
  return shape.reduce((count, size) => count * size, 1);
}

/** A type in words: `f32[2, 3]`. */
export function shown(dtype: string, shape: readonly number[]): string {
  return `${dtype}[${shape.join(", ")}]`;
}

/** Bytes of an element in a buffer of the device; a bool takes four there. */
export function deviceBytes(dtype: DType): number {
  return dtype === "f16" ? 2 : 4;
}

const buffer = new DataView(new ArrayBuffer(4));

/** The float of the bits of an f16. */
export function halfToFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The bits of the f16 nearest to a float, ties to even. */
export function floatToHalf(value: number): number {
  buffer.setFloat32(0, value);
  const sign = (buffer.getUint32(0) >>> 16) & 0x8000;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 2 ** -14)));
  const step = 2 ** (exponent - 10);
  const count = roundToEven(size / step);
  if (exponent === -14) return sign | count;
  return sign | (((exponent + 15) << 10) + (count - 1024));
}

function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** Values as the bytes that a buffer of the device holds, a whole number of words. */
export function toDevice(dtype: DType, data: Values): Uint8Array<ArrayBuffer> {
  if (dtype !== "f16") return new Uint8Array(data.slice().buffer as ArrayBuffer);
  const halves = new Uint16Array(data.length + (data.length % 2));
  data.forEach((value, i) => (halves[i] = floatToHalf(value)));
  return new Uint8Array(halves.buffer);
}

/** The values of bytes that a buffer of the device held. */
export function fromDevice(dtype: DType, bytes: Uint8Array, count: number): Values {
  const own = bytes.slice().buffer;
  switch (dtype) {
    case "f32":
      return new Float32Array(own, 0, count);
    case "f16":
      return Float32Array.from(new Uint16Array(own, 0, count), halfToFloat);
    case "i32":
      return new Int32Array(own, 0, count);
    case "u32":
    case "bool":
      return new Uint32Array(own, 0, count);
  }
}

/** The numbers of a tensor of a file; 64-bit integers are `bigint`. */
export function storedValues(tensor: StoredTensor): ArrayLike<number> | ArrayLike<bigint> {
  const own = tensor.bytes.slice().buffer;
  switch (tensor.stored) {
    case "f64":
      return new Float64Array(own);
    case "f32":
      return new Float32Array(own);
    case "f16":
      return Float32Array.from(new Uint16Array(own), halfToFloat);
    case "bf16":
      return new Float32Array(Uint32Array.from(new Uint16Array(own), (bits) => bits << 16).buffer);
    case "i64":
      return new BigInt64Array(own);
    case "u64":
      return new BigUint64Array(own);
    case "i32":
      return new Int32Array(own);
    case "u32":
      return new Uint32Array(own);
    case "i16":
      return new Int16Array(own);
    case "u16":
      return new Uint16Array(own);
    case "i8":
      return new Int8Array(own);
    case "u8":
    case "bool":
      return new Uint8Array(own);
  }
}

/** Whether a file holds real numbers. */
export function isFloat(stored: Stored): boolean {
  return stored === "f64" || stored === "f32" || stored === "f16" || stored === "bf16";
}

/** Values of a type of graphs as a file holds them; bools take a byte there. */
export function toStored(stored: Stored, dtype: DType, data: Values): Uint8Array {
  if (stored === dtype && dtype !== "bool") {
    return dtype === "f16" ? toDevice("f16", data).subarray(0, 2 * data.length) : bytesOf(data);
  }
  switch (stored) {
    case "f64":
      return bytesOf(Float64Array.from(data));
    case "f32":
      return bytesOf(Float32Array.from(data));
    case "f16":
      return bytesOf(Uint16Array.from(data, floatToHalf));
    case "bf16":
      return bytesOf(Uint16Array.from(data, floatToBrain));
    case "i64":
    case "u64":
      return bytesOf(BigInt64Array.from(data as unknown as number[], BigInt));
    case "i32":
    case "u32":
      return bytesOf(Int32Array.from(data));
    case "i16":
    case "u16":
      return bytesOf(Int16Array.from(data));
    case "i8":
    case "u8":
    case "bool":
      return bytesOf(Int8Array.from(data));
  }
}

/** The bits of the bf16 nearest to a float, ties to even. */
function floatToBrain(value: number): number {
  buffer.setFloat32(0, value);
  const bits = buffer.getUint32(0);
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** The bytes of an array. */
export function bytesOf(data: ArrayBufferView): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
