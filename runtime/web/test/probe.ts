/**
 * Answers questions about parts of the runtime, for tests that compare them with the Python runtime:
 * a JSON list of questions on standard input, a JSON list of answers on standard output.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";

import type { PictureForm } from "../page/form.ts";
import { prepared } from "../page/picture.ts";
import { logMel } from "../page/sound.ts";
import { readTensors } from "../src/archive.ts";
import { parseArtefact } from "../src/artefact.ts";
import { checkIndices, checked } from "../src/indices.ts";
import { orderOfEpoch } from "../src/philox.ts";
import { orderOf } from "../src/plan.ts";
import { MeganeuraError } from "../src/problems.ts";
import { parseTensors, serializeTensors } from "../src/safetensors.ts";
import type { DType, StoredTensor, Values } from "../src/tensor.ts";
import { parseTokenizer } from "../src/tokenizer.ts";
import { parseWordPiece } from "../src/wordpiece.ts";
import { fromDevice, storedValues, toDevice, toStored } from "../src/tensor.ts";

/** What it holds depends on what is asked. */
type Question = { readonly ask: string; readonly [name: string]: any };

function bytes(file: string): Uint8Array {
  return new Uint8Array(readFileSync(file));
}

function told(tensors: ReadonlyMap<string, StoredTensor>): object {
  return Object.fromEntries([...tensors].map(([name, tensor]) => {
    const values = Array.from(storedValues(tensor) as ArrayLike<number>, Number);
    return [name, { stored: tensor.stored, shape: tensor.shape, values }];
  }));
}

async function answer(question: Question): Promise<unknown> {
  switch (question.ask) {
    case "order": {
      const { seed, epoch, examples, shuffle } = question;
      return Array.from(orderOfEpoch(seed, epoch, examples, shuffle));
    }
    case "tensors": {
      const file = question.file as string;
      return told(await readTensors(basename(file), bytes(file)));
    }
    case "rewrite": {
      const { tensors, metadata } = parseTensors(bytes(question.file));
      writeFileSync(question.out, serializeTensors(tensors, metadata));
      return null;
    }
    case "artefact": {
      const { model, plan, training, generation } = parseArtefact(bytes(question.file));
      const writes = generation !== null;
      return { model, order: orderOf(plan), trains: training !== null, writes };
    }
    case "tokenizer": {
      // The tokens of each text, and the text that they are.
      const tokenizer = parseTokenizer(question.text as string);
      return (question.texts as string[]).map((text) => {
        const tokens = tokenizer.encode(text);
        const written = Uint8Array.from(tokens.flatMap((token) => [...tokenizer.bytes(token)]));
        return [tokens, new TextDecoder("utf-8", { ignoreBOM: true }).decode(written)];
      });
    }
    case "wordpiece": {
      const reader = parseWordPiece(question.text as string);
      return (question.texts as string[]).map((text) => reader.encode(text, question.most as number));
    }
    case "device": {
      // To the memory of a device and back, and to the type of a file.
      const [dtype, stored] = [question.dtype as DType, question.stored];
      const given = question.values as number[];
      const values: Values = dtype === "i32" ? Int32Array.from(given)
        : dtype === "u32" || dtype === "bool" ? Uint32Array.from(given) : Float32Array.from(given);
      const back = fromDevice(dtype, toDevice(dtype, values), values.length);
      const shape = [values.length];
      const tensor = { stored, shape, bytes: toStored(stored, dtype, back) };
      return Array.from(storedValues(tensor) as ArrayLike<number>, Number);
    }
    case "picture": {
      const { height, width, colors } = question;
      const picture = { height, width, colors, bytes: Uint8ClampedArray.from(question.bytes as number[]) };
      return Array.from(prepared(picture, question.form as PictureForm));
    }
    case "sound": {
      const samples = Float32Array.from(question.samples as number[]);
      return Array.from(logMel(samples, question.mels, question.frames));
    }
    case "indices": {
      checkIndices("ids", Int32Array.from(question.values as number[]), question.bound);
      return null;
    }
    case "checks": {
      const largest = Uint32Array.of(question.largest as number);
      const tensor = { dtype: "u32" as DType, shape: [], data: largest };
      const outputs = new Map([["index", tensor], ["y", tensor]]);
      const slot = { buffer: 0, offset: 0, bytes: 4 };
      const planned = [{ name: "index", dtype: "u32" as DType, shape: [], slot, check: question.check }];
      return [...checked(planned, outputs).keys()];
    }
    default:
      throw new Error(`what is ${question.ask}?`);
  }
}

const questions = JSON.parse(readFileSync(0, "utf8")) as Question[];
const answers: unknown[] = [];
for (const question of questions) {
  try {
    answers.push({ answer: await answer(question) });
  } catch (error) {
    if (!(error instanceof MeganeuraError)) throw error;
    answers.push({ code: error.code, message: error.message });
  }
}
console.log(JSON.stringify(answers));
