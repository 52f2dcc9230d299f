"""WGSL functions that the language lacks, or has without the accuracy training needs."""

import re
from collections.abc import Mapping

LIBRARY: Mapping[str, str] = {
    "from_bits": """\
// Infinities and NaN have no literal, and constant expressions may not be one.
fn from_bits(word: u32) -> f32 {
    var bits = word;
    return bitcast<f32>(bits);
}""",
    "to_i32": """\
// Saturates, and takes NaN to 0.
fn to_i32(x: f32) -> i32 {
    let low = select(i32(x), i32(-2147483648), x < -2147483648.0f);
    return select(0i, select(low, 2147483647i, x >= 2147483648.0f), x == x);
}""",
    "to_u32": """\
// Saturates, and takes NaN to 0.
fn to_u32(x: f32) -> u32 {
    let high = select(u32(x), 4294967295u, x >= 4294967296.0f);
    return select(high, 0u, !(x > 0.0f));
}""",
    "larger": """\
// The maximum, or NaN if either is one, which `max` leaves open.
fn larger(a: f32, b: f32) -> f32 {
    return select(a + b, max(a, b), a == a && b == b);
}""",
    "smaller": """\
// The minimum, or NaN if either is one.
fn smaller(a: f32, b: f32) -> f32 {
    return select(a + b, min(a, b), a == a && b == b);
}""",
    "hyperbolic_tangent": """\
// Near 0 an odd polynomial; elsewhere 1 - 2 / (e^2x + 1), which cannot overflow where it matters.
fn hyperbolic_tangent(x: f32) -> f32 {
    let s = x * x;
    let p = ((-0.005717045f * s + 0.020650588f) * s - 0.053743498f) * s + 0.13331491f;
    let near = x + x * s * (p * s - 0.33333284f);
    let far = 1.0f - 2.0f / (exp(2.0f * min(abs(x), 10.0f)) + 1.0f);
    return select(sign(x) * far, near, abs(x) < 0.625f);
}""",
    "error_function": """\
// Near 0 an odd polynomial; elsewhere 1 - e^q(x), where q approximates log(1 - erf(x)).
fn error_function(x: f32) -> f32 {
    let s = x * x;
    let p = ((7.8538613e-5f * s - 0.00080101932f) * s + 0.0051883277f) * s - 0.026853812f;
    let near = x * (((p * s + 0.11283585f) * s - 0.37612626f) * s + 1.1283792f);
    let a = min(abs(x), 4.0f);
    let q = ((0.000185574f * a - 0.0029396072f) * a + 0.021805318f) * a - 0.10303737f;
    let far = 1.0f - exp(((q * a - 0.63822568f) * a - 1.12704f) * a - 0.00035371964f);
    return select(sign(x) * far, near, a < 1.0f);
}""",
    "sine": """\
fn sine(x: f32) -> f32 {
    return quarter_turn(x, 0);
}""",
    "cosine": """\
fn cosine(x: f32) -> f32 {
    return quarter_turn(x, 1);
}""",
    "quarter_turn": """\
// sin(x + turns * pi/2). x - k pi/2 is taken in three steps, of which two are exact for k < 2^13
// (W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980).
fn quarter_turn(x: f32, turns: i32) -> f32 {
    let k = round(x * 0.63661975f);
    let r = ((x - k * 1.5703125f) - k * 0.0004837513f) - k * 7.54979e-8f;
    let s = r * r;
    let odd = r + r * s * ((-0.00019517f * s + 0.00833218f) * s - 0.16666655f);
    let even = 1.0f - 0.5f * s + s * s * ((2.443845e-5f * s - 0.0013887367f) * s + 0.041666647f);
    let quadrant = i32(k) + turns;
    let size = select(odd, even, (quadrant & 1) == 1);
    return select(size, -size, (quadrant & 2) == 2);
}""",
    "random_word": """\
// The first word of Threefry-2x32 with 20 rounds
// (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
fn random_word(seed: u32, step: u32, index: u32, stream: u32) -> u32 {
    let odd = 0x1bd11bdau ^ seed ^ step;
    var x = vec2<u32>(index + seed, stream + step);
    x = four_rounds(x, vec4<u32>(13u, 15u, 26u, 6u)) + vec2<u32>(step, odd + 1u);
    x = four_rounds(x, vec4<u32>(17u, 29u, 16u, 24u)) + vec2<u32>(odd, seed + 2u);
    x = four_rounds(x, vec4<u32>(13u, 15u, 26u, 6u)) + vec2<u32>(seed, step + 3u);
    x = four_rounds(x, vec4<u32>(17u, 29u, 16u, 24u)) + vec2<u32>(step, odd + 4u);
    x = four_rounds(x, vec4<u32>(13u, 15u, 26u, 6u)) + vec2<u32>(odd, seed + 5u);
    return x.x;
}""",
    "four_rounds": """\
fn four_rounds(block: vec2<u32>, turns: vec4<u32>) -> vec2<u32> {
    var x = mixed(block, turns.x);
    x = mixed(x, turns.y);
    x = mixed(x, turns.z);
    return mixed(x, turns.w);
}""",
    "mixed": """\
fn mixed(x: vec2<u32>, turns: u32) -> vec2<u32> {
    let total = x.x + x.y;
    return vec2<u32>(total, ((x.y << turns) | (x.y >> (32u - turns))) ^ total);
}""",
}

_CALLS: Mapping[str, tuple[str, ...]] = {
    "sine": ("quarter_turn",),
    "cosine": ("quarter_turn",),
    "random_word": ("four_rounds", "mixed"),
}


def functions(body: str) -> list[str]:
    """The functions that a kernel's body calls, and those that they call."""
    called = LIBRARY.keys() & set(re.findall(r"\w+(?=\()", body))
    needed = called.union(*(_CALLS.get(name, ()) for name in called))
    return [text for name, text in LIBRARY.items() if name in needed]
