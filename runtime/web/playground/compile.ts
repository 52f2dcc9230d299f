/**
 * Compiles Python by the Python of Pyodide, so that a page need not: all modules of an archive, and
 * those of the standard library that a first check imports. The others stay texts, which are smaller.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { loadPyodide } from "pyodide";

const [from, core, out] = process.argv.slice(2);
if (!from || !core || !out) throw new Error("node playground/compile.ts FROM.zip CORE.whl FOLDER");
const library = fileURLToPath(import.meta.resolve("pyodide/python_stdlib.zip"));
const python = await loadPyodide();
for (const [name, path] of [["from", from], ["library", library]] as const) {
  python.FS.writeFile(`/${name}.zip`, new Uint8Array(readFileSync(path)));
}
python.unpackArchive(new Uint8Array(readFileSync(core)), "wheel");
python.runPython(`
import sys
from importlib.util import MAGIC_NUMBER
from marshal import dumps
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

HEADER = MAGIC_NUMBER + (0b01).to_bytes(4, "little") + bytes(8)  # of a hash that is not compared
(LIBRARY,) = [each for each in sys.path if each.endswith(".zip")]


def compiled(given, made, folder, is_wanted):
    with ZipFile(given) as given, ZipFile(made, "w") as made:
        for name in given.namelist():
            content = given.read(name)
            if name.endswith(".py") and is_wanted(f"{folder}/{name}"):
                code = compile(content, f"{folder}/{name}", "exec", dont_inherit=True)
                name, content = f"{name}c", HEADER + dumps(code)
            made.writestr(ZipInfo(name), content, ZIP_DEFLATED, 9)


compiled("/from.zip", "/to.zip", "/packages", lambda path: True)
ZipFile("/to.zip").extractall("/packages")
sys.path.insert(0, "/packages")
from meganeura.language_server.playground import Playground

assert Playground().check("block A()(x: [n]) -> [n] = relu(x)\\n")["fine"]
modules = [each.__spec__ for each in [*sys.modules.values()] if getattr(each, "__spec__", None)]
loaded = {each.origin for each in modules if (each.origin or "").startswith(f"{LIBRARY}/")}
assert f"{LIBRARY}/typing.py" in loaded
compiled("/library.zip", "/library_to.zip", LIBRARY, loaded.__contains__)
`);
writeFileSync(`${out}/python.zip`, python.FS.readFile("/to.zip"));
writeFileSync(`${out}/pyodide/python_stdlib.zip`, python.FS.readFile("/library_to.zip"));
