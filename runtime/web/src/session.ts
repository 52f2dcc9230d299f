/** A plan on a device: everything is prepared once, and a step is one submission. */

import type { Gpu } from "./gpu.ts";
import { guarded } from "./gpu.ts";
import type { Plan, PlannedTensor, Slot } from "./plan.ts";
import { orderOf } from "./plan.ts";
import { MeganeuraError, notAnArtefact } from "./problems.ts";
import type { Tensor, Values } from "./tensor.ts";
import { elements, fromDevice, toDevice } from "./tensor.ts";

/** Flags of WebGPU: https://www.w3.org/TR/webgpu/#buffer-usage */
const Usage = { MAP_READ: 1, COPY_SRC: 4, COPY_DST: 8, STORAGE: 128 } as const;
const READ = 1;

/** How many of how many kernels are compiled. */
export type Progress = (done: number, of: number) => void;

export interface SessionOptions {
  readonly progress?: Progress | undefined;
  /** A session of the same device whose parameters are used, which its plan has in the same places. */
  readonly other?: Session;
  /** What parameters begin as, as the bytes that the device holds. */
  readonly values?: ReadonlyMap<string, Uint8Array>;
}

/** An input that is copied from what the last step of a session gave. */
export interface Link {
  readonly input: string;
  readonly from: Session;
  readonly output: string;
}

interface Launch {
  readonly pipeline: GPUComputePipeline;
  readonly bindings: GPUBindGroup;
  readonly workgroups: readonly [number, number, number];
}

export class Session {
  readonly plan: Plan;
  readonly gpu: Gpu;
  #buffers: GPUBuffer[];
  #launches: Launch[] = [];
  #borrowed: ReadonlySet<GPUBuffer>;
  #landings: GPUBuffer[] = [];
  #lost: MeganeuraError | null = null;
  #fails: Promise<never>;

  private constructor(
    plan: Plan, gpu: Gpu, buffers: GPUBuffer[], borrowed: ReadonlySet<GPUBuffer>,
  ) {
    this.plan = plan;
    this.gpu = gpu;
    this.#buffers = buffers;
    this.#borrowed = borrowed;
    this.#fails = gpu.lost.then((error) => {
      this.#lost = error;
      throw error;
    });
    this.#fails.catch(() => {});
  }

  /** Compile the kernels and fill the memory; throws `MeganeuraError`. */
  static async open(plan: Plan, gpu: Gpu, options: SessionOptions = {}): Promise<Session> {
    const { progress = () => {}, other, values = new Map<string, Uint8Array>() } = options;
    const failed = gpu.lost.then((error) => Promise.reject(error));
    failed.catch(() => {});
    // The device compiles while the memory is taken and filled.
    const compiling = Promise.race([compiled(plan, gpu, progress), failed]);
    compiling.catch(() => {});
    const buffers: GPUBuffer[] = [];
    const borrowed = new Set<GPUBuffer>();
    try {
      await guarded(gpu, `the ${megabytes(bytesOf(plan))} of this model`, () => {
        const usage = Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST;
        plan.buffers.forEach(({ role, bytes }, number) => {
          const shared = other && role === "parameters" ? other.#buffers[number] : undefined;
          if (shared) borrowed.add(shared);
          buffers.push(shared ?? gpu.device.createBuffer({ size: Math.max(4, bytes), usage }));
        });
      });
      const made = new Session(plan, gpu, buffers, borrowed);
      made.write(values);
      const kernels = await compiling;
      const launches = await guarded(gpu, "the kernels of this model", () =>
        plan.dispatches.map((dispatch) => {
          const pipeline = kernels[dispatch.kernel]!;
          const entries = dispatch.slots.map((slot, binding) => ({
            binding,
            resource: { buffer: buffers[slot.buffer]!, offset: slot.offset, size: slot.bytes },
          }));
          const layout = pipeline.getBindGroupLayout(0);
          const bindings = gpu.device.createBindGroup({ layout, entries });
          return { pipeline, bindings, workgroups: dispatch.workgroups };
        }),
      );
      made.#launches = orderOf(plan).map((number) => launches[number]!);
      return made;
    } catch (error) {
      for (const buffer of buffers) if (!borrowed.has(buffer)) buffer.destroy();
      throw error;
    }
  }

  /** Bytes of the device's memory that it takes. */
  get bytes(): number {
    const own = this.#buffers.filter((buffer) => !this.#borrowed.has(buffer));
    return own.reduce((sum, { size }) => sum + size, 0);
  }

  get isLost(): boolean {
    return this.#lost !== null;
  }

  /** Put parameters into memory, as the bytes that the device holds. */
  write(values: ReadonlyMap<string, Uint8Array>): void {
    this.#check();
    for (const { name, slot } of this.plan.parameters) {
      const bytes = values.get(name);
      if (bytes) this.#put(slot, bytes);
    }
  }

  /** All parameters, as the bytes that the device holds, after all steps so far. */
  async kept(): Promise<Map<string, Uint8Array>> {
    this.#check();
    const read = this.#fetch(this.plan.parameters);
    return await read();
  }

  /** Copy the parameters of a session of the same device. */
  adopt(other: Session): void {
    this.#check();
    const sources = new Map(other.plan.parameters.map((tensor) => [tensor.name, tensor.slot]));
    const encoder = this.gpu.device.createCommandEncoder();
    for (const { name, slot } of this.plan.parameters) {
      const source = sources.get(name)!;
      encoder.copyBufferToBuffer(
        other.#buffers[source.buffer]!, source.offset,
        this.#buffers[slot.buffer]!, slot.offset, slot.bytes,
      );
    }
    this.gpu.device.queue.submit([encoder.finish()]);
  }

  /**
   * Run one step on these inputs. It is submitted when this returns, so that steps can be handed to
   * the device before earlier ones are done; the outputs come with the promise, those of `wanted`.
   * Inputs of `links` are not fed.
   */
  step(
    feeds: ReadonlyMap<string, Values>, links: readonly Link[] = [],
    wanted: readonly PlannedTensor[] = this.plan.outputs,
  ): Promise<Map<string, Tensor>> {
    this.#check();
    const encoder = this.gpu.device.createCommandEncoder();
    for (const { name, dtype, slot } of this.plan.inputs) {
      const link = links.find(({ input }) => input === name);
      if (link) link.from.#copy(link.output, encoder, this.#buffers[slot.buffer]!, slot);
      else this.#put(slot, toDevice(dtype, feeds.get(name)!));
    }
    const pass = encoder.beginComputePass();
    for (const { pipeline, bindings, workgroups } of this.#launches) {
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, bindings);
      pass.dispatchWorkgroups(...workgroups);
    }
    pass.end();
    for (const { source, target } of this.plan.copies) {
      encoder.copyBufferToBuffer(
        this.#buffers[source.buffer]!, source.offset,
        this.#buffers[target.buffer]!, target.offset, source.bytes,
      );
    }
    const read = this.#fetch(wanted, encoder);
    return read().then((bytes) => new Map(wanted.map(({ name, dtype, shape }) => {
      const data = fromDevice(dtype, bytes.get(name)!, elements(shape));
      return [name, { dtype, shape, data }];
    })));
  }

  /** Fill parameters with zeros. */
  clear(names: ReadonlySet<string>): void {
    this.#check();
    const encoder = this.gpu.device.createCommandEncoder();
    for (const { name, slot } of this.plan.parameters) {
      if (!names.has(name)) continue;
      encoder.clearBuffer(this.#buffers[slot.buffer]!, slot.offset, slot.bytes);
    }
    this.gpu.device.queue.submit([encoder.finish()]);
  }

  #copy(output: string, encoder: GPUCommandEncoder, target: GPUBuffer, at: Slot): void {
    const { slot } = this.plan.outputs.find(({ name }) => name === output)!;
    const source = this.#buffers[slot.buffer]!;
    encoder.copyBufferToBuffer(source, slot.offset, target, at.offset, at.bytes);
  }

  /** Give the memory back. */
  close(): void {
    for (const buffer of [...this.#buffers, ...this.#landings]) {
      if (!this.#borrowed.has(buffer)) buffer.destroy();
    }
    this.#buffers = this.#landings = [];
  }

  #check(): void {
    if (this.#lost) throw this.#lost;
    if (!this.#buffers.length && this.plan.buffers.length) {
      throw new Error("this model is closed");
    }
  }

  #put(slot: Slot, bytes: Uint8Array): void {
    const padded = bytes.length === slot.bytes ? bytes : new Uint8Array(slot.bytes);
    if (padded !== bytes) padded.set(bytes);
    const content = padded as Uint8Array<ArrayBuffer>;
    this.gpu.device.queue.writeBuffer(this.#buffers[slot.buffer]!, slot.offset, content);
  }

  /** Submit copies of tensors to the host, behind what `encoder` holds; the result reads them. */
  #fetch(
    tensors: readonly PlannedTensor[],
    encoder: GPUCommandEncoder = this.gpu.device.createCommandEncoder(),
  ): () => Promise<Map<string, Uint8Array>> {
    const size = tensors.reduce((sum, { slot }) => sum + slot.bytes, 0);
    if (!tensors.length) {
      this.gpu.device.queue.submit([encoder.finish()]);
      return () => Promise.resolve(new Map());
    }
    const landing = this.#landing(Math.max(4, size));
    let at = 0;
    for (const { slot } of tensors) {
      if (slot.bytes) {
        const source = this.#buffers[slot.buffer]!;
        encoder.copyBufferToBuffer(source, slot.offset, landing, at, slot.bytes);
      }
      at += slot.bytes;
    }
    this.gpu.device.queue.submit([encoder.finish()]);
    return () => Promise.race([this.#landed(landing, tensors), this.#fails]);
  }

  async #landed(
    landing: GPUBuffer, tensors: readonly PlannedTensor[],
  ): Promise<Map<string, Uint8Array>> {
    try {
      await landing.mapAsync(READ);
    } catch (error) {
      throw await Promise.race([this.gpu.lost, new Promise((resolve) => setTimeout(resolve, 100))])
        ?? error;
    }
    const content = new Uint8Array(landing.getMappedRange());
    let at = 0;
    const found = new Map<string, Uint8Array>();
    for (const { name, slot } of tensors) found.set(name, content.slice(at, (at += slot.bytes)));
    landing.unmap();
    this.#landings.push(landing);
    return found;
  }

  #landing(size: number): GPUBuffer {
    const free = this.#landings.findIndex((buffer) => buffer.size === size);
    if (free >= 0) return this.#landings.splice(free, 1)[0]!;
    const usage = Usage.MAP_READ | Usage.COPY_DST;
    return this.gpu.device.createBuffer({ size, usage });
  }
}

/** The kernels that a device has compiled, by their texts: plans of one model share most. */
const pipelines = new WeakMap<GPUDevice, Map<string, Promise<GPUComputePipeline>>>();

/** The kernels of a plan: side by side, but one after another where a processor is the GPU. */
async function compiled(plan: Plan, gpu: Gpu, progress: Progress): Promise<GPUComputePipeline[]> {
  const { device } = gpu;
  const known = pipelines.get(device) ?? new Map<string, Promise<GPUComputePipeline>>();
  pipelines.set(device, known);
  const made = new Map<string, GPUComputePipeline>();
  let done = 0;
  const compile = async (code: string) => {
    let making = known.get(code);
    if (!making) {
      const compute = { module: device.createShaderModule({ code }), entryPoint: "main" };
      known.set(code, (making = device.createComputePipelineAsync({ layout: "auto", compute })));
    }
    try {
      made.set(code, await making);
    } catch (error) {
      throw notAnArtefact(`a kernel cannot be compiled: ${(error as Error).message}`);
    } finally {
      progress(++done, plan.kernels.length);
    }
  };
  // A browser reads texts one by one: the longest first, whose kernels take longest to compile.
  const texts = [...plan.kernels].sort((one, other) => other.length - one.length);
  if (gpu.isSoftware) for (const code of texts) await compile(code);
  else await Promise.all(texts.map(compile));
  return plan.kernels.map((code) => made.get(code)!);
}

function bytesOf(plan: Plan): number {
  return plan.buffers.reduce((sum, { bytes }) => sum + bytes, 0);
}

function megabytes(bytes: number): string {
  return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}
