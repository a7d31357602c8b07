#include <immintrin.h>

#include <cstring>

#include "niskin/kernels/prepare_variants.h"

namespace niskin::kernels {
namespace {

constexpr std::size_t kLanes = 16;
constexpr __mmask16 kAll = 0xFFFF;

// Floats past a multiple of the register's size.
std::size_t misaligned(const float* out) noexcept {
  return reinterpret_cast<std::uintptr_t>(out) / sizeof(float) % kLanes;
}

template <Form form>
__m512 load(const Source& source, std::size_t i, __mmask16 lanes) noexcept {
  if constexpr (form == Form::kPlanar) {
    const auto plane = [&](int k) {
      return _mm512_cvtepu8_epi32(
          _mm_maskz_loadu_epi8(lanes, source.bytes[static_cast<std::size_t>(k)] + i));
    };
    const __m512i low = _mm512_or_si512(plane(0), _mm512_slli_epi32(plane(1), 8));
    const __m512i high =
        _mm512_or_si512(_mm512_slli_epi32(plane(2), 16), _mm512_slli_epi32(plane(3), 24));
    return _mm512_castsi512_ps(_mm512_or_si512(low, high));
  } else {
    const __m512i bits = _mm512_maskz_loadu_epi32(lanes, source.bytes[0] + i * sizeof(float));
    if constexpr (form == Form::kSwapped) {
      const __m512i reverse = _mm512_broadcast_i32x4(
          _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
      return _mm512_castsi512_ps(_mm512_shuffle_epi8(bits, reverse));
    }
    return _mm512_castsi512_ps(bits);
  }
}

__mmask16 wet_lanes(const Wet& wet, std::size_t i) noexcept {
  const std::size_t bit = wet.first_bit + i;
  std::uint32_t word = 0;
  std::memcpy(&word, wet.bits + (bit >> 3), sizeof word);
  return static_cast<__mmask16>(word >> (bit & 7));
}

template <Form form, bool mask_first>
std::size_t run(const Source& source, const Transform& transform, Wet wet, Slots outs,
                std::size_t count, bool stream) noexcept {
  const __m512 mean = _mm512_set1_ps(transform.mean);
  const __m512 std = _mm512_set1_ps(transform.std);
  const __m512 fill = _mm512_set1_ps(transform.fill);
  const __m512 largest = _mm512_set1_ps(3.402823466e+38F);
  const __m512 lowest = _mm512_set1_ps(-3.402823466e+38F);
  std::size_t bad = 0;
  const auto compute = [&](std::size_t i, __mmask16 lanes) noexcept {
    __m512 x = load<form>(source, i, lanes);
    const auto is_wet = static_cast<__mmask16>(wet_lanes(wet, i) & lanes);
    // Quiet and signalling NaN, both infinities.
    const __mmask16 broken = _mm512_mask_fpclass_ps_mask(is_wet, x, 0x01 | 0x80 | 0x08 | 0x10);
    if (broken != 0) bad += static_cast<std::size_t>(__builtin_popcount(broken));
    if constexpr (mask_first) x = _mm512_mask_mov_ps(fill, is_wet, x);
    __m512 y = _mm512_div_ps(_mm512_sub_ps(x, mean), std);
    y = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, y, _CMP_ORD_Q), y);
    y = _mm512_min_ps(_mm512_max_ps(y, lowest), largest);
    if constexpr (!mask_first) y = _mm512_mask_mov_ps(fill, is_wet, y);
    return y;
  };
  const auto put_some = [&](std::size_t i, std::size_t n) noexcept {
    const auto lanes = static_cast<__mmask16>((1U << n) - 1U);
    const __m512 y = compute(i, lanes);
    for (float* out : outs) _mm512_mask_storeu_ps(out + i, lanes, y);
  };
  for (float* out : outs) stream = stream && misaligned(out) == misaligned(outs[0]);

  std::size_t i = 0;
  if (stream) {
    const std::size_t past = misaligned(outs[0]);
    if (past != 0) {
      i = kLanes - past < count ? kLanes - past : count;
      put_some(0, i);
    }
    for (; i + kLanes <= count; i += kLanes) {
      const __m512 y = compute(i, kAll);
      for (float* out : outs) _mm512_stream_ps(out + i, y);
    }
  } else {
    for (; i + kLanes <= count; i += kLanes) {
      const __m512 y = compute(i, kAll);
      for (float* out : outs) _mm512_storeu_ps(out + i, y);
    }
  }
  if (i < count) put_some(i, count - i);
  return bad;
}

template <Form form>
std::size_t choose(const Source& source, const Transform& transform, Wet wet, Slots outs,
                   std::size_t count, bool stream) noexcept {
  return transform.mask_first ? run<form, true>(source, transform, wet, outs, count, stream)
                              : run<form, false>(source, transform, wet, outs, count, stream);
}

}  // namespace

std::size_t prepare_avx512(const Source& source, const Transform& transform, Wet wet, Slots outs,
                           std::size_t count, bool stream) noexcept {
  switch (source.form) {
    case Form::kNative:
      return choose<Form::kNative>(source, transform, wet, outs, count, stream);
    case Form::kSwapped:
      return choose<Form::kSwapped>(source, transform, wet, outs, count, stream);
    case Form::kPlanar:
      return choose<Form::kPlanar>(source, transform, wet, outs, count, stream);
  }
  return 0;
}

}  // namespace niskin::kernels
