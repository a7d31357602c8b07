// A mask: which cells of a plane are wet, one bit a cell.
//
// Immutable, safe to share between threads. Cell (y, x) is bit y * nx + x, least significant bit
// first; eight readable bytes follow the last one, so that a kernel may load a word at any bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace niskin::plan {

class Mask {
 public:
  // `wet` holds ny * nx bytes in C order, non-zero is wet. Throws UsageError if its size differs.
  Mask(std::int64_t ny, std::int64_t nx, std::span<const std::uint8_t> wet);

  std::int64_t ny() const noexcept { return ny_; }
  std::int64_t nx() const noexcept { return nx_; }
  const std::uint8_t* bits() const noexcept { return bits_.data(); }
  bool wet(std::int64_t cell) const noexcept {
    return ((bits_[static_cast<std::size_t>(cell >> 3)] >> (cell & 7)) & 1) != 0;
  }
  bool any_wet() const noexcept { return any_wet_; }
  // Whether a wet cell lies in rows [y0, y1) and columns [x0, x1).
  bool any_wet_in(std::int64_t y0, std::int64_t y1, std::int64_t x0,
                  std::int64_t x1) const noexcept;

 private:
  std::int64_t ny_;
  std::int64_t nx_;
  bool any_wet_ = false;
  std::vector<std::uint8_t> bits_;
};

}  // namespace niskin::plan
