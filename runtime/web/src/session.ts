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

interface Launch {
  readonly pipeline: GPUComputePipeline;
  readonly bindings: GPUBindGroup;
  readonly workgroups: readonly [number, number, number];
}

export class Session {
  readonly plan: Plan;
  readonly gpu: Gpu;
  #buffers: GPUBuffer[];
  #launches: Launch[];
  #landings: GPUBuffer[] = [];
  #lost: MeganeuraError | null = null;
  #fails: Promise<never>;

  private constructor(plan: Plan, gpu: Gpu, buffers: GPUBuffer[], launches: Launch[]) {
    this.plan = plan;
    this.gpu = gpu;
    this.#buffers = buffers;
    this.#launches = launches;
    this.#fails = gpu.lost.then((error) => {
      this.#lost = error;
      throw error;
    });
    this.#fails.catch(() => {});
  }

  /** Compile the kernels and take the memory; throws `MeganeuraError`. */
  static async open(plan: Plan, gpu: Gpu, progress: Progress = () => {}): Promise<Session> {
    const failed = gpu.lost.then((error) => Promise.reject(error));
    failed.catch(() => {});
    const pipelines = await Promise.race([compiled(plan, gpu, progress), failed]);
    const buffers: GPUBuffer[] = [];
    try {
      await guarded(gpu, `the ${megabytes(bytesOf(plan))} of this model`, () => {
        const usage = Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST;
        for (const { bytes } of plan.buffers) {
          buffers.push(gpu.device.createBuffer({ size: Math.max(4, bytes), usage }));
        }
      });
      const launches = await guarded(gpu, "the kernels of this model", () =>
        plan.dispatches.map((dispatch) => {
          const pipeline = pipelines[dispatch.kernel]!;
          const entries = dispatch.slots.map((slot, binding) => ({
            binding,
            resource: { buffer: buffers[slot.buffer]!, offset: slot.offset, size: slot.bytes },
          }));
          const layout = pipeline.getBindGroupLayout(0);
          const bindings = gpu.device.createBindGroup({ layout, entries });
          return { pipeline, bindings, workgroups: dispatch.workgroups };
        }),
      );
      return new Session(plan, gpu, buffers, orderOf(plan).map((number) => launches[number]!));
    } catch (error) {
      for (const buffer of buffers) buffer.destroy();
      throw error;
    }
  }

  /** Bytes of the device's memory that it takes. */
  get bytes(): number {
    return bytesOf(this.plan);
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
   * the device before earlier ones are done; the outputs come with the promise.
   */
  step(feeds: ReadonlyMap<string, Values>): Promise<Map<string, Tensor>> {
    this.#check();
    for (const { name, dtype, slot } of this.plan.inputs) {
      this.#put(slot, toDevice(dtype, feeds.get(name)!));
    }
    const encoder = this.gpu.device.createCommandEncoder();
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
    const read = this.#fetch(this.plan.outputs, encoder);
    return read().then((bytes) => new Map(this.plan.outputs.map(({ name, dtype, shape }) => {
      const data = fromDevice(dtype, bytes.get(name)!, elements(shape));
      return [name, { dtype, shape, data }];
    })));
  }

  /** Give the memory back. */
  close(): void {
    for (const buffer of [...this.#buffers, ...this.#landings]) buffer.destroy();
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

/** The kernels of a plan: side by side, but one after another where a processor is the GPU. */
async function compiled(plan: Plan, gpu: Gpu, progress: Progress): Promise<GPUComputePipeline[]> {
  let done = 0;
  const compile = async (code: string) => {
    const module = gpu.device.createShaderModule({ code });
    const compute = { module, entryPoint: "main" };
    try {
      return await gpu.device.createComputePipelineAsync({ layout: "auto", compute });
    } catch (error) {
      throw notAnArtefact(`a kernel cannot be compiled: ${(error as Error).message}`);
    } finally {
      progress(++done, plan.kernels.length);
    }
  };
  if (!gpu.isSoftware) return await Promise.all(plan.kernels.map(compile));
  const pipelines: GPUComputePipeline[] = [];
  for (const code of plan.kernels) pipelines.push(await compile(code));
  return pipelines;
}

function bytesOf(plan: Plan): number {
  return plan.buffers.reduce((sum, { bytes }) => sum + bytes, 0);
}

function megabytes(bytes: number): string {
  return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}
