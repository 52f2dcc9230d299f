/** Pictures as networks are fed them, by the steps and roundings of Pillow and torchvision. */

import type { PictureForm } from "./form.ts";

/** Bytes of pixels, row by row, the colours of a pixel together. */
export interface Pixels {
  readonly height: number;
  readonly width: number;
  readonly colors: number;
  readonly bytes: Uint8ClampedArray;
}

/** Of a canvas that is written or read pixel by pixel, which the GPU would have to wait for. */
export const ON_HOST: CanvasRenderingContext2DSettings = { willReadFrequently: true };

/** Pillow's weights are whole multiples of 1 / FIXED. */
const FIXED = 1 << 22;

type Kernel = { readonly support: number; readonly weight: (x: number) => number };

const sinc = (x: number) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
const KERNELS: Readonly<Record<Exclude<PictureForm["filter"], "nearest">, Kernel>> = {
  box: { support: 0.5, weight: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: { support: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  hamming: { support: 1, weight: (x) => sinc(x) * (0.54 + 0.46 * Math.cos(Math.PI * x)) },
  bicubic: { support: 2, weight: cubic },
  lanczos: { support: 3, weight: (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

function cubic(x: number): number {
  const size = Math.abs(x);
  if (size < 1) return (1.5 * size - 2.5) * size * size + 1;
  return size < 2 ? ((-0.5 * size + 2.5) * size - 4) * size + 2 : 0;
}

/** The colours of a canvas, or its grey as Pillow computes it. */
export function pixelsOf(image: ImageData, colors: number): Pixels {
  const { data, height, width } = image;
  const bytes = new Uint8ClampedArray(height * width * colors);
  for (let i = 0; i < height * width; i++) {
    const [r, g, b] = [data[4 * i]!, data[4 * i + 1]!, data[4 * i + 2]!];
    if (colors === 1) bytes[i] = (19595 * r + 38470 * g + 7471 * b + 0x8000) >> 16;
    else bytes.set([r, g, b], 3 * i);
  }
  return { height, width, colors, bytes };
}

/** The tensor `[colors, height, width]` of a picture. */
export function prepared(picture: Pixels, form: PictureForm): Float32Array {
  const { resize, crop } = form;
  let { height, width } = resize ?? picture;
  if (resize?.covers) {
    if (picture.height * width >= picture.width * height) {
      height = Math.floor((width * picture.height) / picture.width);
    } else {
      width = Math.floor((height * picture.width) / picture.height);
    }
  }
  const resized = resample(picture, height, width, form.filter);
  const top = corner(height - crop.height, crop.roundsDown);
  const left = corner(width - crop.width, crop.roundsDown);
  const values = new Float32Array(form.colors * crop.height * crop.width);
  let at = 0;
  for (let color = 0; color < form.colors; color++) {
    const mean = form.mean[color % form.mean.length]!;
    const std = form.std[color % form.std.length]!;
    for (let y = 0; y < crop.height; y++) {
      for (let x = 0; x < crop.width; x++) {
        const inside = top + y >= 0 && top + y < height && left + x >= 0 && left + x < width;
        const place = ((top + y) * width + left + x) * form.colors + color;
        const byte = inside ? resized.bytes[place]! : 0;
        values[at++] = (byte * form.scale - mean) / std;
      }
    }
  }
  return values;
}

/** The nearest whole number; half goes away from zero. */
function rounded(value: number): number {
  return Math.trunc(value + (value < 0 ? -0.5 : 0.5));
}

/** The bytes that prepared values were made of. */
export function unprepared(values: Float32Array, form: PictureForm): Float32Array {
  const size = values.length / form.colors;
  return values.map((value, i) => {
    const color = Math.floor(i / size);
    const mean = form.mean[color % form.mean.length]!;
    return (value * form.std[color % form.std.length]! + mean) / form.scale;
  });
}

/** Half of what is cut off; half a pixel goes down, or to the even side. */
function corner(spare: number, roundsDown: boolean): number {
  const down = Math.floor(spare / 2);
  return roundsDown || spare % 2 === 0 || down % 2 === 0 ? down : down + 1;
}

/** A picture of another size: a filter along the rows, then along the columns, each rounded. */
export function resample(
  picture: Pixels, height: number, width: number, filter: PictureForm["filter"],
): Pixels {
  const wide = along(picture, width, filter, true);
  return along(wide, height, filter, false);
}

function along(
  picture: Pixels, size: number, filter: PictureForm["filter"], rows: boolean,
): Pixels {
  const old = rows ? picture.width : picture.height;
  if (old === size) return picture;
  const { colors } = picture;
  const height = rows ? picture.height : size;
  const width = rows ? size : picture.width;
  const bytes = new Uint8ClampedArray(height * width * colors);
  const step = (rows ? 1 : picture.width) * colors;
  for (let to = 0; to < size; to++) {
    const { first, weights } = weightsOf(to, old, size, filter);
    const across = rows ? picture.height : picture.width;
    for (let other = 0; other < across; other++) {
      const source = (rows ? other * picture.width : other) * colors;
      const target = (rows ? other * width + to : to * width + other) * colors;
      for (let color = 0; color < colors; color++) {
        let sum = 0;
        weights.forEach((weight, i) => {
          sum += weight * picture.bytes[source + (first + i) * step + color]!;
        });
        bytes[target + color] = Math.floor((sum + FIXED / 2) / FIXED);
      }
    }
  }
  return { height, width, colors, bytes };
}

function weightsOf(
  to: number, old: number, size: number, filter: PictureForm["filter"],
): { first: number; weights: number[] } {
  const scale = old / size;
  const center = (to + 0.5) * scale;
  if (filter === "nearest") {
    // Pillow adds the scale again and again, with its roundings.
    let place = scale / 2;
    for (let i = 0; i < to; i++) place += scale;
    return { first: Math.min(old - 1, Math.floor(place)), weights: [FIXED] };
  }
  const { support, weight } = KERNELS[filter];
  const wide = Math.max(1, scale);
  const first = Math.max(0, Math.floor(center - support * wide + 0.5));
  const last = Math.min(old, Math.floor(center + support * wide + 0.5));
  const weights = Array.from({ length: last - first }, (_, i) =>
    weight((first + i - center + 0.5) / wide));
  const sum = weights.reduce((total, each) => total + each, 0);
  return { first, weights: weights.map((each) => rounded((each / sum) * FIXED)) };
}

/** What is drawn on a black canvas, made as large as its frame and put into the middle. */
export function centered(canvas: HTMLCanvasElement): HTMLCanvasElement {
  const { width, height } = canvas;
  const data = canvas.getContext("2d")!.getImageData(0, 0, width, height).data;
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let i = 0; i < width * height; i++) {
    if (data[4 * i]! + data[4 * i + 1]! + data[4 * i + 2]! < 96) continue;
    const [x, y] = [i % width, Math.floor(i / width)];
    [left, right] = [Math.min(left, x), Math.max(right, x)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
  }
  if (right < 0) return canvas;
  const made = document.createElement("canvas");
  [made.width, made.height] = [width, height];
  const context = made.getContext("2d", ON_HOST)!;
  context.fillRect(0, 0, width, height);
  const [w, h] = [right - left + 1, bottom - top + 1];
  const scale = Math.min(width / w, height / h);
  const [x, y] = [(width - w * scale) / 2, (height - h * scale) / 2];
  context.drawImage(canvas, left, top, w, h, x, y, w * scale, h * scale);
  return made;
}
