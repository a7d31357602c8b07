#include <immintrin.h>

#include <cstring>

#include "niskin/kernels/prepare_variants.h"

namespace niskin::kernels {
namespace {

constexpr std::size_t kLanes = 8;

// Floats past a multiple of the register's size.
std::size_t misaligned(const float* out) noexcept {
  return reinterpret_cast<std::uintptr_t>(out) / sizeof(float) % kLanes;
}

template <Form form>
__m256 load(const Source& source, std::size_t i) noexcept {
  if constexpr (form == Form::kPlanar) {
    const auto plane = [&](std::size_t k) {
      long long eight = 0;
      std::memcpy(&eight, source.bytes[k] + i, sizeof eight);
      return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(eight));
    };
    const __m256i low = _mm256_or_si256(plane(0), _mm256_slli_epi32(plane(1), 8));
    const __m256i high =
        _mm256_or_si256(_mm256_slli_epi32(plane(2), 16), _mm256_slli_epi32(plane(3), 24));
    return _mm256_castsi256_ps(_mm256_or_si256(low, high));
  } else {
    __m256i bits;
    std::memcpy(&bits, source.bytes[0] + i * sizeof(float), sizeof bits);
    if constexpr (form == Form::kSwapped) {
      bits = _mm256_shuffle_epi8(
          bits, _mm256_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 3, 2, 1, 0,
                                 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    }
    return _mm256_castsi256_ps(bits);
  }
}

// All bits of a lane set where its cell is wet.
__m256 wet_lanes(const Wet& wet, std::size_t i) noexcept {
  const std::size_t bit = wet.first_bit + i;
  std::uint16_t word = 0;
  std::memcpy(&word, wet.bits + (bit >> 3), sizeof word);
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i spread = _mm256_set1_epi32(word >> (bit & 7));
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(spread, lane), lane));
}

template <Form form, bool mask_first>
std::size_t run(const Source& source, const Transform& transform, Wet wet, Slots outs,
                std::size_t count, bool stream) noexcept {
  const __m256 mean = _mm256_set1_ps(transform.mean);
  const __m256 std = _mm256_set1_ps(transform.std);
  const __m256 fill = _mm256_set1_ps(transform.fill);
  const __m256 largest = _mm256_set1_ps(3.402823466e+38F);
  const __m256 lowest = _mm256_set1_ps(-3.402823466e+38F);
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  std::size_t bad = 0;
  const auto compute = [&](std::size_t i) noexcept {
    __m256 x = load<form>(source, i);
    const __m256 is_wet = wet_lanes(wet, i);
    // Not (|x| <= largest): NaN and both infinities.
    const __m256 broken = _mm256_cmp_ps(_mm256_and_ps(x, magnitude), largest, _CMP_NLE_UQ);
    const int lanes = _mm256_movemask_ps(_mm256_and_ps(broken, is_wet));
    if (lanes != 0)
      bad += static_cast<std::size_t>(__builtin_popcount(static_cast<unsigned>(lanes)));
    if constexpr (mask_first) x = _mm256_blendv_ps(fill, x, is_wet);
    __m256 y = _mm256_div_ps(_mm256_sub_ps(x, mean), std);
    y = _mm256_and_ps(y, _mm256_cmp_ps(y, y, _CMP_ORD_Q));
    y = _mm256_min_ps(_mm256_max_ps(y, lowest), largest);
    if constexpr (!mask_first) y = _mm256_blendv_ps(fill, y, is_wet);
    return y;
  };
  const auto scalar = [&](std::size_t begin, std::size_t end) noexcept {
    const Source rest = source.skip(begin);
    const Wet rest_wet{wet.bits, wet.first_bit + begin};
    for (std::size_t k = 0; k < outs.size(); ++k) {
      float* const out = outs[k] + begin;
      const std::size_t found =
          prepare_scalar(rest, transform, rest_wet, {&out, 1}, end - begin, false);
      if (k == 0) bad += found;
    }
  };

  for (float* out : outs) stream = stream && misaligned(out) == misaligned(outs[0]);
  std::size_t i = 0;
  if (stream) {
    const std::size_t past = misaligned(outs[0]);
    if (past != 0) {
      i = kLanes - past < count ? kLanes - past : count;
      scalar(0, i);
    }
    for (; i + kLanes <= count; i += kLanes) {
      const __m256 y = compute(i);
      for (float* out : outs) _mm256_stream_ps(out + i, y);
    }
  } else {
    for (; i + kLanes <= count; i += kLanes) {
      const __m256 y = compute(i);
      for (float* out : outs) _mm256_storeu_ps(out + i, y);
    }
  }
  scalar(i, count);
  return bad;
}

template <Form form>
std::size_t choose(const Source& source, const Transform& transform, Wet wet, Slots outs,
                   std::size_t count, bool stream) noexcept {
  return transform.mask_first ? run<form, true>(source, transform, wet, outs, count, stream)
                              : run<form, false>(source, transform, wet, outs, count, stream);
}

}  // namespace

std::size_t prepare_avx2(const Source& source, const Transform& transform, Wet wet, Slots outs,
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
