/** Builds the extension into one file, beside the licences of what it bundles, and its own. */

import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const { metafile } = await build({
  absWorkingDir: here("."), entryPoints: ["src/extension.ts"], outfile: "dist/extension.js",
  bundle: true, minify: true, metafile: true, platform: "node", target: "node20",
  external: ["vscode"], legalComments: "none",
});
const folders = Object.keys(metafile.inputs).flatMap(
  (file) => /.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? [],
);
const licences = [...new Set(folders)].sort().map((folder) => {
  const name = readdirSync(here(folder)).find((file) => /^licen[cs]e/i.test(file));
  if (name === undefined) throw new Error(`${folder} has no licence`);
  return `${folder.replace(/.*node_modules\//, "")}\n\n${readFileSync(here(`${folder}/${name}`), "utf8")}`;
});
writeFileSync(here("dist/licences.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
copyFileSync(here("../../LICENSE"), here("LICENSE"));
