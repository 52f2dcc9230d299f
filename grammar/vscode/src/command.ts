/** The command that starts the language server. */

import { existsSync } from "node:fs";
import { join } from "node:path";

/**
 * The command of the setting. A bare `meganeura` is that of `.venv` in one of the folders, if it
 * is there; the folders of a window that is not trusted are not given here.
 */
export function serverCommand(
  setting: readonly string[], folders: readonly string[], platform = process.platform,
): { command: string; args: string[] } {
  const [command = "meganeura", ...args] = setting;
  if (command !== "meganeura") return { command, args };
  const inside = platform === "win32" ? "Scripts/meganeura.exe" : "bin/meganeura";
  const found = folders.map((folder) => join(folder, ".venv", inside)).find(existsSync);
  return { command: found ?? command, args };
}
