/** What goes wrong, under the codes that `meganeura explain` has pages for. */

/** An error with the code of its page in the reference and, where there is one, a cure. */
export class MeganeuraError extends Error {
  readonly code: string;
  readonly cure: string;

  constructor(code: string, message: string, cure = "") {
    super(message);
    this.name = "MeganeuraError";
    this.code = code;
    this.cure = cure;
  }
}

/** The file is no compiled model, or one that this version cannot run. */
export function notAnArtefact(reason: string): MeganeuraError {
  const cure = "write it anew with `meganeura build`";
  return new MeganeuraError("E0581", `this compiled model cannot be run: ${reason}`, cure);
}

/** The device is not there, or has stopped working. */
export function deviceFailure(reason: string, cure = ""): MeganeuraError {
  return new MeganeuraError("E0551", reason, cure);
}

/** `condition`, or an error that says what is wrong with a compiled model. */
export function require(condition: boolean, otherwise: () => string): asserts condition {
  if (!condition) throw notAnArtefact(otherwise());
}
