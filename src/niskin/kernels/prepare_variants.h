// The x86 variants; call one only where `variants()` lists it.
#pragma once

#include "niskin/kernels/prepare.h"

namespace niskin::kernels {

std::size_t prepare_avx2(const Source& source, const Transform& transform, Wet wet, Slots outs,
                         std::size_t count, bool stream) noexcept;
std::size_t prepare_avx512(const Source& source, const Transform& transform, Wet wet, Slots outs,
                           std::size_t count, bool stream) noexcept;

}  // namespace niskin::kernels
