// A regular chunk grid: which chunks a box touches and where each one lies.
//
// Pure geometry: no I/O, no locks. Immutable, so safe to share between threads.
#pragma once

#include <vector>

#include "niskin/base/box.h"

namespace niskin::zarr {

class ChunkGrid {
 public:
  // Throws FormatError if the ranks differ, an extent is negative or a chunk extent is not
  // positive.
  ChunkGrid(Shape array, Shape chunk);

  const Shape& array_shape() const noexcept { return array_; }
  const Shape& chunk_shape() const noexcept { return chunk_; }
  // Number of chunks in each dimension.
  const Shape& grid_shape() const noexcept { return grid_; }
  std::int64_t chunk_count() const { return element_count(grid_); }
  // The box of the array that chunk `index` covers, clipped to the array.
  Box chunk_box(const Shape& index) const;
  // Chunks that meet `box` (inside the array), in C order.
  std::vector<Shape> chunks_in(const Box& box) const;

 private:
  Shape array_;
  Shape chunk_;
  Shape grid_;
};

}  // namespace niskin::zarr
