/** What an input is given by: one widget for each form. */

import type { Signature, Values } from "../src/index.ts";
import { readTensors } from "../src/index.ts";
import { elements, shown, storedValues } from "../src/tensor.ts";
import { chooser, el, takeDropped } from "./dom.ts";
import type { BytesForm, InputForm, MaskForm, NumbersForm, PictureForm, SoundForm } from "./form.ts";
import { centered, ON_HOST, pixelsOf, prepared, unprepared } from "./picture.ts";
import { decoded, logMel, RATE } from "./sound.ts";
import type { TextReader } from "../src/wordpiece.ts";

declare global {
  /** Of pages that read texts: it makes their tokenizer of a tokenizer.json. */
  var meganeuraReader: ((text: string) => TextReader) | undefined;
}

/** A widget: `read` gives the values of its input, or throws words for people. */
export interface Widget {
  readonly element: HTMLElement;
  /** Its buttons, below it. */
  readonly row: HTMLElement;
  readonly read: () => Values;
  /** A request to the reader while nothing was given; `null` once something was. */
  readonly missing: () => string | null;
  /** Takes files, where files are one way to give the input. */
  readonly files?: { readonly accepts: (file: File) => boolean; readonly take: Take };
  /** Of a text: how many bytes or tokens of it are fed. */
  readonly text?: () => number;
}

type Take = (files: File[]) => void;

const CANVAS = 280;
const PEN = 24;
/** A frame of at most so many pixels a side is for what is drawn: its middle is found first. */
const SMALL = 64;

/** The widget of an input; `others` gives those of other inputs, once all are made. */
export function widgetFor(
  input: Signature, form: InputForm, changed: () => void, others: (name: string) => Widget,
): Widget {
  switch (form.kind) {
    case "picture":
      return pictureWidget(input, form, changed);
    case "sound":
      return soundWidget(input, form, changed);
    case "bytes":
      return bytesWidget(input, form, changed);
    case "tokens":
      return tokensWidget(input, changed);
    case "mask":
      return maskWidget(input, form, others);
    case "numbers":
      return numbersWidget(input, form, changed);
  }
}

// --- pictures ------------------------------------------------------------------------------------

/** A canvas to draw on, which also takes pictures. */
export function drawing(
  form: PictureForm, changed: () => void, failed: (text: string) => void, hint = "draw here",
) {
  const canvas = el("canvas", { width: CANVAS, height: CANVAS, className: "drawing" });
  canvas.setAttribute("aria-label", "draw here");
  const frame = el("div", { className: "frame", data: { hint } }, canvas);
  const context = canvas.getContext("2d", ON_HOST)!;
  let dropped: ImageBitmap | null = null;
  const clear = () => {
    dropped = null;
    [canvas.width, canvas.height] = [CANVAS, CANVAS];
    context.fillStyle = "black";
    context.fillRect(0, 0, CANVAS, CANVAS);
    frame.classList.add("empty");
  };
  const place = (event: PointerEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * canvas.width,
      ((event.clientY - box.top) / box.height) * canvas.height,
    ];
  };
  let from: [number, number] | null = null;
  const line = (to: [number, number]) => {
    context.strokeStyle = "white";
    context.lineWidth = PEN;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...from!);
    context.lineTo(...to);
    context.stroke();
    from = to;
  };
  canvas.onpointerdown = (event) => {
    if (dropped) clear();
    frame.classList.remove("empty");
    canvas.setPointerCapture(event.pointerId);
    from = place(event);
    line(from);
  };
  canvas.onpointermove = (event) => {
    if (from) line(place(event));
  };
  canvas.onpointerup = canvas.onpointercancel = () => {
    if (from) changed();
    from = null;
  };
  const take = async ([file]: File[]) => {
    try {
      dropped = await createImageBitmap(file!);
    } catch {
      failed(`\`${file!.name}\` is no picture that this browser reads`);
      return;
    }
    frame.classList.remove("empty");
    [canvas.width, canvas.height] = [dropped.width, dropped.height];
    context.drawImage(dropped, 0, 0);
    changed();
  };
  takeDropped(canvas, take);
  clear();
  const isEmpty = () => frame.classList.contains("empty");
  const isDropped = () => dropped !== null;
  const read = (center: boolean): Float32Array => {
    const source = center && !dropped ? centered(canvas) : canvas;
    const image = source.getContext("2d")!.getImageData(0, 0, source.width, source.height);
    return prepared(pixelsOf(image, form.colors), form);
  };
  return { frame, clear, take, read, isEmpty, isDropped };
}

function pictureWidget(input: Signature, form: PictureForm, changed: () => void): Widget {
  const small = Math.max(form.crop.height, form.crop.width) <= SMALL;
  const hint = small ? "draw here, or drop a picture anywhere" : "drop a picture anywhere";
  const seen = el("canvas", { className: "seen", width: form.crop.width, height: form.crop.height });
  seen.setAttribute("aria-label", "what the model sees");
  const note = el("p", { className: "note" });
  const update = () => {
    note.textContent = "";
    figure.hidden = clear.hidden = pad.isEmpty();
    fit.hidden = pad.isEmpty() || pad.isDropped();
    show(seen, unprepared(read(), form), form, [0, 255]);
    changed();
  };
  const pad = drawing(form, update, (text) => (note.textContent = text), hint);
  const center = el("input", { type: "checkbox", checked: small, onchange: update });
  const read = () => pad.read(center.checked);
  const clear = el("button", { type: "button", hidden: true }, "Clear");
  clear.onclick = () => { pad.clear(); update(); };
  const figure = el("figure", { hidden: true }, seen,
    el("figcaption", {}, "what the model sees"));
  const fit = el("label", { className: "check", hidden: true }, center,
    "fit what is drawn to the frame");
  const row = el("div", { className: "row" },
    chooser("Choose a picture", "image/*", pad.take), clear);
  const element = el("div", { className: "picture" }, pad.frame,
    el("div", { className: "row" }, figure, fit), row, note);
  return {
    element, row, read: () => sized(input, read()),
    missing: () => (pad.isEmpty() ? `${small ? "draw, or " : ""}drop a picture` : null),
    files: { accepts: (file) => file.type.startsWith("image/"), take: pad.take },
  };
}

/** Draw the values of a picture: the least of them, or of a range, black and the largest white. */
export function show(
  canvas: HTMLCanvasElement, values: ArrayLike<number>,
  form: { readonly colors: number; readonly crop: { height: number; width: number } },
  range?: readonly [number, number],
): void {
  const { colors, crop: { height, width } } = form;
  [canvas.width, canvas.height] = [width, height];
  let [least, most] = range ?? [Infinity, -Infinity];
  for (let i = 0; i < values.length && !range; i++) {
    least = Math.min(least, values[i]!);
    most = Math.max(most, values[i]!);
  }
  const scale = 255 / (most - least || 1);
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let color = 0; color < 3; color++) {
      const value = values[(color % colors) * width * height + i]!;
      image.data[4 * i + color] = (value - least) * scale;
    }
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d", ON_HOST)!.putImageData(image, 0, 0);
}

// --- sounds --------------------------------------------------------------------------------------

function soundWidget(input: Signature, form: SoundForm, changed: () => void): Widget {
  let values = logMel(new Float32Array(0), form.mels, form.frames);
  let isGiven = false;
  const seconds = (form.frames * 160) / RATE;
  const seen = el("canvas", { className: "spectrogram" });
  const note = el("p", { className: "note" }, `${seconds} s of sound; silence so far`);
  const draw = () => {
    const flipped = Float32Array.from(values, (_, i) => {
      const row = form.mels - 1 - Math.floor(i / form.frames);
      return values[row * form.frames + (i % form.frames)]!;
    });
    show(seen, flipped, { colors: 1, crop: { height: form.mels, width: form.frames } });
  };
  const take = async (file: Blob) => {
    let samples: Float32Array;
    try {
      samples = await decoded(file);
    } catch {
      note.textContent = "this is no sound that this browser reads";
      return;
    }
    const heard = samples.length / RATE;
    note.textContent = heard > seconds
      ? `the first ${seconds} s of ${heard.toFixed(1)} s` : `${heard.toFixed(1)} s, then silence`;
    values = logMel(samples.subarray(0, seconds * RATE), form.mels, form.frames);
    isGiven = true;
    draw();
    changed();
  };
  let recorder: MediaRecorder | null = null;
  const button = el("button", { type: "button" }, "Record");
  button.onclick = async () => {
    if (recorder) {
      recorder.stop();
      return;
    }
    let stream: MediaStream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch (error) {
      note.textContent = `there is no microphone here: ${(error as Error).message}`;
      return;
    }
    const parts: Blob[] = [];
    recorder = new MediaRecorder(stream);
    recorder.ondataavailable = ({ data }) => parts.push(data);
    recorder.onstop = () => {
      for (const track of stream.getTracks()) track.stop();
      recorder = null;
      button.textContent = "Record";
      void take(new Blob(parts));
    };
    recorder.start();
    button.textContent = "Stop";
    setTimeout(() => recorder?.stop(), seconds * 1000);
  };
  draw();
  const takeFirst: Take = ([first]) => void take(first!);
  const row = el("div", { className: "row" }, chooser("Choose a sound", "audio/*", takeFirst), button);
  const element = el("div", { className: "sound" }, seen, row, note);
  return {
    element, row, read: () => sized(input, values),
    missing: () => (isGiven ? null : "drop a sound, or record one"),
    files: { accepts: (file) => file.type.startsWith("audio/"), take: takeFirst },
  };
}

// --- texts and numbers ---------------------------------------------------------------------------

/** An area for a text, which also takes files of text; `update` is told of each change. */
function writing(update: (text: string) => void) {
  const area = el("textarea", {
    rows: 8, spellcheck: false, placeholder: "write here, or drop a file of text anywhere",
  });
  const note = el("p", { className: "note" });
  area.oninput = () => update(area.value);
  const take: Take = async ([file]) => {
    area.value = await file!.text();
    update(area.value);
  };
  const row = el("div", { className: "row" });
  const isText = (file: File) => file.type.startsWith("text/") || /\.(txt|md)$/.test(file.name);
  return {
    note, row, element: el("div", { className: "writing" }, area, row, note),
    missing: () => (area.value ? null : "write a text"),
    files: { accepts: isText, take },
  };
}

function bytesWidget(input: Signature, _form: BytesForm, changed: () => void): Widget {
  const length = elements(input.shape);
  let whole: number[] = [];
  const bytes = () => whole.slice(-length);
  const { note, ...area } = writing((text) => {
    whole = [...new TextEncoder().encode(text)];
    note.textContent = whole.length > length
      ? `the last ${length} of ${whole.length} bytes` : `${whole.length} of ${length} bytes`;
    changed();
  });
  const read = () => {
    const values = new Int32Array(length);
    values.set(bytes());
    return input.dtype === "i32" ? values : Uint32Array.from(values);
  };
  return { ...area, read, text: () => bytes().length };
}

function tokensWidget(input: Signature, changed: () => void): Widget {
  const length = elements(input.shape);
  const reader = meganeuraReader!(document.getElementById("meganeura-tokenizer")!.textContent!);
  let tokens: number[] = reader.encode("", length);
  const { note, ...area } = writing((text) => {
    const whole = reader.encode(text);
    tokens = reader.encode(text, length);
    note.textContent = whole.length > length
      ? `${length} of the text's ${whole.length} tokens` : `${whole.length} of ${length} tokens`;
    changed();
  });
  const read = () => {
    const padded = Array.from({ length }, (_, i) => tokens[i] ?? reader.pad);
    return input.dtype === "i32" ? Int32Array.from(padded) : Uint32Array.from(padded);
  };
  return { ...area, read, text: () => tokens.length };
}

function maskWidget(input: Signature, form: MaskForm, others: (name: string) => Widget): Widget {
  const note = el("p", { className: "note" }, `the tokens of the text in ${form.of}`);
  const read = () => {
    const count = others(form.of).text!();
    return Uint32Array.from({ length: elements(input.shape) }, (_, i) => +(i < count));
  };
  return { element: note, row: el("div", {}), read, missing: () => null };
}

function numbersWidget(input: Signature, _form: NumbersForm, changed: () => void): Widget {
  const count = elements(input.shape);
  const whole = input.dtype !== "f32" && input.dtype !== "f16";
  const area = el("textarea", { rows: 6, spellcheck: false });
  const note = el("p", { className: "note" });
  const zeros = Array.from({ length: Math.min(count, 4096) }, () => 0);
  let values: ArrayLike<number> | null = count > zeros.length ? new Float32Array(count) : null;
  area.value = values ? "" : rows(zeros, input.shape);
  area.placeholder = values ? `${count.toLocaleString("en")} numbers: drop a file anywhere` : "";
  let isGiven = values === null;
  area.oninput = () => {
    values = null;
    isGiven = true;
    note.textContent = "";
    changed();
  };
  const set = (numbers: ArrayLike<number>, from: string) => {
    values = numbers.length > zeros.length ? numbers : null;
    isGiven = true;
    area.value = values ? "" : rows(Array.from(numbers), input.shape);
    note.textContent = from;
    changed();
  };
  const take = async ([file]: File[]) => {
    try {
      const found = await readTensors(file!.name, new Uint8Array(await file!.arrayBuffer()));
      const tensor = found.get(input.name) ?? (found.size === 1 ? [...found.values()][0] : undefined);
      if (!tensor) throw new Error(`\`${file!.name}\` has no tensor \`${input.name}\``);
      if (String(tensor.shape) !== String(input.shape)) {
        const given = shown(tensor.stored, tensor.shape);
        throw new Error(`\`${file!.name}\` holds ${given}, not ${shown(input.dtype, input.shape)}`);
      }
      set(Array.from(storedValues(tensor), Number), `from ${file!.name}`);
    } catch (error) {
      note.textContent = (error as Error).message;
    }
  };
  const random = () => {
    const draw = () => (whole ? Math.floor(Math.random() * (input.count ?? 2)) : normal());
    set(Array.from({ length: count }, draw), "random");
  };
  const file = chooser("Choose a file", ".npy,.npz,.safetensors", take);
  const button = el("button", { type: "button", onclick: random }, "Random");
  const read = () => {
    const text = area.value.split(/[\s,;[\]]+/).filter(Boolean);
    const numbers = values ?? text.map(Number);
    const wrong = values ? undefined : text.find((each) => Number.isNaN(Number(each)));
    if (wrong !== undefined) throw new Error(`\`${wrong}\` is no number`);
    return sized(input, numbers);
  };
  const row = el("div", { className: "row" }, file, button);
  return {
    element: el("div", {}, area, row, note), row, read,
    missing: () => (isGiven ? null : "drop a file of numbers (.npy, .npz or .safetensors)"),
    files: { accepts: (given) => /\.(npy|npz|safetensors)$/.test(given.name), take },
  };
}

function normal(): number {
  const radius = Math.sqrt(-2 * Math.log(1 - Math.random()));
  return +(radius * Math.cos(2 * Math.PI * Math.random())).toFixed(4);
}

function rows(numbers: readonly number[], shape: readonly number[]): string {
  const width = Math.max(1, shape.at(-1) ?? 1);
  const lines: string[] = [];
  for (let at = 0; at < numbers.length; at += width) {
    lines.push(numbers.slice(at, at + width).join(" "));
  }
  return lines.join("\n");
}

function sized(input: Signature, numbers: ArrayLike<number>): Values {
  const count = elements(input.shape);
  if (numbers.length !== count) {
    throw new Error(`\`${input.name}\` takes ${count} numbers, and these are ${numbers.length}`);
  }
  if (input.dtype === "i32") return Int32Array.from(numbers);
  const float = input.dtype === "f32" || input.dtype === "f16";
  return float ? Float32Array.from(numbers) : Uint32Array.from(numbers);
}

/** What people give an input, in words. */
export function described(input: Signature, form: InputForm): string {
  const count = elements(input.shape);
  switch (form.kind) {
    case "picture":
      return `${form.colors === 1 ? "grey picture" : "picture"}, ${form.crop.width} by ${form.crop.height}`;
    case "sound":
      return `sound of ${(form.frames * 160) / RATE} s`;
    case "bytes":
      return `text of up to ${count} bytes`;
    case "tokens":
      return `text of up to ${count} tokens`;
    case "mask":
      return "follows from the text";
    case "numbers":
      return numbersOf(count, input);
  }
}

function numbersOf(count: number, { dtype, shape, count: kinds }: Signature): string {
  const whole = dtype === "f32" || dtype === "f16" ? "" : "whole ";
  const sizes = shape.filter((size) => size !== 1);
  const table = sizes.length > 1 ? `, ${sizes.join(" by ")}` : "";
  const range = kinds === undefined ? "" : ` from 0 to ${kinds - 1}`;
  return `${count.toLocaleString("en")} ${whole}${count === 1 ? "number" : "numbers"}${table}${range}`;
}
