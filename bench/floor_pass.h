// The fused pass of the floor: normalize, rule for NaN and infinities, mask, store.
//
//   y = (x - mean) / std; NaN -> 0, +-inf -> +-largest float32; dry cells 0
//
// One read of the plane, one streaming store to every slot that wants it. Compiled for the machine
// it runs on; planes are whole cache lines, and slots are aligned to them. Shares no code with the
// loader, so that equal answers mean something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace niskin::bench {

constexpr std::size_t kLine = 16;  // floats in a cache line
constexpr float kLargest = 3.402823466e+38F;

// One bit for each cell, least significant first.
using MaskBits = const std::uint16_t*;

#if defined(__AVX512F__)

struct Pass {
  __m512 mean, std;
  Pass(float m, float s) : mean(_mm512_set1_ps(m)), std(_mm512_set1_ps(s)) {}

  __m512 line(const float* in, std::uint16_t wet) const {
    const __m512 y = _mm512_div_ps(_mm512_sub_ps(_mm512_loadu_ps(in), mean), std);
    const __mmask16 kept = _mm512_mask_cmp_ps_mask(wet, y, y, _CMP_ORD_Q);
    const __m512 high = _mm512_min_ps(y, _mm512_set1_ps(kLargest));
    return _mm512_maskz_max_ps(kept, high, _mm512_set1_ps(-kLargest));
  }
  static void store(float* out, __m512 y) { _mm512_stream_ps(out, y); }
};

#elif defined(__AVX2__)

struct Line {
  __m256 low, high;
};

struct Pass {
  __m256 mean, std;
  Pass(float m, float s) : mean(_mm256_set1_ps(m)), std(_mm256_set1_ps(s)) {}

  __m256 half(const float* in, unsigned wet) const {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(wet)), bit);
    __m256 y = _mm256_div_ps(_mm256_sub_ps(_mm256_loadu_ps(in), mean), std);
    const __m256 kept = _mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bit)),
                                      _mm256_cmp_ps(y, y, _CMP_ORD_Q));
    y = _mm256_max_ps(_mm256_min_ps(y, _mm256_set1_ps(kLargest)), _mm256_set1_ps(-kLargest));
    return _mm256_and_ps(y, kept);
  }
  Line line(const float* in, std::uint16_t wet) const {
    return {half(in, wet & 0xFFU), half(in + kLine / 2, static_cast<unsigned>(wet) >> 8U)};
  }
  static void store(float* out, const Line& y) {
    _mm256_stream_ps(out, y.low);
    _mm256_stream_ps(out + kLine / 2, y.high);
  }
};

#else

struct Line {
  float cells[kLine];
};

struct Pass {
  float mean, std;
  Pass(float m, float s) : mean(m), std(s) {}

  Line line(const float* in, std::uint16_t wet) const {
    Line out;
    for (std::size_t i = 0; i < kLine; ++i) {
      float y = (in[i] - mean) / std;
      y = y > kLargest ? kLargest : y;
      y = y < -kLargest ? -kLargest : y;
      out.cells[i] = ((wet >> i) & 1U) != 0 && y == y ? y : 0.0F;
    }
    return out;
  }
  static void store(float* out, const Line& y) {
    for (std::size_t i = 0; i < kLine; ++i) out[i] = y.cells[i];
  }
};

#endif

// Writes the plane `in` of `cells` numbers to every slot.
inline void fused_pass(const float* in, std::size_t cells, float mean, float std, MaskBits wet,
                       std::span<float* const> slots) {
  const Pass pass(mean, std);
  if (slots.size() == 1) {
    float* const out = slots.front();
    for (std::size_t i = 0; i < cells; i += kLine) {
      Pass::store(out + i, pass.line(in + i, wet[i / kLine]));
    }
    return;
  }
  for (std::size_t i = 0; i < cells; i += kLine) {
    const auto y = pass.line(in + i, wet[i / kLine]);
    for (float* const out : slots) Pass::store(out + i, y);
  }
}

// Streamed stores become visible to threads that synchronise with this one afterwards.
inline void fence() {
#if defined(__AVX512F__) || defined(__AVX2__)
  _mm_sfence();
#endif
}

}  // namespace niskin::bench
