/** What an input is given by: one widget for each form. */

import type { Signature, Values } from "../src/index.ts";
import { readTensors } from "../src/index.ts";
import { elements, shown, storedValues } from "../src/tensor.ts";
import { dropzone, el, fill, takeDropped } from "./dom.ts";
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
  readonly read: () => Values;
  /** Of a text: how many bytes or tokens of it are fed. */
  readonly text?: () => number;
}

const CANVAS = 280;
const PEN = 24;
/** A frame of so many pixels is for what is drawn: its middle is found first. */
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
export function drawing(form: PictureForm, changed: () => void, failed: (text: string) => void) {
  const canvas = el("canvas", { width: CANVAS, height: CANVAS, className: "drawing" });
  canvas.setAttribute("aria-label", "draw here");
  const frame = el("div", { className: "frame" }, canvas);
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
  const read = (center: boolean): Float32Array => {
    const source = center && !dropped ? centered(canvas) : canvas;
    const image = source.getContext("2d")!.getImageData(0, 0, source.width, source.height);
    return prepared(pixelsOf(image, form.colors), form);
  };
  return { frame, clear, take, read };
}

function pictureWidget(input: Signature, form: PictureForm, changed: () => void): Widget {
  const seen = el("canvas", { className: "seen", width: form.crop.width, height: form.crop.height });
  seen.setAttribute("aria-label", "what the model sees");
  const note = el("p", { className: "note" });
  const update = () => {
    note.textContent = "";
    show(seen, unprepared(read(), form), form, [0, 255]);
    changed();
  };
  const pad = drawing(form, update, (text) => (note.textContent = text));
  const small = Math.max(form.crop.height, form.crop.width) <= SMALL;
  const center = el("input", { type: "checkbox", checked: small, onchange: update });
  const read = () => pad.read(center.checked);
  const clear = el("button", { type: "button", onclick: () => { pad.clear(); update(); } }, "Clear");
  const file = dropzone("Drop a picture, or choose one", "image/*", pad.take);
  show(seen, unprepared(read(), form), form, [0, 255]);
  const element = el(
    "div", { className: "picture" },
    pad.frame,
    el("div", { className: "side" },
      el("figure", {}, seen, el("figcaption", {}, `what the model sees`)),
      el("label", { className: "check" }, center, "fit what is drawn to the frame"),
      clear, file, note),
  );
  return { element, read: () => sized(input, read()) };
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
  const file = dropzone("Drop a sound, or choose one", "audio/*", ([first]) => void take(first!));
  const element = el("div", { className: "sound" }, seen, button, file, note);
  return { element, read: () => sized(input, values) };
}

// --- texts and numbers ---------------------------------------------------------------------------

function bytesWidget(input: Signature, _form: BytesForm, changed: () => void): Widget {
  const length = elements(input.shape);
  const area = el("textarea", { rows: 5, value: "The ", spellcheck: false });
  const note = el("p", { className: "note" });
  let whole = [...new TextEncoder().encode(area.value)];
  const bytes = () => whole.slice(-length);
  const update = () => {
    note.textContent = whole.length > length
      ? `the last ${length} of ${whole.length} bytes` : `${whole.length} of ${length} bytes`;
  };
  area.oninput = () => {
    whole = [...new TextEncoder().encode(area.value)];
    update();
    changed();
  };
  update();
  const read = () => {
    const values = new Int32Array(length);
    values.set(bytes());
    return input.dtype === "i32" ? values : Uint32Array.from(values);
  };
  const element = el("div", {}, area, note);
  return { element, read, text: () => bytes().length };
}

function tokensWidget(input: Signature, changed: () => void): Widget {
  const length = elements(input.shape);
  const reader = meganeuraReader!(document.getElementById("meganeura-tokenizer")!.textContent!);
  const area = el("textarea", { rows: 5, value: "The quick brown fox", spellcheck: false });
  const note = el("p", { className: "note" });
  let tokens: number[] = [];
  const update = () => {
    const whole = reader.encode(area.value);
    tokens = reader.encode(area.value, length);
    note.textContent = whole.length > length
      ? `${length} of the text's ${whole.length} tokens` : `${whole.length} of ${length} tokens`;
  };
  area.oninput = () => {
    update();
    changed();
  };
  update();
  const read = () => {
    const padded = Array.from({ length }, (_, i) => tokens[i] ?? reader.pad);
    return input.dtype === "i32" ? Int32Array.from(padded) : Uint32Array.from(padded);
  };
  return { element: el("div", {}, area, note), read, text: () => tokens.length };
}

function maskWidget(input: Signature, form: MaskForm, others: (name: string) => Widget): Widget {
  const note = el("p", { className: "note" }, `the tokens of the text in ${form.of}`);
  const read = () => {
    const count = others(form.of).text!();
    return Uint32Array.from({ length: elements(input.shape) }, (_, i) => +(i < count));
  };
  return { element: note, read };
}

function numbersWidget(input: Signature, _form: NumbersForm, changed: () => void): Widget {
  const count = elements(input.shape);
  const whole = input.dtype !== "f32" && input.dtype !== "f16";
  const area = el("textarea", { rows: 6, spellcheck: false });
  const note = el("p", { className: "note" });
  const zeros = Array.from({ length: Math.min(count, 4096) }, () => 0);
  let values: ArrayLike<number> | null = count > zeros.length ? new Float32Array(count) : null;
  area.value = values ? "" : rows(zeros, input.shape);
  area.placeholder = values ? `${count} numbers: drop a file` : "";
  area.oninput = () => {
    values = null;
    note.textContent = "";
    changed();
  };
  const set = (numbers: ArrayLike<number>, from: string) => {
    values = numbers.length > zeros.length ? numbers : null;
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
  const file = dropzone("Drop .npy, .npz or .safetensors", ".npy,.npz,.safetensors", take);
  const button = el("button", { type: "button", onclick: random }, "Random");
  const read = () => {
    const text = area.value.split(/[\s,;[\]]+/).filter(Boolean);
    const numbers = values ?? text.map(Number);
    const wrong = values ? undefined : text.find((each) => Number.isNaN(Number(each)));
    if (wrong !== undefined) throw new Error(`\`${wrong}\` is no number`);
    return sized(input, numbers);
  };
  return { element: el("div", {}, area, el("div", { className: "row" }, button, file), note), read };
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

/** What an input is, in words beside its name. */
export function describe(parent: HTMLElement, input: Signature): void {
  fill(parent, input.name, el("code", {}, shown(input.dtype, input.shape)));
}
