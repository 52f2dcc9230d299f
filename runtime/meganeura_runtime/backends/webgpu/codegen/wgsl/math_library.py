"""WGSL functions that the language lacks, or has without the accuracy training needs.

NaN is recognized by its bits: a compiler of WGSL may assume that there is none, and fold `x == x`.
"""

import re
from collections.abc import Mapping

LIBRARY: Mapping[str, str] = {
    "from_bits": """\
// Infinities and NaN have no literal, and constant expressions may not be one.
fn from_bits(word: u32) -> f32 {
    var bits = word;
    return bitcast<f32>(bits);
}""",
    "is_nan": """\
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}""",
    "to_i32": """\
// Saturates, and takes NaN to 0.
fn to_i32(x: f32) -> i32 {
    let low = select(i32(x), i32(-2147483648), x < -2147483648.0f);
    return select(select(low, 2147483647i, x >= 2147483648.0f), 0i, is_nan(x));
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
    return select(max(a, b), a + b, is_nan(a) || is_nan(b));
}""",
    "smaller": """\
// The minimum, or NaN if either is one.
fn smaller(a: f32, b: f32) -> f32 {
    return select(min(a, b), a + b, is_nan(a) || is_nan(b));
}""",
    "rectified": """\
// 0 where x is 0 or less, and x elsewhere, NaN included.
fn rectified(x: f32) -> f32 {
    return select(x, 0.0f, x <= 0.0f && !is_nan(x));
}""",
    "exceeds": """\
// Whether a is larger than b, where NaN is larger than all numbers.
fn exceeds(a: f32, b: f32) -> bool {
    return (a > b || is_nan(a)) && !is_nan(b);
}""",
    "exponential": """\
// e^x, or NaN of it, of which SwiftShader's `exp` makes a number.
fn exponential(x: f32) -> f32 {
    return select(exp(x), x, is_nan(x));
}""",
    "logarithm": """\
// The natural logarithm: -infinity of 0, and NaN below. WGSL leaves both open, and SwiftShader's
// `log` is -88 of 0, and that of |x| below.
fn logarithm(x: f32) -> f32 {
    let no_number = select(from_bits(0x7fc00000u), from_bits(0xff800000u), x == 0.0f);
    return select(no_number, log(x), x > 0.0f);
}""",
    "hyperbolic_tangent": """\
// Near 0, and for NaN, an odd polynomial; from 0.625 to infinity 1 - 2 / (e^2x + 1), which cannot
// overflow where it matters.
fn hyperbolic_tangent(x: f32) -> f32 {
    let s = x * x;
    let p = ((-0.005717045f * s + 0.020650588f) * s - 0.053743498f) * s + 0.13331491f;
    let near = x + x * s * (p * s - 0.33333284f);
    let far = 1.0f - 2.0f / (exp(2.0f * min(abs(x), 10.0f)) + 1.0f);
    let is_far = (bitcast<u32>(x) & 0x7fffffffu) - 0x3f200000u <= 0x40600000u;
    return select(near, sign(x) * far, is_far);
}""",
    "exponential_less_one": """\
// e^x - 1. Near 0, and for NaN, a polynomial; from 0.5 to infinity the difference.
fn exponential_less_one(x: f32) -> f32 {
    let p = (0.00019962186f * x + 0.0013982197f) * x + 0.008333182f;
    let near = x + x * x * (((p * x + 0.041665793f) * x + 0.16666667f) * x + 0.5f);
    let is_far = (bitcast<u32>(x) & 0x7fffffffu) - 0x3f000000u <= 0x40800000u;
    return select(near, exp(x) - 1.0f, is_far);
}""",
    "logarithm_of_one_and": """\
// log(1 + x). From -0.5 to 1, and for NaN, x - x^2 / 2 + s (x^2 / 2 + r(s^2)) with s = x / (2 + x)
// and r(s^2) = 2 atanh(s) / s - 2, where what the quotient is off by counts little.
fn logarithm_of_one_and(x: f32) -> f32 {
    let s = x / (2.0f + x);
    let z = s * s;
    let q = ((0.23238902f * z + 0.21703352f) * z + 0.28592581f) * z + 0.39999703f;
    let h = 0.5f * x * x;
    let near = x - (h - s * (h + z * (q * z + 0.66666669f)));
    return select(near, logarithm(1.0f + x), x < -0.5f || x > 1.0f);
}""",
    "logistic": """\
// 1 / (1 + e^-x), by e^-|x|, which does not overflow and has all digits where the result is small.
fn logistic(x: f32) -> f32 {
    let near = exponential(-abs(x));
    return select(1.0f, near, x <= 0.0f) / (1.0f + near);
}""",
    "error_function": """\
// Near 0, and for NaN, an odd polynomial; from 1 to infinity 1 - e^q(x), where q approximates
// log(1 - erf(x)).
fn error_function(x: f32) -> f32 {
    let s = x * x;
    let p = ((7.8538613e-5f * s - 0.00080101932f) * s + 0.0051883277f) * s - 0.026853812f;
    let near = x * (((p * s + 0.11283585f) * s - 0.37612626f) * s + 1.1283792f);
    let a = min(abs(x), 4.0f);
    let q = ((0.000185574f * a - 0.0029396072f) * a + 0.021805318f) * a - 0.10303737f;
    let far = 1.0f - exp(((q * a - 0.63822568f) * a - 1.12704f) * a - 0.00035371964f);
    let is_far = (bitcast<u32>(x) & 0x7fffffffu) - 0x3f800000u <= 0x40000000u;
    return select(near, sign(x) * far, is_far);
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
// sin(x + turns * pi/2). Below 2^13, x - k pi/2 is taken in three steps, of which two are exact
// (W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980).
fn quarter_turn(x: f32, turns: i32) -> f32 {
    let k = round(x * 0.63661975f);
    var r = ((x - k * 1.5703125f) - k * 0.0004837513f) - k * 7.54979e-8f;
    var quadrant = i32(k) + turns;
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x46000000u) {
        let reduced = large_angle(x);
        r = reduced.x;
        quadrant = i32(reduced.y) + turns;
    }
    let s = r * r;
    let odd = r + r * s * ((-0.00019517f * s + 0.00833218f) * s - 0.16666655f);
    let even = 1.0f - 0.5f * s + s * s * ((2.443845e-5f * s - 0.0013887367f) * s + 0.041666647f);
    let size = select(odd, even, (quadrant & 1) == 1);
    return select(size, -size, (quadrant & 2) == 2);
}""",
    "large_angle": """\
// r and k, where x = r + k pi/2 but for whole turns, |r| <= pi/4 and |k| <= 4; r is NaN if x is no
// finite number. |x| = m 2^e times 2/pi is wanted modulo 4, so those bits of 2/pi count that weigh
// 2 to 2^-94 times 2^-e (M. Payne and R. Hanek, "Radian reduction for trigonometric functions",
// SIGNUM Newsletter 18, 1983).
fn large_angle(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let m = (bits & 0x007fffffu) | 0x00800000u;
    let first = (bits >> 23u) - 120u;
    var w = vec4<u32>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u);
    var v = vec4<u32>(0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
    w = select(w, v, vec4<bool>((first & 128u) != 0u));
    w = select(w, vec4<u32>(w.zw, v.xy), vec4<bool>((first & 64u) != 0u));
    v = select(v, v.zwxy, vec4<bool>((first & 64u) != 0u));
    w = select(w, vec4<u32>(w.yzw, v.x), vec4<bool>((first & 32u) != 0u));
    let by = first & 31u;
    let p = (w.xyz << vec3<u32>(by)) | ((w.yzw >> vec3<u32>(1u)) >> vec3<u32>(31u - by));
    let low = m * p.y + high_word(m, p.z);
    let high = m * p.x + high_word(m, p.y) + select(0u, 1u, low < m * p.y);
    var turn = vec2<u32>((high << 2u) | (low >> 30u), low << 2u);
    let up = turn.x >> 31u;
    if (up == 1u) {
        turn = vec2<u32>(~turn.x + select(0u, 1u, turn.y == 0u), ~turn.y + 1u);
    }
    let part = f32(turn.x) * 2.3283064e-10f + f32(turn.y) * 5.4210109e-20f;
    let r = part * select(1.5707964f, -1.5707964f, (up == 1u) != (x < 0.0f));
    let k = f32((high >> 30u) + up);
    let no_number = bits >= 0x7f800000u;
    return vec2<f32>(select(r, from_bits(0x7fc00000u), no_number), select(k, -k, x < 0.0f));
}""",
    "high_word": """\
// The upper word of m w, where m < 2^24.
fn high_word(m: u32, w: u32) -> u32 {
    let low = (m & 0xffffu) * (w & 0xffffu);
    let mid = (m & 0xffffu) * (w >> 16u) + (low >> 16u);
    let carried = (m >> 16u) * (w & 0xffffu) + (mid & 0xffffu);
    return (m >> 16u) * (w >> 16u) + (mid >> 16u) + (carried >> 16u);
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

_TURN = ("quarter_turn", "large_angle", "high_word", "from_bits")

_CALLS: Mapping[str, tuple[str, ...]] = {
    "to_i32": ("is_nan",),
    "exponential": ("is_nan",),
    "logarithm": ("from_bits",),
    "logarithm_of_one_and": ("logarithm", "from_bits"),
    "logistic": ("exponential", "is_nan"),
    "larger": ("is_nan",),
    "smaller": ("is_nan",),
    "rectified": ("is_nan",),
    "exceeds": ("is_nan",),
    "sine": _TURN,
    "cosine": _TURN,
    "random_word": ("four_rounds", "mixed"),
}


def functions(body: str) -> list[str]:
    """The functions that a kernel's body calls, and those that they call."""
    called = LIBRARY.keys() & set(re.findall(r"\w+(?=\()", body))
    needed = called.union(*(_CALLS.get(name, ()) for name in called))
    return [text for name, text in LIBRARY.items() if name in needed]
