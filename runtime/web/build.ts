/**
 * Builds the runtime (dist, for npm), the pages that `meganeura build` fills in, and the drawings of
 * `meganeura graph`. All but the runtime are committed, so that nobody who does not change it needs Node. `--check` writes nothing, and fails
 * where a committed page is not what the sources give.
 */

import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { build, transform } from "esbuild";
import type { BuildOptions, PluginBuild } from "esbuild";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const PAGES = here("../meganeura_runtime/export/page");
const DRAWING = here("../../meganeura/drawing");
const BANNER = "/* Built from runtime/web by `npm run build`: change it there. */";

async function bundled(entry: string, options: BuildOptions): Promise<string> {
  const made = await build({
    entryPoints: [here(entry)], bundle: true, minify: true, write: false, target: "es2022",
    charset: "utf8", legalComments: "none", ...options,
  });
  return made.outputFiles![0]!.text.trim();
}

/** Imports of a source, as those of a module of the package. */
function from(source: RegExp, module: string): BuildOptions {
  const path = { path: module, external: true };
  const setup = (build: PluginBuild) => build.onResolve({ filter: source }, () => path);
  return { format: "esm", plugins: [{ name: module, setup }] };
}

/**
 * The modules of the package, minified, by their names: what is loaded at once is one file, whose
 * class of errors is that of the tokenizer too.
 */
const modules = {
  "index.js": await bundled("src/index.ts", from(/\/tokenizer\.ts$/, "./tokenizer.js")),
  "tokenizer.js": await bundled("src/tokenizer.ts", from(/\/problems\.ts$/, "./index.js")),
};

/** A script that can stand in HTML. */
function inHtml(script: string): string {
  return script.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
}

const runtime = modules["index.js"].length;
const tokenizer = modules["tokenizer.js"].length;

/** A page of a frame and a style, `page.html` and `page.css` of a folder, and a script. */
async function page(folder: string, script: string): Promise<string> {
  const css = readFileSync(here(`${folder}/page.css`), "utf8");
  const style = await transform(css, { loader: "css", minify: true });
  return readFileSync(here(`${folder}/page.html`), "utf8")
    .replace("/*STYLE*/", () => style.code.trim())
    .replace("/*SCRIPT*/", () => `${BANNER}\n${inHtml(script)}`);
}

/** A script and the worker beside it. */
async function withWorker(folder: string): Promise<string> {
  const worker = await bundled(`${folder}/worker.ts`, { format: "iife" });
  return bundled(`${folder}/main.ts`, { format: "iife", define: { WORKER: JSON.stringify(worker) } });
}

const reader = inHtml(await bundled("page/reader.ts", { format: "iife" }));
const LICENCE = readFileSync(here("node_modules/@dagrejs/dagre/LICENSE"), "utf8").trim();
const noted = (script: string) => `/* It contains dagre:\n\n${LICENCE}\n*/\n${script}`;
const drawn = await bundled("drawing/main.ts", { format: "iife" });
const file = await bundled("drawing/file.ts", { format: "iife" });
const pages = {
  [`${PAGES}/page.html`]: await page("page", await withWorker("page")),
  [`${PAGES}/generation.html`]: await page("page", await withWorker("page/generation")),
  [`${PAGES}/wordpiece.js`]: `${BANNER}\n${reader}`,
  [`${DRAWING}/drawing.html`]: await page("drawing", noted(drawn)),
  [`${DRAWING}/drawing.js`]: `${BANNER}\n${noted(file)}`,
};
const sizes = Object.entries(pages).map(([path, text]) => [path.split("/").at(-1), text.length]);

console.log(JSON.stringify({ runtime, tokenizer, ...Object.fromEntries(sizes) }));
if (process.argv.includes("--check")) {
  for (const [path, text] of Object.entries(pages)) {
    if (readFileSync(path, "utf8") === text) continue;
    console.error(`${path} is not what runtime/web gives: run \`npm run build\` there`);
    process.exitCode = 1;
  }
} else {
  for (const [path, text] of Object.entries(pages)) writeFileSync(path, text);
  rmSync(here("dist"), { recursive: true, force: true });
  mkdirSync(here("dist"));
  for (const [name, text] of Object.entries(modules)) writeFileSync(here(`dist/${name}`), text);
  copyFileSync(here("../../LICENSE"), here("LICENSE"));
}
