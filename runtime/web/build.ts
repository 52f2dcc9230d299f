/**
 * Builds the runtime (dist/index.js, for npm) and the page that `meganeura build` fills in, which is
 * committed, so that nobody who does not change it needs Node. `--check` writes nothing, and fails
 * where the committed page is not what the sources give.
 */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { build, transform } from "esbuild";
import type { BuildOptions } from "esbuild";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const PAGE = here("../meganeura_runtime/export/page/page.html");
const BANNER = "/* Built from runtime/web by `npm run build`: change it there. */";

async function bundled(entry: string, options: BuildOptions): Promise<string> {
  const made = await build({
    entryPoints: [here(entry)], bundle: true, minify: true, write: false, target: "es2022",
    charset: "utf8", legalComments: "none", ...options,
  });
  return made.outputFiles![0]!.text.trim();
}

/** A script that can stand in HTML. */
function inHtml(script: string): string {
  return script.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
}

const runtime = await bundled("src/index.ts", { format: "esm" });
const worker = await bundled("page/worker.ts", { format: "iife" });
const main = await bundled("page/main.ts", {
  format: "iife", define: { WORKER: JSON.stringify(worker) },
});
const style = await transform(readFileSync(here("page/page.css"), "utf8"), {
  loader: "css", minify: true,
});
const page = readFileSync(here("page/page.html"), "utf8")
  .replace("/*STYLE*/", () => style.code.trim())
  .replace("/*SCRIPT*/", () => `${BANNER}\n${inHtml(main)}`);

console.log(JSON.stringify({ runtime: runtime.length, worker: worker.length, page: page.length }));
if (process.argv.includes("--check")) {
  if (readFileSync(PAGE, "utf8") !== page) {
    console.error("page.html is not what runtime/web gives: run `npm run build` there");
    process.exit(1);
  }
} else {
  mkdirSync(here("../meganeura_runtime/export/page"), { recursive: true });
  writeFileSync(PAGE, page);
  mkdirSync(here("dist"), { recursive: true });
  writeFileSync(here("dist/index.js"), runtime + "\n");
}
