#include "niskin/base/box.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "niskin/base/error.h"

namespace niskin {

bool Box::empty() const noexcept {
  for (std::size_t d = 0; d < begin.size(); ++d) {
    if (begin[d] >= end[d]) return true;
  }
  return false;
}

Shape Box::extent() const {
  Shape extent(begin.size());
  for (std::size_t d = 0; d < begin.size(); ++d) extent[d] = end[d] - begin[d];
  return extent;
}

std::int64_t element_count(const Shape& shape) {
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      throw format_error(fmt::format("shape {}: got a negative extent", to_string(shape)));
  }
  // An extent of zero makes the product zero whatever the others are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      throw format_error(
          fmt::format("shape {}: got more elements than 2^63 - 1, the most that can be counted",
                      to_string(shape)));
    }
  }
  return count;
}

Box intersect(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t d = 0; d < a.rank(); ++d) {
    common.begin[d] = std::max(a.begin[d], b.begin[d]);
    common.end[d] = std::min(a.end[d], b.end[d]);
  }
  return common;
}

std::string to_string(const Shape& shape) {
  // One extent is written as Python writes it, "(3,)".
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace niskin
