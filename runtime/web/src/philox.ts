/**
 * The order of an epoch: the numbers of all examples, sorted by the words of Philox-4x64-10
 * (Salmon et al. 2011) with the key (seed, epoch), as NumPy's `Philox(key=...).random_raw` has them.
 */

const MASK = (1n << 64n) - 1n;
const MULTIPLIERS = [0xd2e7470ee14c6c93n, 0xca5a826395121157n] as const;
const WEYL = [0x9e3779b97f4a7c15n, 0xbb67ae8584caa73bn] as const;

/** The four words of a block. */
export function philox(counter: bigint, key: readonly [bigint, bigint]): bigint[] {
  let [a, b, c, d] = [counter, 0n, 0n, 0n];
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const [first, second] = [a * MULTIPLIERS[0], c * MULTIPLIERS[1]];
    [a, b, c, d] = [(second >> 64n) ^ b ^ k0, second & MASK, (first >> 64n) ^ d ^ k1, first & MASK];
    k0 = (k0 + WEYL[0]) & MASK;
    k1 = (k1 + WEYL[1]) & MASK;
  }
  return [a, b, c, d];
}

/** The numbers of `examples` in the order of an epoch. */
export function orderOfEpoch(
  seed: number, epoch: number, examples: number, shuffle: boolean,
): Uint32Array {
  const order = Uint32Array.from({ length: examples }, (_, i) => i);
  if (!shuffle) return order;
  const high = new Uint32Array(examples);
  const low = new Uint32Array(examples);
  for (let at = 0; at < examples; at += 4) {
    // NumPy counts before it draws: the first block has the counter 1.
    philox(BigInt(at / 4 + 1), [BigInt(seed), BigInt(epoch)]).forEach((word, i) => {
      high[at + i] = Number(word >> 32n);
      low[at + i] = Number(word & 0xffffffffn);
    });
  }
  // The sort of an array is stable.
  return order.sort((one, other) => high[one]! - high[other]! || low[one]! - low[other]!);
}
