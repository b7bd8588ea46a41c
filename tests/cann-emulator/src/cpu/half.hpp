// IEEE 754 binary16. Written out because not every compiler that builds this has a type for it in C++.
#pragma once

#include <cstdint>
#include <cstring>

namespace half {

inline float to_float(std::uint16_t half) {
    const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
    const std::uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    std::uint32_t bits;
    float value;
    if (exponent == 0) {  // zero and subnormals: fraction * 2^-24 is exact in a float
        value = static_cast<float>(fraction) * 0x1p-24f;
        std::memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    } else if (exponent == 31) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    }
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

/// Rounds to nearest, ties to even; too large becomes infinity.
inline std::uint16_t from_float(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
    if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // 2^16 and more
    if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal. The addition does the rounding
        float shifted;
        std::memcpy(&shifted, &magnitude, sizeof shifted);
        shifted += 0.5f;
        std::memcpy(&bits, &shifted, sizeof bits);
        return static_cast<std::uint16_t>(sign | (bits - 0x3f000000u));
    }
    const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<std::uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

inline float rounded(float value) { return to_float(from_float(value)); }

}  // namespace half
