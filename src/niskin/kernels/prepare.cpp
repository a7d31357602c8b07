#include "niskin/kernels/prepare.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace niskin::kernels {
namespace {

float from_bits(std::uint32_t bits) noexcept { return std::bit_cast<float>(bits); }

std::uint32_t byte_of(const Source& source, std::size_t plane, std::size_t index) noexcept {
  return static_cast<std::uint32_t>(source.bytes[plane][index]);
}

float finite_rule(float y) noexcept {
  if (std::isnan(y)) return 0.0F;
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (y > kLargest) return kLargest;
  if (y < -kLargest) return -kLargest;
  return y;
}

}  // namespace

Source Source::skip(std::size_t count) const noexcept {
  Source rest = *this;
  if (form == Form::kPlanar) {
    for (auto& plane : rest.bytes) plane += count;
  } else {
    rest.bytes[0] += count * sizeof(float);
  }
  return rest;
}

float element(const Source& source, std::size_t index) noexcept {
  if (source.form == Form::kPlanar) {
    return from_bits(byte_of(source, 0, index) | byte_of(source, 1, index) << 8 |
                     byte_of(source, 2, index) << 16 | byte_of(source, 3, index) << 24);
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, source.bytes[0] + index * sizeof bits, sizeof bits);
  if (source.form == Form::kSwapped) {
    bits = bits >> 24 | (bits >> 8 & 0xFF00U) | (bits << 8 & 0xFF0000U) | bits << 24;
  }
  return from_bits(bits);
}

std::size_t prepare_scalar(const Source& source, const Transform& transform, Wet wet, Slots outs,
                           std::size_t count, bool /*stream*/) noexcept {
  std::size_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bit = wet.first_bit + i;
    const bool is_wet = ((wet.bits[bit >> 3] >> (bit & 7)) & 1) != 0;
    float x = element(source, i);
    if (is_wet && !std::isfinite(x)) ++bad;
    if (transform.mask_first && !is_wet) x = transform.fill;
    const float y = finite_rule((x - transform.mean) / transform.std);
    for (float* out : outs) out[i] = transform.mask_first || is_wet ? y : transform.fill;
  }
  return bad;
}

Prepare prepare() {
  static const Prepare fastest = variants().back().prepare;
  return fastest;
}

}  // namespace niskin::kernels
