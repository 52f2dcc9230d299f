/**
 * Builds the playground into the folder given: the page, its worker, the lessons, and Pyodide without
 * its standard library, which `compile.ts` writes. `scripts/build_site.py` calls both.
 */

import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const [out] = process.argv.slice(2);
if (!out) throw new Error("node playground/build.ts FOLDER");
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const read = (path: string) => readFileSync(here(path), "utf8");

const ROOT = "../../..";
const { keywords } = JSON.parse(read(`${ROOT}/meganeura_dsl/syntax/parser/grammar.json`)) as {
  keywords: Record<string, string>;
};

mkdirSync(`${out}/pyodide`, { recursive: true });
const { metafile } = await build({
  absWorkingDir: here(".."), entryPoints: ["playground/main.ts", "playground/worker.ts"], outdir: out,
  bundle: true, minify: true, format: "esm", target: "es2024", legalComments: "none", metafile: true,
  charset: "utf8", define: { KEYWORDS: JSON.stringify(Object.keys(keywords)) },
});
copyFileSync(here("index.html"), `${out}/index.html`);
copyFileSync(here("playground.css"), `${out}/playground.css`);

for (const name of ["pyodide.mjs", "pyodide.asm.mjs", "pyodide-lock.json"]) {
  copyFileSync(here(`../node_modules/pyodide/${name}`), `${out}/pyodide/${name}`);
}
const wasm = readFileSync(here("../node_modules/pyodide/pyodide.asm.wasm"));
writeFileSync(`${out}/pyodide/pyodide.asm.wasm.packed`, gzipSync(wasm, { level: 9 }));

// --- lessons -------------------------------------------------------------------------------------

const tour = readdirSync(here("lessons")).sort().map((file) => {
  const found = /^# (.+)\n([\s\S]*?)\n```mgn\n([\s\S]*)```\n$/.exec(read(`lessons/${file}`));
  if (!found) throw new Error(`${file}: a title, words and one program are wanted`);
  const [, title, text, program] = found;
  return { id: file.replace(/\.md$/, ""), group: "Tour", title, text: text!.trim(), program };
});

const CASES = ["tensorflow_program_bugs", "others"].flatMap((collection) => {
  const folder = `${ROOT}/tests/shape_bugs/${collection}`;
  return readdirSync(here(folder)).sort().map((id) => ({ id, folder: `${folder}/${id}` }));
}).filter(({ folder }) => !/^# fed: /m.test(read(`${folder}/wrong.mgn`)));
const puzzles = CASES.map(({ id, folder }) => {
  const wrong = read(`${folder}/wrong.mgn`).replace(/ *# mistake$/m, "").replace(/^# cure: .*\n/m, "");
  const found = /^# ([^:]+): (.)(.*)\.\n([\s\S]*)$/.exec(wrong);
  if (!found) throw new Error(`${id}: the first line says where it is from, and what is wrong`);
  const [, origin, first, rest, program] = found;
  return {
    id, group: "Mend it", title: first!.toUpperCase() + rest,
    text: `A mistake that people made (${origin}). PyTorch or TensorFlow found it while running, or `
      + "never; here it is told at once. Mend the program so that it says what was meant.",
    program, answer: read(`${folder}/right.mgn`).replace(/^#.*\n/, ""),
  };
});

const models = readdirSync(here(`${ROOT}/stdlib_models`))
  .filter((file) => file.endsWith(".mgn"))
  .map((file) => file.replace(/\.mgn$/, ""))
  .sort()
  .map((id) => ({ id, group: "The library", title: id, text: "" }));

writeFileSync(`${out}/lessons.json`, JSON.stringify([...tour, ...puzzles, ...models]));

// --- licences ------------------------------------------------------------------------------------

const folders = Object.keys(metafile.inputs).flatMap(
  (file) => /.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? [],
);
const licences = [...new Set(folders)].sort().map((folder) => {
  const name = readdirSync(here(`../${folder}`)).find((file) => /^licen[cs]e/i.test(file));
  if (name === undefined) throw new Error(`${folder} has no licence`);
  return `${folder.replace(/.*node_modules\//, "")}\n\n${read(`../${folder}/${name}`)}`;
});
const { license, version } = JSON.parse(read("../node_modules/pyodide/package.json")) as {
  license: string; version: string;
};
licences.push(`pyodide ${version}\n\n${license}: https://www.mozilla.org/MPL/2.0/; sources at `
  + `https://github.com/pyodide/pyodide/tree/${version}\nIt contains CPython, under the licence of `
  + "the Python Software Foundation: https://docs.python.org/3/license.html\n");
writeFileSync(`${out}/licences.txt`, licences.join(`\n${"-".repeat(80)}\n\n`));
