#include "niskin/zarr/chunk_grid.h"

#include <gtest/gtest.h>

#include <limits>

#include "niskin/base/error.h"

namespace niskin::zarr {
namespace {

TEST(ChunkGrid, RoundsUpAndClipsTheLastChunk) {
  const ChunkGrid grid({5, 7}, {3, 4});
  EXPECT_EQ(grid.grid_shape(), (Shape{2, 2}));
  EXPECT_EQ(grid.chunk_count(), 4);
  EXPECT_EQ(grid.chunk_box({0, 0}), (Box{{0, 0}, {3, 4}}));
  EXPECT_EQ(grid.chunk_box({1, 1}), (Box{{3, 4}, {5, 7}}));
}

TEST(ChunkGrid, ListsTheChunksThatMeetABoxInCOrder) {
  const ChunkGrid grid({10, 180, 360}, {1, 180, 180});
  EXPECT_EQ(grid.chunks_in({{3, 0, 0}, {5, 180, 360}}),
            (std::vector<Shape>{{3, 0, 0}, {3, 0, 1}, {4, 0, 0}, {4, 0, 1}}));
  EXPECT_EQ(grid.chunks_in({{3, 0, 180}, {4, 1, 181}}), (std::vector<Shape>{{3, 0, 1}}));
  EXPECT_TRUE(grid.chunks_in({{3, 0, 0}, {3, 180, 360}}).empty());
}

TEST(ChunkGrid, CoversEveryCellOfABoxExactlyOnce) {
  const Shape shape{5, 4, 3};
  for (const Shape& chunk : {Shape{1, 1, 1}, Shape{2, 3, 2}, Shape{5, 4, 3}, Shape{9, 9, 9}}) {
    const ChunkGrid grid(shape, chunk);
    const Box box{{1, 0, 1}, {5, 3, 3}};
    std::int64_t cells = 0;
    for (const Shape& index : grid.chunks_in(box)) {
      const Box common = intersect(grid.chunk_box(index), box);
      ASSERT_FALSE(common.empty());
      cells += element_count(common.extent());
    }
    EXPECT_EQ(cells, 4 * 3 * 2);
  }
}

TEST(ChunkGrid, HasOneChunkForAScalarAndNoneForAnEmptyArray) {
  EXPECT_EQ(ChunkGrid({}, {}).chunks_in({}), (std::vector<Shape>{{}}));
  EXPECT_EQ(ChunkGrid({3, 0}, {3, 1}).chunk_count(), 0);
}

TEST(ChunkGrid, TakesChunksLargerThanTheArray) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(ChunkGrid({5}, {10}).chunk_box({0}), (Box{{0}, {5}}));
  EXPECT_EQ(ChunkGrid({kMax}, {kMax - 1}).chunk_box({1}), (Box{{kMax - 1}, {kMax}}));
}

TEST(ChunkGrid, RefusesRanksThatDifferAndBadExtents) {
  EXPECT_THROW(ChunkGrid({5}, {1, 5}), Error);
  EXPECT_THROW(ChunkGrid({5}, {0}), Error);
  EXPECT_THROW(ChunkGrid({-1}, {1}), Error);
}

}  // namespace
}  // namespace niskin::zarr
