// Shapes and half-open boxes of any rank.
//
// Pure values. Products are checked: `element_count` throws FormatError instead of overflowing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace niskin {

using Shape = std::vector<std::int64_t>;

// Half-open: begin[d] <= index < end[d].
struct Box {
  Shape begin;
  Shape end;

  bool operator==(const Box&) const = default;
  std::size_t rank() const noexcept { return begin.size(); }
  bool empty() const noexcept;
  Shape extent() const;
};

// Product of the extents; 1 for rank 0. Throws FormatError on a negative extent or beyond 2^63 - 1.
std::int64_t element_count(const Shape& shape);
// The common part; empty in some dimension if there is none. Ranks must be equal.
Box intersect(const Box& a, const Box& b);
// "(1, 180, 360)"
std::string to_string(const Shape& shape);

}  // namespace niskin
