#include <xmmintrin.h>

#include <vector>

#include "niskin/kernels/prepare_variants.h"

namespace niskin::kernels {

std::span<const Variant> variants() {
  static const std::vector<Variant> usable = [] {
    std::vector<Variant> found{{"scalar", prepare_scalar}};
    if (__builtin_cpu_supports("avx2")) found.push_back({"avx2", prepare_avx2});
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      found.push_back({"avx512", prepare_avx512});
    }
    return found;
  }();
  return usable;
}

void fence() noexcept { _mm_sfence(); }

// All exceptions masked, round to nearest, neither flush-to-zero nor denormals-are-zero.
void set_exact_floating_point() noexcept { _mm_setcsr(0x1F80); }

}  // namespace niskin::kernels
