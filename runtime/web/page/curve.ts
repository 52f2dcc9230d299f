/** The loss of a run, drawn as it comes. */

import { brief } from "./dom.ts";

const MOST_POINTS = 4000;
const SMOOTH = 0.9;

export class Curve {
  readonly canvas: HTMLCanvasElement;
  #points: [number, number][] = [];
  #heldOut: [number, number][] = [];
  #every = 1;
  #due = false;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    new ResizeObserver(() => this.#draw()).observe(canvas);
  }

  clear(): void {
    [this.#points, this.#heldOut, this.#every] = [[], [], 1];
    this.#soon();
  }

  add(step: number, loss: number): void {
    if (step % this.#every === 0) this.#points.push([step, loss]);
    if (this.#points.length > MOST_POINTS) {
      this.#every *= 2;
      this.#points = this.#points.filter(([at]) => at % this.#every === 0);
    }
    this.#soon();
  }

  addHeldOut(step: number, loss: number): void {
    this.#heldOut.push([step, loss]);
    this.#soon();
  }

  #soon(): void {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#draw();
    });
  }

  #draw(): void {
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext("2d")!;
    const style = getComputedStyle(canvas);
    const color = (name: string) => style.getPropertyValue(name);
    context.scale(ratio, ratio);
    context.font = "12px system-ui, sans-serif";
    const all = [...this.#points, ...this.#heldOut].map(([, loss]) => loss);
    context.fillStyle = color("--muted");
    if (!all.length) {
      context.textAlign = "center";
      context.fillText("the loss appears here", width / 2, height / 2);
      return;
    }
    const positive = all.filter((loss) => loss > 0);
    const least = Math.log10(positive.reduce((a, b) => Math.min(a, b), Infinity));
    const most = Math.log10(positive.reduce((a, b) => Math.max(a, b), 0));
    const pad = Math.max(0.02, (most - least) * 0.06);
    const [low, high] = [least - pad, most + pad];
    const end = Math.max(2, this.#points.at(-1)?.[0] ?? 2, this.#heldOut.at(-1)?.[0] ?? 2);
    const [left, right, top, bottom] = [48, width - 8, 8, height - 22];
    const x = (step: number) => left + ((right - left) * step) / end;
    const y = (loss: number) =>
      bottom - ((bottom - top) * (Math.log10(Math.max(loss, 1e-30)) - low)) / (high - low);
    context.strokeStyle = color("--line");
    context.lineWidth = 1;
    for (let i = 0; i <= 4; i++) {
      const value = 10 ** (low + ((high - low) * i) / 4);
      context.textAlign = "right";
      context.fillText(brief(+value.toPrecision(2)), left - 6, y(value) + 4);
      line(context, [[left, y(value)], [right, y(value)]]);
      const step = Math.round((end * i) / 4);
      context.textAlign = i === 4 ? "right" : "center";
      context.fillText(step.toLocaleString("en"), x(step), height - 6);
    }
    const at = ([step, loss]: [number, number]): [number, number] => [x(step), y(loss)];
    context.strokeStyle = color("--faint");
    line(context, this.#points.map(at));
    context.strokeStyle = color("--accent");
    context.lineWidth = 2;
    line(context, smoothed(this.#points).map(at));
    context.fillStyle = context.strokeStyle = color("--second");
    line(context, this.#heldOut.map(at));
    for (const point of this.#heldOut.map(at)) {
      context.beginPath();
      context.arc(...point, 3, 0, 7);
      context.fill();
    }
  }
}

function line(context: CanvasRenderingContext2D, points: readonly [number, number][]): void {
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}

/** A moving average, without the bias of its beginning. */
function smoothed(points: readonly [number, number][]): [number, number][] {
  let [sum, weight] = [0, 0];
  return points.map(([step, loss]) => {
    sum = SMOOTH * sum + (1 - SMOOTH) * loss;
    weight = SMOOTH * weight + (1 - SMOOTH);
    return [step, sum / weight];
  });
}
