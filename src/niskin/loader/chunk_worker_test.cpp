#include "niskin/loader/chunk_worker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "niskin/loader/chunk_testing.h"

namespace niskin::loader {
namespace {

using testing::arange;
using testing::blosc;
using testing::Floats;
using testing::kBlosc;
using testing::kNan;
using testing::kZstd;
using testing::Layout;
using testing::raw;
using testing::zstd;

class ChunkWorker : public testing::ChunkFixture {};

TEST_F(ChunkWorker, NormalizesAndMasksAnUncompressedChunkInOneRead) {
  mean = 20;
  std = 8;
  wet = {1, 1, 0, 0, 1, 1};
  policy.masked_fill_value = -1;
  memory->put("t/2.0.0", raw({10, kNan, 30, 40, 28, 20}));
  EXPECT_EQ(run(channels(array()), {2}), (Floats{-1.25, 0, -1, -1, 1, 0}));
  EXPECT_EQ(report.work.chunks, 1U);
  EXPECT_EQ(report.work.reads, 1U);
  EXPECT_EQ(report.work.bytes_read, 24U);
  EXPECT_EQ(report.work.decodes, 0U);
  EXPECT_EQ(store->counts().opens, 1U);
  EXPECT_EQ(store->counts().bytes_read, 24U);

  policy.normalize_before_mask = false;
  EXPECT_EQ(run(channels(array()), {2}), (Floats{-1.25, 0, -2.625, -2.625, 1, 0}));
}

TEST_F(ChunkWorker, GivesItsTurnBackOnlyAroundAReadThatHasToWait) {
  memory->put("t/0.0.0", raw(arange(6)));
  EXPECT_EQ(run(channels(array()), {0}), arange(6));
  EXPECT_EQ(turn.releases, 0);
  store->set_cached(false);
  EXPECT_EQ(run(channels(array()), {0}), arange(6));
  EXPECT_EQ(turn.releases, 1);
  EXPECT_EQ(turn.acquires, 1);
  EXPECT_EQ(report.work.reads, 1U);
  EXPECT_EQ(report.work.bytes_read, 24U);
}

TEST_F(ChunkWorker, ReadsOnlyTheWantedRowsAndLevelsOfAnUncompressedChunk) {
  // Chunks of 4 rows x 2 levels x 6 cells over 5 rows: three of the second chunk are padding.
  const auto rows = array({.shape = "5, 2, 2, 3", .chunks = "4, 2, 2, 3"});
  memory->put("t/0.0.0.0", raw(arange(48)));
  memory->put("t/1.0.0.0", raw(arange(48, 100)));
  // Level 1 of row r is planes 2 r + 1 of its chunk.
  EXPECT_EQ(run(channels(rows, {1}), {3, 4, 1}),
            (Floats{42, 43, 44, 45, 46, 47, 106, 107, 108, 109, 110, 111, 18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(report.work.chunks, 2U);
  EXPECT_EQ(report.work.reads, 3U);
  EXPECT_EQ(report.work.bytes_read, 3U * 24U);
}

TEST_F(ChunkWorker, ReadsOnlyTheWantedLevelsOfAnUncompressedChunk) {
  memory->put("t/0.0.0.0", raw(arange(18)));
  const auto levels = array({.shape = "1, 3, 2, 3", .chunks = "1, 3, 2, 3"});
  EXPECT_EQ(run(channels(levels, {2, 0}), {0}), (Floats{12, 13, 14, 15, 16, 17, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(report.work.reads, 2U);
  EXPECT_EQ(report.work.bytes_read, 48U);
  EXPECT_EQ(run(channels(levels, {0, 1}), {0}), arange(12));
  EXPECT_EQ(report.work.reads, 1U);  // neighbours in one
  EXPECT_EQ(report.work.bytes_read, 48U);
}

TEST_F(ChunkWorker, DecodesAChunkOfSeveralLevelsOnce) {
  for (const bool is_blosc : {true, false}) {
    const std::string encoded = is_blosc ? blosc(raw(arange(18))) : zstd(raw(arange(18)));
    memory->put("t/0.0.0.0", encoded);
    const auto levels = array(
        {.shape = "1, 3, 2, 3", .chunks = "1, 3, 2, 3", .compressor = is_blosc ? kBlosc : kZstd});
    EXPECT_EQ(run(channels(levels, {2, 0}), {0}),
              (Floats{12, 13, 14, 15, 16, 17, 0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(report.work.reads, 1U);
    EXPECT_EQ(report.work.bytes_read, encoded.size());
    EXPECT_EQ(report.work.decodes, 1U);
  }
}

TEST_F(ChunkWorker, ReadsEveryTypeOrderAndCodecAlike) {
  // Rows 0 and 1 of 2 x 3 cells in one chunk; in order F the first dimension runs fastest.
  const Floats fortran = {0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11};
  for (const bool big_endian : {false, true}) {
    for (const char* order : {"C", "F"}) {
      for (const char* compressor : {"null", kBlosc, kZstd}) {
        std::string bytes = raw(*order == 'F' ? fortran : arange(12), big_endian);
        if (compressor == kBlosc) bytes = blosc(bytes);
        if (compressor == kZstd) bytes = zstd(bytes);
        memory->put("t/0.0.0", bytes);
        const auto two_rows = array({.shape = "2, 2, 3",
                                     .chunks = "2, 2, 3",
                                     .dtype = big_endian ? ">f4" : "<f4",
                                     .order = order,
                                     .compressor = compressor});
        EXPECT_EQ(run(channels(two_rows), {1, 0}), (Floats{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}))
            << order << compressor << big_endian;
        EXPECT_EQ(report.work.reads, 1U);
        EXPECT_EQ(report.work.bytes_read, bytes.size());
        EXPECT_EQ(report.work.decodes, compressor == std::string("null") ? 0U : 1U);
      }
    }
  }
}

// Three levels of 160 x 200 cells are 384000 bytes: blocks of at most 65536, the last one short; no
// level ends where a block does.
TEST_F(ChunkWorker, ReadsLevelsAcrossTheBlocksOfABloscChunk) {
  Floats cells(96000);  // repeats itself, so that it is compressed without shuffle too
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<float>(i % 997);
  Floats fortran(96000);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t level = i / 32000, y = i / 200 % 160, x = i % 200;
    fortran[level + 3 * (y + 160 * x)] = cells[i];
  }
  Floats wanted(cells.begin() + 64000, cells.end());
  wanted.insert(wanted.end(), cells.begin(), cells.begin() + 32000);
  for (const bool shuffle : {false, true}) {
    for (const bool big_endian : {false, true}) {
      for (const char* order : {"C", "F"}) {
        const std::string bytes =
            blosc(raw(*order == 'F' ? fortran : cells, big_endian), 1024, shuffle);
        ASSERT_LT(bytes.size(), 200000U);  // it is compressed, and in blocks
        ASSERT_LE(testing::blosc_header(bytes, 8), 65536U);
        memory->put("t/0.0.0.0", bytes);
        const auto levels = array({.shape = "1, 3, 160, 200",
                                   .chunks = "1, 3, 160, 200",
                                   .dtype = big_endian ? ">f4" : "<f4",
                                   .order = order,
                                   .compressor = kBlosc});
        EXPECT_TRUE(run(channels(levels, {2, 0}), {0}) == wanted)
            << order << " shuffle " << shuffle << " big-endian " << big_endian;
        EXPECT_EQ(report.work.reads, 1U);
        EXPECT_EQ(report.work.bytes_read, bytes.size());
        EXPECT_EQ(report.work.decodes, 1U);
      }
    }
  }
}

TEST_F(ChunkWorker, PutsTilesTogetherAndLeavesTheirPaddingOut) {
  // 3 x 5 cells in tiles of 2 x 3; cell value = 10 y + x, padding = NaN.
  for (const char* order : {"C", "F"}) {
    for (const char* compressor : {"null", kBlosc, kZstd}) {
      std::uint64_t stored_bytes = 0;
      for (int tile = 0; tile < 4; ++tile) {
        Floats cells(6);
        for (int i = 0; i < 6; ++i) {
          const int y = 2 * (tile / 2) + (*order == 'C' ? i / 3 : i % 2);
          const int x = 3 * (tile % 2) + (*order == 'C' ? i % 3 : i / 2);
          cells[static_cast<std::size_t>(i)] =
              y < 3 && x < 5 ? static_cast<float>(10 * y + x) : kNan;
        }
        std::string bytes = raw(cells);
        if (compressor == kBlosc) bytes = blosc(bytes);
        if (compressor == kZstd) bytes = zstd(bytes);
        stored_bytes += bytes.size();
        memory->put("t/0." + std::to_string(tile / 2) + "." + std::to_string(tile % 2), bytes);
      }
      const auto tiles = array(
          {.shape = "1, 3, 5", .chunks = "1, 2, 3", .order = order, .compressor = compressor});
      EXPECT_EQ(run(channels(tiles), {0}),
                (Floats{0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24}));
      EXPECT_TRUE(report.bad.empty());
      EXPECT_EQ(report.work.chunks, 4U);
      EXPECT_EQ(report.work.reads, 4U);
      // Uncompressed in order C, nothing after the last cell that lies in the array is read.
      const bool in_part = *order == 'C' && compressor == std::string("null");
      EXPECT_EQ(report.work.bytes_read, in_part ? 24U + 20U + 12U + 8U : stored_bytes);
    }
  }
}

TEST_F(ChunkWorker, TakesMissingMarkersForNan) {
  mean = 1;
  wet = {1, 1, 1, 1, 1, 0};
  policy.masked_fill_value = 9;
  memory->put("t/0.0.0", raw({-999, 2, 1e20F, 4, kNan, -999}));
  const auto marked = array({.attributes = R"(, "_FillValue": -999.0, "missing_value": 1e20)"});
  EXPECT_EQ(run(channels(marked), {0}), (Floats{0, 1, 0, 3, 0, 9}));
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_EQ(report.bad[0].count, 3U);
  // A fill value that is not 0 is a marker; 0 is a value like others.
  EXPECT_EQ(run(channels(array({.fill = "4.0"})), {0}), (Floats{-1000, 1, 1e20F, 0, 0, 9}));
  EXPECT_EQ(run(channels(array({.fill = "0.0"})), {0}), (Floats{-1000, 1, 1e20F, 3, 0, 9}));
}

TEST_F(ChunkWorker, FindsMissingMarkersAnywhereInAChunk) {
  Floats cells = arange(5000);
  for (const std::size_t cell : {0, 2047, 2048, 4999}) cells[cell] = -999;
  Floats wanted = cells;
  std::replace(wanted.begin(), wanted.end(), -999.0F, 0.0F);
  for (const char* compressor : {"null", kBlosc}) {
    memory->put("t/0.0.0", compressor == kBlosc ? blosc(raw(cells, true)) : raw(cells, true));
    EXPECT_EQ(run(channels(array({.shape = "1, 50, 100",
                                  .chunks = "1, 50, 100",
                                  .dtype = ">f4",
                                  .compressor = compressor,
                                  .attributes = R"(, "_FillValue": -999.0)"})),
                  {0}),
              wanted);
    ASSERT_FALSE(report.bad.empty());
    BadValue all = report.bad.front();
    for (std::size_t i = 1; i < report.bad.size(); ++i) all.add(report.bad[i]);
    EXPECT_EQ(all.count, 4U);
    EXPECT_EQ(all.first_cell, 0);
    EXPECT_EQ(all.first_row_count, 4U);
  }
}

TEST_F(ChunkWorker, ReadsAPlaneOfMoreThanAPieceInTwo) {
  // 70000 cells are 280000 bytes, a piece is 262144: level 1 alone takes two reads.
  memory->put("t/0.0.0.0", raw(arange(210000)));
  store->set_cached(false);
  const auto levels = array({.shape = "1, 3, 70, 1000", .chunks = "1, 3, 70, 1000"});
  EXPECT_EQ(run(channels(levels, {1}), {0}), arange(70000, 70000));
  EXPECT_EQ(report.work.reads, 2U);
  EXPECT_EQ(report.work.bytes_read, 280000U);
  EXPECT_EQ(store->counts().reads, 2U);
  EXPECT_EQ(turn.releases, 2);  // once for each read that waits
  EXPECT_EQ(turn.acquires, 2);
}

TEST_F(ChunkWorker, ReadsAndPassesOnLargeChunksInPieces) {
  // 2200 x 1000 cells are 8.8 MB: 34 pieces of 256 KiB, and a slab that bypasses the cache.
  const Floats cells = arange(2200 * 1000);
  memory->put("t/0.0.0", raw(cells));
  EXPECT_EQ(run(channels(array({.shape = "1, 2200, 1000", .chunks = "1, 2200, 1000"})), {0}),
            cells);
  EXPECT_EQ(report.work.reads, 34U);
  EXPECT_EQ(report.work.bytes_read, 8800000U);
  memory->put("t/0.0.0", blosc(raw(cells)));
  EXPECT_EQ(run(channels(array(
                    {.shape = "1, 2200, 1000", .chunks = "1, 2200, 1000", .compressor = kBlosc})),
                {0}),
            cells);
  EXPECT_EQ(report.work.reads, 1U);
}

TEST_F(ChunkWorker, StoresAPlaneOnceReadInEverySlotThatWantsIt) {
  for (const char* compressor : {"null", kBlosc, kZstd}) {
    std::string bytes = raw(arange(6));
    if (compressor == kBlosc) bytes = blosc(bytes);
    if (compressor == kZstd) bytes = zstd(bytes);
    memory->put("t/1.0.0", bytes);
    const auto shared = array({.compressor = compressor});
    mean = 0;
    const auto fields = channels(shared);
    mean = 10;  // another base prepares it in its own way
    EXPECT_EQ(run({{fields, {1, 1}}, {channels(shared), {1}}}),
              (Floats{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, -10, -9, -8, -7, -6, -5}));
    EXPECT_EQ(report.work.chunks, 1U);
    EXPECT_EQ(report.work.reads, 1U);
    EXPECT_EQ(report.work.bytes_read, bytes.size());
    EXPECT_EQ(report.work.decodes, compressor == std::string("null") ? 0U : 1U);
  }
}

}  // namespace
}  // namespace niskin::loader
