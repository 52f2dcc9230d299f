/** A plan as the compiler writes it: everything a device needs to run a step again and again. */

import { notAnArtefact } from "./problems.ts";
import type { DType } from "./tensor.ts";

export const PLAN_VERSION = 4;

export type Role = "parameters" | "inputs" | "outputs" | "temporaries";

/** A range of a buffer, in bytes. */
export interface Slot {
  readonly buffer: number;
  readonly offset: number;
  readonly bytes: number;
}

/** An index whose largest value an output is: below `count`, as a number without a sign. */
export interface CheckedIndex {
  readonly dtype: "i32" | "u32";
  readonly count: number;
  /** The line of the program that picks something. */
  readonly location: string;
}

/** A named tensor that the host writes or reads. */
export interface PlannedTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly slot: Slot;
  /** What an output checks, if it is no result of the program. */
  readonly check: CheckedIndex | null;
}

/** One run of a kernel; binding i is `slots[i]`. */
export interface Dispatch {
  readonly kernel: number;
  readonly slots: readonly Slot[];
  readonly workgroups: readonly [number, number, number];
}

/** One step: `dispatches` in order, those of `loops` repeatedly, then `copies`. */
export interface Plan {
  readonly buffers: readonly { readonly role: Role; readonly bytes: number }[];
  readonly kernels: readonly string[];
  readonly dispatches: readonly Dispatch[];
  readonly copies: readonly { readonly source: Slot; readonly target: Slot }[];
  readonly inputs: readonly PlannedTensor[];
  readonly parameters: readonly PlannedTensor[];
  readonly outputs: readonly PlannedTensor[];
  readonly loops: readonly { readonly first: number; readonly last: number; readonly rounds: number }[];
}

/** Reads a JSON value of a header, or throws with the path of what is not as it should be. */
export type Reader<T> = (value: unknown, path: string) => T;

function wrong(path: string, wanted: string): never {
  throw notAnArtefact(`its header cannot be read: ${path} is no ${wanted}`);
}

export const text: Reader<string> = (value, path) =>
  typeof value === "string" ? value : wrong(path, "text");

export const flag: Reader<boolean> = (value, path) =>
  typeof value === "boolean" ? value : wrong(path, "truth value");

export const count: Reader<number> = (value, path) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : wrong(path, "count");

export const whole: Reader<number> = (value, path) =>
  Number.isSafeInteger(value) ? (value as number) : wrong(path, "whole number");

export const real: Reader<number> = (value, path) =>
  typeof value === "number" ? value : wrong(path, "number");

export function oneOf<T extends string>(...texts: readonly T[]): Reader<T> {
  return (value, path) =>
    texts.includes(value as T) ? (value as T) : wrong(path, texts.join(" or "));
}

export function list<T>(each: Reader<T>): Reader<T[]> {
  return (value, path) =>
    Array.isArray(value)
      ? value.map((item, i) => each(item, `${path}.${i}`))
      : wrong(path, "list");
}

export function record<T extends object>(fields: { [K in keyof T]: Reader<T[K]> }): Reader<T> {
  return (value, path) => {
    if (typeof value !== "object" || value === null) return wrong(path, "record");
    const given = value as Record<string, unknown>;
    const names = Object.keys(fields) as (keyof T & string)[];
    const found = names.map((name) => [name, fields[name](given[name], `${path}.${name}`)]);
    return Object.fromEntries(found) as T;
  };
}

export function orNull<T>(some: Reader<T>): Reader<T | null> {
  return (value, path) => (value === null || value === undefined ? null : some(value, path));
}

const slot = record<Slot>({ buffer: count, offset: count, bytes: count });

const tensor = record<PlannedTensor>({
  name: text,
  dtype: oneOf("f32", "f16", "i32", "u32", "bool"),
  shape: list(count),
  slot,
  check: orNull(record<CheckedIndex>({ dtype: oneOf("i32", "u32"), count, location: text })),
});

const workgroups: Reader<[number, number, number]> = (value, path) => {
  const found = list(count)(value, path);
  return found.length === 3 ? (found as [number, number, number]) : wrong(path, "triple");
};

const fields = record<Plan & { version: number }>({
  version: count,
  buffers: list(
    record({ role: oneOf("parameters", "inputs", "outputs", "temporaries"), bytes: count }),
  ),
  kernels: list(text),
  dispatches: list(record<Dispatch>({ kernel: count, slots: list(slot), workgroups })),
  copies: list(record({ source: slot, target: slot })),
  inputs: list(tensor),
  parameters: list(tensor),
  outputs: list(tensor),
  loops: list(record({ first: count, last: count, rounds: count })),
});

/** A plan of a header; throws `MeganeuraError` where it is none, or one of another version. */
export const plan: Reader<Plan> = (value, path) => {
  const found = fields(value, path);
  if (found.version !== PLAN_VERSION) {
    throw notAnArtefact(`its plan has version ${found.version}, and ${PLAN_VERSION} is read here`);
  }
  return found;
};

/** The numbers of the dispatches in the order in which they run. */
export function orderOf(of: Plan): number[] {
  return unrolled(of.loops, 0, of.dispatches.length);
}

function unrolled(loops: Plan["loops"], first: number, last: number): number[] {
  const order: number[] = [];
  let at = first;
  while (at < last) {
    const here = loops.filter((loop) => loop.first === at && loop.last <= last && loop.last > at);
    const outer = here.sort((one, other) => other.last - one.last)[0];
    if (!outer) {
      order.push(at++);
      continue;
    }
    const body = unrolled(loops.filter((loop) => loop !== outer), outer.first, outer.last);
    for (let round = 0; round < outer.rounds; round++) for (const number of body) order.push(number);
    at = outer.last;
  }
  return order;
}
