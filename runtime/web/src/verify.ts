/**
 * Whether a plan that was read can be run: every place it names is there, and what is read was
 * written. The same checks as the Python runtime's; browsers check the bounds of kernels.
 */

import type { Dispatch, Plan, PlannedTensor, Role, Slot } from "./plan.ts";
import { require } from "./problems.ts";
import { deviceBytes, elements, shown } from "./tensor.ts";

const BINDING = /@binding\((\d{1,3})\) var<storage, (read|read_write)>/g;
const WORD = 4;
/** What every adapter with WebGPU has, which a portable plan stays within. */
const PORTABLE = { alignment: 256, binding: 128 << 20, buffer: 256 << 20, bindings: 8, groups: 65535 };
const MOST_ROUNDS = 1 << 24;

/** Throw `MeganeuraError` for a plan that cannot be run. */
export function verifyPlan(plan: Plan): void {
  for (const slot of slotsOf(plan)) verifySlot(plan, slot);
  verifySizes(plan);
  verifyTensors(plan, plan.inputs, "inputs");
  verifyTensors(plan, plan.parameters, "parameters");
  verifyTensors(plan, plan.outputs, "outputs");
  verifyLoops(plan);
  const bindings = plan.kernels.map(bindingsOf);
  for (const dispatch of plan.dispatches) verifyDispatch(dispatch, bindings);
  verifyFlow(plan, bindings);
}

function* slotsOf(plan: Plan): Generator<Slot> {
  for (const tensor of [...plan.inputs, ...plan.parameters, ...plan.outputs]) yield tensor.slot;
  for (const dispatch of plan.dispatches) yield* dispatch.slots;
  for (const copy of plan.copies) yield* [copy.source, copy.target];
}

function place(slot: Slot): string {
  return `${slot.offset}+${slot.bytes} of buffer ${slot.buffer}`;
}

function verifySlot(plan: Plan, slot: Slot): void {
  const buffer = plan.buffers[slot.buffer];
  require(buffer !== undefined, () => `${place(slot)} is in none of its buffers`);
  require(slot.offset + slot.bytes <= buffer.bytes, () => `${place(slot)} is not in that buffer`);
  const aligned = slot.offset % PORTABLE.alignment === 0 && slot.bytes % WORD === 0;
  require(aligned, () => `${place(slot)} begins or ends between words`);
  require(slot.bytes <= PORTABLE.binding, () => `${place(slot)} is more than an adapter binds`);
}

function verifySizes(plan: Plan): void {
  const ends = plan.buffers.map(() => 0);
  for (const slot of slotsOf(plan)) {
    ends[slot.buffer] = Math.max(ends[slot.buffer]!, slot.offset + slot.bytes);
  }
  plan.buffers.forEach((buffer, number) => {
    const end = Math.ceil(ends[number]! / PORTABLE.alignment) * PORTABLE.alignment;
    const used = `buffer ${number} has ${buffer.bytes} bytes, of which ${ends[number]} are used`;
    require(buffer.bytes <= end, () => used);
    require(buffer.bytes <= PORTABLE.buffer, () => `buffer ${number} is larger than is allowed`);
  });
}

function verifyTensors(plan: Plan, tensors: readonly PlannedTensor[], role: Role): void {
  const names = new Set(tensors.map((tensor) => tensor.name));
  require(names.size === tensors.length, () => `two of its ${role} have the same name`);
  for (const { name, dtype, shape, slot } of tensors) {
    const size = Math.ceil((elements(shape) * deviceBytes(dtype)) / WORD) * WORD;
    const title = `${name}: ${shown(dtype, shape)}`;
    require(slot.bytes === size, () => `\`${title}\` takes ${slot.bytes} bytes`);
    const isThere = plan.buffers[slot.buffer]!.role === role;
    require(isThere, () => `\`${name}\` is not in a buffer of ${role}`);
  }
  const places = [...new Map(tensors.map(({ slot }) => [place(slot), slot])).values()];
  places.sort((one, other) => one.buffer - other.buffer || one.offset - other.offset);
  places.slice(1).forEach((slot, i) => {
    const before = places[i]!;
    const apart = before.buffer !== slot.buffer || before.offset + before.bytes <= slot.offset;
    require(apart, () => `two of its ${role} overlap in buffer ${slot.buffer}`);
  });
}

function verifyLoops(plan: Plan): void {
  let rounds = 1;
  for (const loop of plan.loops) {
    const inside = loop.first < loop.last && loop.last <= plan.dispatches.length;
    require(inside && loop.rounds >= 1, () => "a loop is not around any of its dispatches");
    const cross = plan.loops.some((other) => other.first < loop.first && loop.first < other.last
      && other.last < loop.last);
    require(!cross, () => "two of its loops cross");
    rounds *= loop.rounds;
  }
  const work = rounds * plan.dispatches.length;
  require(work <= MOST_ROUNDS || !plan.loops.length, () => "its loops have too many rounds");
}

/** For each binding of a kernel, whether it may be written. */
function bindingsOf(kernel: string, number: number): boolean[] {
  // eslint-disable-next-line no-control-regex
  require(/^[\x01-\x7f]*$/.test(kernel), () => `kernel ${number} is no text of ours`);
  const found = [...kernel.matchAll(BINDING)];
  const numbered = found.every(([, place], i) => Number(place) === i);
  require(numbered, () => `kernel ${number} does not number its bindings`);
  return found.map(([, , access]) => access === "read_write");
}

function verifyDispatch(dispatch: Dispatch, bindings: readonly boolean[][]): void {
  const { kernel, slots, workgroups } = dispatch;
  const wanted = bindings[kernel];
  require(wanted !== undefined, () => `there is no kernel ${kernel}`);
  const text = `kernel ${kernel} has ${wanted.length} bindings, and is bound to ${slots.length}`;
  require(wanted.length === slots.length, () => text);
  const counted = workgroups.every((size) => size >= 1 && size <= PORTABLE.groups);
  require(counted, () => `kernel ${kernel} runs in ${workgroups.join(" x ")} workgroups`);
  const few = slots.length <= PORTABLE.bindings;
  require(few, () => `kernel ${kernel} is bound to more than an adapter allows`);
}

function verifyFlow(plan: Plan, bindings: readonly boolean[][]): void {
  const written = new Set([...plan.inputs, ...plan.parameters].map(({ slot }) => place(slot)));
  const needed = (slot: Slot, what: string) =>
    require(written.has(place(slot)), () => `${what} ${place(slot)}, which nothing wrote`);
  plan.dispatches.forEach((dispatch, number) => {
    const writes = bindings[dispatch.kernel]!;
    dispatch.slots.forEach((slot, i) => writes[i] || needed(slot, `dispatch ${number} reads`));
    dispatch.slots.forEach((slot, i) => writes[i] && written.add(place(slot)));
  });
  for (const copy of plan.copies) needed(copy.source, "a copy reads");
  for (const tensor of plan.outputs) needed(tensor.slot, "an output is");
}
