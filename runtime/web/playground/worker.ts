/** Loads Pyodide with the checker of the checkout, and answers the page. */

import type { PyodideInterface } from "pyodide";

import type { Reply, Request } from "./checker.ts";

const here = (name: string) => new URL(name, import.meta.url).href;
const say = (reply: Reply) => self.postMessage(reply);

/**
 * Few servers compress WebAssembly, which is 9.6 MB: it lies packed beside the page, under a
 * name that no server takes for an encoding.
 */
const plain = self.fetch.bind(self);
self.fetch = async (address, options) => {
  const wanted = address instanceof Request ? address.url : String(address);
  if (!wanted.endsWith("/pyodide.asm.wasm")) return plain(address, options);
  const packed = await plain(`${wanted}.packed`);
  if (!packed.ok || !packed.body) return packed;
  const whole = packed.body.pipeThrough(new DecompressionStream("gzip"));
  return new Response(whole, { headers: { "Content-Type": "application/wasm" } });
};

async function bytes(name: string): Promise<ArrayBuffer> {
  const found = await plain(here(name));
  if (!found.ok) throw new Error(`${name}: ${found.status} ${found.statusText}`);
  return found.arrayBuffer();
}

async function start(): Promise<(request: string) => string> {
  say({ state: "Loading Python" });
  const archives = Promise.all([bytes("core.whl"), bytes("python.zip")]);
  const { loadPyodide } = (await import(here("pyodide/pyodide.mjs"))) as typeof import("pyodide");
  const python: PyodideInterface = await loadPyodide({ indexURL: here("pyodide/") });
  const [core, packages] = await archives;
  say({ state: "Loading the checker" });
  python.unpackArchive(core, "wheel");
  python.unpackArchive(packages, "zip", { extractDir: "/packages" });
  python.runPython(`
    import sys
    sys.path.insert(0, "/packages")
    from meganeura.language_server.playground import Playground
    answer = Playground().answer
  `);
  return python.globals.get("answer");
}

const started = start();
started.then(() => say({ state: "" }), (error: unknown) => say({ broken: String(error) }));

self.onmessage = async ({ data: { id, method, given } }: MessageEvent<Request>) => {
  const answer = await started;
  try {
    const begun = performance.now();
    const result: unknown = JSON.parse(answer(JSON.stringify({ method, ...given })));
    say({ id, result, took: performance.now() - begun });
  } catch (error) {
    say({ id, failure: String(error) });
  }
};
