#include "niskin/plan/mask.h"

#include <fmt/format.h>

#include "niskin/base/error.h"

namespace niskin::plan {

Mask::Mask(std::int64_t ny, std::int64_t nx, std::span<const std::uint8_t> wet)
    : ny_(ny), nx_(nx), bits_(static_cast<std::size_t>(ny * nx + 7) / 8 + 8, std::uint8_t{0}) {
  if (static_cast<std::int64_t>(wet.size()) != ny * nx) {
    throw usage_error(
        fmt::format("mask: got {} cells, expected {} ({} x {})", wet.size(), ny * nx, ny, nx));
  }
  for (std::size_t cell = 0; cell < wet.size(); ++cell) {
    if (wet[cell] != 0) {
      bits_[cell >> 3] = static_cast<std::uint8_t>(bits_[cell >> 3] | (1U << (cell & 7)));
      any_wet_ = true;
    }
  }
}

bool Mask::any_wet_in(std::int64_t y0, std::int64_t y1, std::int64_t x0,
                      std::int64_t x1) const noexcept {
  for (std::int64_t y = y0; y < y1; ++y) {
    for (std::int64_t x = x0; x < x1; ++x) {
      if (wet(y * nx_ + x)) return true;
    }
  }
  return false;
}

}  // namespace niskin::plan
