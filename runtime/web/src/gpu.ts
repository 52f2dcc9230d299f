/** The device of the browser: what a plan needs of it, and what is said where that is missing. */

import type { Plan } from "./plan.ts";
import { deviceFailure, MeganeuraError } from "./problems.ts";

const NO_WEBGPU =
  "use Chrome or Edge 113, Safari 26 or Firefox 141, or newer, over https, localhost or as a file; "
  + "Firefox on Linux has it behind dom.webgpu.enabled in about:config";
const NO_ADAPTER =
  "update the browser and the driver of the GPU; Chrome runs without a GPU if it is started with "
  + "--enable-unsafe-webgpu";

const HALVES = "shader-f16";
/** Chromium's experimental matrices of a subgroup, and what they need beside. */
const MATRICES = ["chromium-experimental-subgroup-matrix", "subgroups"] as const;
const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupsPerDimension",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupStorageSize",
] as const;
/** Bytes of workgroup memory that a plan for matrix units may take; other plans take 16 KiB. */
const TILE_BYTES = 48 << 10;
/** Rows and columns of the squares that such a plan multiplies, and invocations of a subgroup. */
const SIDE = 16;
const LANES = 32;

/** A device with all that its adapter can do, as far as plans need it. */
export interface Device {
  readonly adapter: GPUAdapter;
  readonly device: GPUDevice;
}

/** A device, and what became of it. */
export interface Gpu {
  readonly device: GPUDevice;
  readonly title: string;
  /** Whether it is a processor that plays a GPU: kernels are compiled one after another there. */
  readonly isSoftware: boolean;
  /** Fulfilled when the device is lost. */
  readonly lost: Promise<MeganeuraError>;
}

/** The least of each of `LIMITS` that plans need. */
function limitsOf(plans: readonly Plan[]): number[] {
  const needs = LIMITS.map(() => 0);
  const need = (...sizes: number[]) =>
    sizes.forEach((size, i) => (needs[i] = Math.max(size, needs[i]!)));
  for (const plan of plans) {
    for (const buffer of plan.buffers) need(buffer.bytes);
    for (const { slots, workgroups } of plan.dispatches) {
      need(0, Math.max(...slots.map(({ bytes }) => bytes)), slots.length, Math.max(...workgroups));
    }
    for (const kernel of plan.kernels) {
      const sizes = /@workgroup_size\(([\d, ]+)\)/.exec(kernel)?.[1]?.split(",").map(Number) ?? [1];
      const [x = 1, y = 1, z = 1] = sizes;
      need(0, 0, 0, 0, x * y * z, x, y, z, usesMatrices(kernel) ? TILE_BYTES : 0);
    }
  }
  return needs;
}

/** A device, asked for before its model is read; throws `MeganeuraError` once it is waited for. */
export function findDevice(gpu: GPU | undefined = globalThis.navigator?.gpu): Promise<Device> {
  const found = (async () => {
    if (!gpu) throw deviceFailure("this browser has no WebGPU here", NO_WEBGPU);
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw deviceFailure("WebGPU finds no GPU here", NO_ADAPTER);
    const device = await adapter.requestDevice({
      requiredLimits: Object.fromEntries(LIMITS.map((limit) => [limit, adapter.limits[limit]])),
      requiredFeatures: [HALVES, ...MATRICES].filter((feature) =>
        adapter.features.has(feature)) as GPUFeatureName[],
    });
    return { adapter, device };
  })();
  found.catch(() => {});
  return found;
}

function usesMatrices(kernel: string): boolean {
  return /\benable chromium_experimental_subgroup_matrix;/.test(kernel);
}

/** Whether an adapter multiplies squares of 16 x 16 halves, and sums them in single precision. */
function hasUnits(adapter: GPUAdapter): boolean {
  const info = adapter.info as GPUAdapterInfo & {
    readonly subgroupMatrixConfigs?: Iterable<Readonly<Record<string, unknown>>>;
  };
  const all = MATRICES.every((feature) => adapter.features.has(feature));
  const lanes = [info.subgroupMinSize, info.subgroupMaxSize].every((size) => size === LANES);
  return all && lanes && [...(info.subgroupMatrixConfigs ?? [])].some((each) =>
    each.componentType === "f16" && each.resultComponentType === "f32"
    && each.M === SIDE && each.N === SIDE && each.K === SIDE);
}

/** What an adapter lacks to run plans, in words. */
export function lacking(plans: readonly Plan[], adapter: GPUAdapter): string[] {
  const kernels = plans.flatMap((plan) => plan.kernels);
  const needs = limitsOf(plans);
  const missing = LIMITS
    .map((limit, i) => `${limit} of ${needs[i]}, where it has ${adapter.limits[limit]}`)
    .filter((_, i) => adapter.limits[LIMITS[i]!] < needs[i]!);
  const halves = kernels.some((text) => /\benable f16;/.test(text));
  if (halves && !adapter.features.has(HALVES)) missing.push(`the feature ${HALVES}`);
  if (kernels.some(usesMatrices) && !hasUnits(adapter)) missing.push("matrix units of 16 x 16");
  return missing;
}

/** The device, if plans can run there; throws `MeganeuraError` that says what is missing. */
export async function openGpu(plans: readonly Plan[], found: Promise<Device>): Promise<Gpu> {
  const { adapter, device } = await found;
  const missing = lacking(plans, adapter);
  const { vendor, architecture, description } = adapter.info;
  const title = description || [vendor, architecture].filter(Boolean).join(" ") || "a GPU";
  if (missing.length) {
    device.destroy();
    const text = `this model needs more than ${title} has: ${missing.join("; ")}`;
    throw new MeganeuraError("E0552", text, "build it for smaller sizes, or use another device");
  }
  const lost = device.lost.then((info) => {
    const why = info.message || info.reason || "no reason is given";
    return deviceFailure(`the GPU was lost: ${why}`, "open the model again");
  });
  return { device, title, isSoftware: architecture === "swiftshader", lost };
}

/** What comes of `action`, unless the device has too little memory or refuses it. */
export async function guarded<T>(gpu: Gpu, what: string, action: () => T): Promise<T> {
  const { device } = gpu;
  device.pushErrorScope("validation");
  device.pushErrorScope("out-of-memory");
  device.pushErrorScope("internal");
  const made = action();
  const scopes = [device.popErrorScope(), device.popErrorScope(), device.popErrorScope()];
  const [internal, memory, validation] = await Promise.all(scopes);
  if (memory) {
    const cure = "close other pages that use the GPU, or build the model for a smaller batch";
    throw new MeganeuraError("E0554", `the GPU has too little memory for ${what}`, cure);
  }
  const refused = internal ?? validation;
  if (refused) throw deviceFailure(`the GPU refuses ${what}: ${refused.message}`);
  return made;
}
