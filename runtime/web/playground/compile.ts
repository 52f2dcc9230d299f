/**
 * Compiles the Python of an archive by the Python of Pyodide, so that a page need not: reads one
 * zip file and writes another, in which each `.py` is a `.pyc`.
 */

import { readFileSync, writeFileSync } from "node:fs";

import { loadPyodide } from "pyodide";

const [from, to] = process.argv.slice(2);
if (!from || !to) throw new Error("node playground/compile.ts FROM.zip TO.zip");
const python = await loadPyodide();
python.FS.writeFile("/from.zip", new Uint8Array(readFileSync(from)));
python.runPython(`
from importlib.util import MAGIC_NUMBER
from marshal import dumps
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

HEADER = MAGIC_NUMBER + (0b01).to_bytes(4, "little") + bytes(8)  # of a hash that is not compared

with ZipFile("/from.zip") as given, ZipFile("/to.zip", "w") as made:
    for name in given.namelist():
        content = given.read(name)
        if name.endswith(".py"):
            code = compile(content, f"/packages/{name}", "exec", dont_inherit=True)
            name, content = f"{name}c", HEADER + dumps(code)
        made.writestr(ZipInfo(name), content, ZIP_DEFLATED, 9)
`);
writeFileSync(to, python.FS.readFile("/to.zip"));
