/** Log-mel spectrograms as Whisper was trained on them: the same as `meganeura run` makes. */

export const RATE = 16_000;
const WINDOW = 400;
const HOP = 160;
const BINS = WINDOW / 2 + 1;
const LOG_STEP = Math.log(6.4) / 27;

/** The spectrogram `[mels, frames]` of samples at 16 kHz, followed by silence. */
export function logMel(samples: Float32Array, mels: number, frames: number): Float32Array {
  const length = frames * HOP;
  const at = (i: number) => {
    const mirrored = i < 0 ? -i : i >= length ? 2 * (length - 1) - i : i;
    return samples[mirrored] ?? 0;
  };
  const hann = Float64Array.from({ length: WINDOW }, (_, i) =>
    0.5 - 0.5 * Math.cos((2 * Math.PI * i) / WINDOW));
  const cosines = Float64Array.from({ length: WINDOW }, (_, i) =>
    Math.cos((2 * Math.PI * i) / WINDOW));
  const filters = triangles(mels);
  const found = new Float64Array(mels * frames);
  const windowed = new Float64Array(WINDOW);
  const power = new Float64Array(BINS);
  let largest = -Infinity;
  for (let frame = 0; frame < frames; frame++) {
    const start = frame * HOP - WINDOW / 2;
    let silent = true;
    for (let i = 0; i < WINDOW; i++) {
      windowed[i] = at(start + i) * hann[i]!;
      silent &&= windowed[i] === 0;
    }
    if (silent) power.fill(0);
    else spectrum(windowed, cosines, power);
    for (let mel = 0; mel < mels; mel++) {
      let sum = 0;
      for (let bin = 0; bin < BINS; bin++) sum += power[bin]! * filters[mel * BINS + bin]!;
      const value = Math.log10(Math.max(sum, 1e-10));
      found[mel * frames + frame] = value;
      largest = Math.max(largest, value);
    }
  }
  return Float32Array.from(found, (value) => (Math.max(value, largest - 8) + 4) / 4);
}

function spectrum(samples: Float64Array, cosines: Float64Array, power: Float64Array): void {
  for (let bin = 0; bin < BINS; bin++) {
    let [real, imaginary] = [0, 0];
    for (let i = 0, phase = 0; i < WINDOW; i++) {
      real += samples[i]! * cosines[phase]!;
      imaginary += samples[i]! * cosines[(phase + 300) % WINDOW]!;
      phase = (phase + bin) % WINDOW;
    }
    power[bin] = real * real + imaginary * imaginary;
  }
}

function frequency(mel: number): number {
  return mel < 15 ? (mel * 200) / 3 : 1000 * Math.exp(LOG_STEP * (mel - 15));
}

/** The weight of each frequency in each mel: `[mels, 201]`. */
function triangles(mels: number): Float64Array {
  const highest = 15 + Math.log(8) / LOG_STEP;
  const edges = Array.from({ length: mels + 2 }, (_, i) => frequency((highest * i) / (mels + 1)));
  const weights = new Float64Array(mels * BINS);
  for (let mel = 0; mel < mels; mel++) {
    const [low, peak, high] = [edges[mel]!, edges[mel + 1]!, edges[mel + 2]!];
    for (let bin = 0; bin < BINS; bin++) {
      const hertz = (bin * RATE) / WINDOW;
      const height = Math.min((hertz - low) / (peak - low), (high - hertz) / (high - peak));
      weights[mel * BINS + bin] = (Math.max(0, height) * 2) / (high - low);
    }
  }
  return weights;
}

/** The samples of a sound file or a recording, mixed to one channel, at 16 kHz. */
export async function decoded(file: Blob): Promise<Float32Array> {
  const context = new OfflineAudioContext(1, 1, RATE);
  const sound = await context.decodeAudioData(await file.arrayBuffer());
  const mono = new Float32Array(sound.length);
  for (let channel = 0; channel < sound.numberOfChannels; channel++) {
    sound.getChannelData(channel).forEach((value, i) => {
      mono[i] = mono[i]! + value / sound.numberOfChannels;
    });
  }
  return mono;
}
