#include "niskin/zarr/chunk_grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "niskin/base/error.h"

namespace niskin::zarr {

ChunkGrid::ChunkGrid(Shape array, Shape chunk)
    : array_(std::move(array)), chunk_(std::move(chunk)) {
  const auto refuse = [this](const char* expected) {
    return format_error(fmt::format("chunks: got {} for shape {}, expected {}", to_string(chunk_),
                                    to_string(array_), expected));
  };
  if (array_.size() != chunk_.size()) throw refuse("one extent for each dimension");
  grid_.reserve(array_.size());
  for (std::size_t d = 0; d < array_.size(); ++d) {
    if (array_[d] < 0) throw refuse("a shape without negative extents");
    if (chunk_[d] <= 0) throw refuse("chunk extents of at least 1");
    grid_.push_back(array_[d] / chunk_[d] + (array_[d] % chunk_[d] != 0 ? 1 : 0));
  }
}

Box ChunkGrid::chunk_box(const Shape& index) const {
  Box box{Shape(index.size()), Shape(index.size())};
  for (std::size_t d = 0; d < index.size(); ++d) {
    box.begin[d] = index[d] * chunk_[d];
    // Compared by what is left, so that an extent near 2^63 cannot overflow.
    box.end[d] = box.begin[d] + std::min(chunk_[d], array_[d] - box.begin[d]);
  }
  return box;
}

std::vector<Shape> ChunkGrid::chunks_in(const Box& box) const {
  if (box.empty()) return {};
  const std::size_t rank = box.rank();
  Shape first(rank);
  Shape last(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    first[d] = box.begin[d] / chunk_[d];
    last[d] = (box.end[d] - 1) / chunk_[d];
  }
  std::vector<Shape> chunks;
  Shape index = first;
  for (;;) {
    chunks.push_back(index);
    std::size_t d = rank;
    while (d > 0 && index[d - 1] == last[d - 1]) {
      index[d - 1] = first[d - 1];
      --d;
    }
    if (d == 0) return chunks;
    ++index[d - 1];
  }
}

}  // namespace niskin::zarr
