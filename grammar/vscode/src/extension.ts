/** Starts `meganeura lsp` for `.mgn` files; all that the editor shows comes from that server. */

import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";

import { serverCommand } from "./command.ts";

let client: LanguageClient | undefined;
let output: vscode.LogOutputChannel | undefined;

async function start(): Promise<void> {
  const setting = vscode.workspace.getConfiguration("meganeura").get<string[]>("server.command", []);
  const folders = vscode.workspace.isTrusted ? vscode.workspace.workspaceFolders ?? [] : [];
  const { command, args } = serverCommand(setting, folders.map(({ uri }) => uri.fsPath));
  output ??= vscode.window.createOutputChannel("Meganeura", { log: true });
  client = new LanguageClient("meganeura", "Meganeura", { command, args }, {
    documentSelector: [
      { language: "meganeura", scheme: "file" },
      { language: "meganeura", scheme: "untitled" },
    ],
    outputChannel: output,
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    output.error(String(error));
    await reportFailure(command);
  }
}

/** Says that the server could not be started, with what can be done. */
async function reportFailure(command: string): Promise<void> {
  const text = `\`${command}\` could not be started. Install it by \`pip install 'meganeura[editor]'\`,`
    + " or name it in the setting `meganeura.server.command`.";
  const chosen = await vscode.window.showErrorMessage(text, "Open the setting", "Show the output");
  if (chosen === "Show the output") output?.show();
  if (chosen !== "Open the setting") return;
  await vscode.commands.executeCommand("workbench.action.openSettings", "meganeura.server.command");
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("meganeura.restartServer", restart),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("meganeura.server")) await restart();
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  const running = client;
  client = undefined;
  await running?.stop();
}
