/** What `meganeura build` writes into a page besides the model. */

/** How a picture becomes numbers: the steps of `meganeura run`. */
export interface PictureForm {
  readonly kind: "picture";
  readonly colors: number;
  /** Resized to cover this rectangle, or stretched to it; `null` as it is. */
  readonly resize: { readonly height: number; readonly width: number; readonly covers: boolean } | null;
  /** What is kept of it, in the middle; half a pixel goes down, or to the even side. */
  readonly crop: { readonly height: number; readonly width: number; readonly roundsDown: boolean };
  readonly filter: "nearest" | "box" | "bilinear" | "hamming" | "bicubic" | "lanczos";
  /** A byte is multiplied by it. */
  readonly scale: number;
  readonly mean: readonly number[];
  readonly std: readonly number[];
}

/** A log-mel spectrogram of sound at 16 kHz. */
export interface SoundForm {
  readonly kind: "sound";
  readonly mels: number;
  readonly frames: number;
}

/** Integers that are the bytes of a text. */
export interface BytesForm {
  readonly kind: "bytes";
}

/** Integers that are the tokens of a text, by the tokenizer of the page. */
export interface TokensForm {
  readonly kind: "tokens";
}

/** Which tokens of another input are those of a text. */
export interface MaskForm {
  readonly kind: "mask";
  readonly of: string;
}

export interface NumbersForm {
  readonly kind: "numbers";
}

export type InputForm =
  PictureForm | SoundForm | BytesForm | TokensForm | MaskForm | NumbersForm;

export interface PageForm {
  readonly title: string;
  readonly inputs: Readonly<Record<string, InputForm>>;
  readonly labels: readonly string[];
  /** The file beside the page that holds the model; `null` where the page holds it. */
  readonly beside: string | null;
}
