/**
 * Builds the runtime (dist, for npm) and the pages that `meganeura build` fills in, which are
 * committed, so that nobody who does not change it needs Node. `--check` writes nothing, and fails
 * where a committed page is not what the sources give.
 */

import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { build, transform } from "esbuild";
import type { BuildOptions, PluginBuild } from "esbuild";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const PAGES = here("../meganeura_runtime/export/page");
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
const style = await transform(readFileSync(here("page/page.css"), "utf8"), {
  loader: "css", minify: true,
});
const frame = readFileSync(here("page/page.html"), "utf8");

/** A page whose script and worker lie in a folder. */
async function page(folder: string): Promise<string> {
  const worker = await bundled(`${folder}/worker.ts`, { format: "iife" });
  const main = await bundled(`${folder}/main.ts`, {
    format: "iife", define: { WORKER: JSON.stringify(worker) },
  });
  return frame
    .replace("/*STYLE*/", () => style.code.trim())
    .replace("/*SCRIPT*/", () => `${BANNER}\n${inHtml(main)}`);
}

const reader = inHtml(await bundled("page/reader.ts", { format: "iife" }));
const pages = {
  "page.html": await page("page"),
  "generation.html": await page("page/generation"),
  "wordpiece.js": `${BANNER}\n${reader}`,
};
const sizes = Object.entries(pages).map(([name, text]) => [name.split(".")[0], text.length]);

console.log(JSON.stringify({ runtime, tokenizer, ...Object.fromEntries(sizes) }));
if (process.argv.includes("--check")) {
  for (const [name, text] of Object.entries(pages)) {
    if (readFileSync(`${PAGES}/${name}`, "utf8") === text) continue;
    console.error(`${name} is not what runtime/web gives: run \`npm run build\` there`);
    process.exitCode = 1;
  }
} else {
  for (const [name, text] of Object.entries(pages)) writeFileSync(`${PAGES}/${name}`, text);
  rmSync(here("dist"), { recursive: true, force: true });
  mkdirSync(here("dist"));
  for (const [name, text] of Object.entries(modules)) writeFileSync(here(`dist/${name}`), text);
  copyFileSync(here("../../LICENSE"), here("LICENSE"));
}
