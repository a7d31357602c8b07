// For processors without a variant of their own.
#include <atomic>

#include "niskin/kernels/prepare.h"

namespace niskin::kernels {

std::span<const Variant> variants() {
  static constexpr Variant kVariants[] = {{"scalar", prepare_scalar}};
  return kVariants;
}

void fence() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

void set_exact_floating_point() noexcept {}

}  // namespace niskin::kernels
