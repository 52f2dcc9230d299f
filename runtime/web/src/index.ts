/** Runs and trains models that `meganeura build` compiled, on WebGPU. */

export type { Artefact, Bound, GenerationForm, TrainingForm } from "./artefact.ts";
export { parseArtefact } from "./artefact.ts";
export { readTensors } from "./archive.ts";
export type { Dataset } from "./dataset.ts";
export type { GenerateOptions } from "./generation.ts";
export { Generator } from "./generation.ts";
export type { Device } from "./gpu.ts";
export { findDevice } from "./gpu.ts";
export type { Given, OpenOptions, Signature, Source } from "./model.ts";
export { Model } from "./model.ts";
export { MeganeuraError } from "./problems.ts";
export { parseTensors, serializeTensors } from "./safetensors.ts";
export type { DType, Stored, StoredTensor, Tensor, Values } from "./tensor.ts";
export type { HeldOut, RunOptions, Step } from "./training.ts";
export { Training } from "./training.ts";
export type { Tokenizer } from "./text.ts";
export { byteTokenizer } from "./text.ts";
