#include "niskin/loader/chunk_worker.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "niskin/loader/chunk_testing.h"

namespace niskin::loader {
namespace {

using testing::blosc;
using testing::Floats;
using ::testing::HasSubstr;
using testing::kBlosc;
using testing::kNan;
using testing::kZstd;
using testing::Layout;
using testing::raw;
using testing::zstd;

class ChunkWorker : public testing::ChunkFixture {};

Floats arange(std::size_t count, float first = 0) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

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

TEST_F(ChunkWorker, PutsTilesTogetherAndLeavesTheirPaddingOut) {
  // 3 x 5 cells in tiles of 2 x 3; cell value = 10 y + x, padding = -1.
  for (const char* order : {"C", "F"}) {
    for (int ty = 0; ty < 2; ++ty) {
      for (int tx = 0; tx < 2; ++tx) {
        Floats tile(6);
        for (int i = 0; i < 6; ++i) {
          const int y = 2 * ty + (*order == 'C' ? i / 3 : i % 2);
          const int x = 3 * tx + (*order == 'C' ? i % 3 : i / 2);
          tile[static_cast<std::size_t>(i)] =
              y < 3 && x < 5 ? static_cast<float>(10 * y + x) : -1.0F;
        }
        memory->put("t/0." + std::to_string(ty) + "." + std::to_string(tx), raw(tile));
      }
    }
    const auto tiles = array({.shape = "1, 3, 5", .chunks = "1, 2, 3", .order = order});
    EXPECT_EQ(run(channels(tiles), {0}),
              (Floats{0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24}));
    EXPECT_EQ(report.work.chunks, 4U);
    EXPECT_EQ(report.work.reads, 4U);
    EXPECT_EQ(report.work.bytes_read, *order == 'C' ? 24U + 20U + 12U + 8U : 4U * 24U);
  }
}

TEST_F(ChunkWorker, TakesMissingMarkersForNan) {
  mean = 1;
  memory->put("t/0.0.0", raw({-999, 2, 1e20F, 4, kNan, 6}));
  const auto marked = array({.attributes = R"(, "_FillValue": -999.0, "missing_value": 1e20)"});
  EXPECT_EQ(run(channels(marked), {0}), (Floats{0, 1, 0, 3, 0, 5}));
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_EQ(report.bad[0].count, 3U);
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
  memory->put("t/1.0.0", raw(arange(6)));
  const auto fields = channels(array());
  const Floats once = arange(6);
  Floats thrice;
  for (int i = 0; i < 3; ++i) thrice.insert(thrice.end(), once.begin(), once.end());
  EXPECT_EQ(run({{fields, {1, 1}}, {fields, {1}}}), thrice);
  EXPECT_EQ(report.work.reads, 1U);
}

// ---- values that are bad where it is wet

TEST_F(ChunkWorker, ReportsBadValuesOfWetCellsWithTheirPlace) {
  wet = {0, 1, 1, 1, 1, 1};
  memory->put("t/2.0.0", raw({kNan, 1, 2, kNan, INFINITY, 5}));
  EXPECT_EQ(run(channels(array()), {2}),
            (Floats{0, 1, 2, 0, std::numeric_limits<float>::max(), 5}));
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_EQ(report.bad[0].count, 2U);
  EXPECT_EQ(report.bad[0].first_row, 2);
  EXPECT_EQ(report.bad[0].first_row_count, 2U);
  EXPECT_EQ(report.bad[0].first_cell, 3);

  policy.bad_values = plan::BadValues::kIgnore;
  run(channels(array()), {2});
  EXPECT_TRUE(report.bad.empty());
}

TEST_F(ChunkWorker, CountsABadPlaneOnceForSeveralBases) {
  memory->put("t/0.0.0", raw({kNan, 1, 2, 3, 4, 5}));
  const auto fields = channels(array());
  run({{fields, {0, 0}}, {fields, {0}}});
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_EQ(report.bad[0].count, 1U);
  EXPECT_EQ(report.bad[0].base, 0U);
}

TEST(BadValueTest, KeepsTheEarliestRowAndSumsTheCounts) {
  BadValue all{.count = 2, .first_row = 5, .first_row_count = 2, .first_cell = 9};
  all.add({.count = 3, .first_row = 5, .first_row_count = 3, .first_cell = 7});
  EXPECT_EQ(all.first_row_count, 5U);
  EXPECT_EQ(all.first_cell, 7);
  all.add({.count = 1, .first_row = 8, .first_row_count = 1, .first_cell = 0});
  all.add({.count = 4, .first_row = 3, .first_row_count = 4, .first_cell = 11});
  EXPECT_EQ(all.count, 10U);
  EXPECT_EQ(all.first_row, 3);
  EXPECT_EQ(all.first_row_count, 4U);
  EXPECT_EQ(all.first_cell, 11);
}

// ---- absent chunks

TEST_F(ChunkWorker, RefusesAnAbsentChunkThatAWetCellNeeds) {
  const Error error = error_of(channels(array()), {3});
  EXPECT_EQ(error.kind(), ErrorKind::kStore);
  EXPECT_THAT(error.what(), HasSubstr("t: chunk 3.0.0 is absent"));
  EXPECT_THAT(error.what(), HasSubstr("chunks.zarr"));
  EXPECT_THAT(error.what(), HasSubstr("missing_chunks"));
}

TEST_F(ChunkWorker, PreparesAnAbsentChunkLikeItsFillValue) {
  mean = 1;
  std = 2;
  wet = {1, 1, 1, 0, 0, 0};
  policy.masked_fill_value = -7;
  policy.missing_chunks = plan::MissingChunks::kFill;
  EXPECT_EQ(run(channels(array({.fill = "5.0", .attributes = R"(, "missing_value": -1.0)"})), {0}),
            (Floats{0, 0, 0, -7, -7, -7}));  // a fill value that is not 0 marks missing data
  EXPECT_EQ(run(channels(array({.fill = "0.0"})), {0}), (Floats{-0.5, -0.5, -0.5, -7, -7, -7}));
  EXPECT_EQ(run(channels(array()), {0}), (Floats{0, 0, 0, -7, -7, -7}));  // NaN
  EXPECT_TRUE(report.missing.empty());
  EXPECT_EQ(report.work.absent_chunks, 1U);
  EXPECT_EQ(report.work.reads, 0U);
}

TEST_F(ChunkWorker, ReportsAnAbsentChunkWhereAWarningIsWanted) {
  policy.missing_chunks = plan::MissingChunks::kWarn;
  run(channels(array()), {1});
  ASSERT_EQ(report.missing.size(), 1U);
  EXPECT_EQ(report.missing[0].store, "chunks.zarr");
  EXPECT_EQ(report.missing[0].array, "t");
  EXPECT_EQ(report.missing[0].first_key, "1.0.0");
  EXPECT_EQ(report.missing[0].count, 1U);
}

TEST_F(ChunkWorker, NeedsNoChunkForATileThatIsDry) {
  // Left tile stored, right tile absent: all its cells are land.
  wet = {1, 1, 0, 0, 1, 1, 0, 0};
  policy.masked_fill_value = 3;
  memory->put("t/0.0.0", raw({1, 2, 5, 6}));
  const auto tiles = array({.shape = "1, 2, 4", .chunks = "1, 2, 2"});
  EXPECT_EQ(run(channels(tiles), {0}), (Floats{1, 2, 3, 3, 5, 6, 3, 3}));
  EXPECT_EQ(report.work.absent_chunks, 1U);
  EXPECT_TRUE(report.missing.empty());
}

TEST_F(ChunkWorker, TellsThatTheKeysUseAnotherSeparator) {
  memory->put("t/0/0/0", raw(arange(6)));
  const Error error = error_of(channels(array()), {0});
  EXPECT_EQ(error.kind(), ErrorKind::kFormat);
}

// ---- damage

TEST_F(ChunkWorker, RefusesChunksOfAnotherLengthWithTheirAddress) {
  for (const char* compressor : {"null", kBlosc, kZstd}) {
    std::string bytes = raw(arange(6));
    if (compressor == kBlosc) bytes = blosc(bytes);
    if (compressor == kZstd) bytes = zstd(bytes);
    const auto damaged = channels(array({.compressor = compressor}));
    for (const std::string& value :
         {bytes.substr(0, bytes.size() - 1), std::string(), bytes + std::string(4096, 'x')}) {
      memory->put("t/2.0.0", value);
      const Error error = error_of(damaged, {2});
      EXPECT_EQ(error.kind(), ErrorKind::kDecode);
      EXPECT_EQ(error.place().store, "chunks.zarr");
      EXPECT_EQ(error.place().array, "t");
      EXPECT_EQ(error.place().chunk_key, "2.0.0");
    }
  }
}

// Every read ends after half of the value, or throws what the loader does not know.
class BreakingStore final : public zarr::Store {
 public:
  BreakingStore(std::shared_ptr<const zarr::Store> inner, bool throws)
      : inner_(std::move(inner)), throws_(throws) {}
  const std::string& name() const override { return inner_->name(); }
  std::vector<std::string> list(const std::string&) const override { return {}; }
  std::unique_ptr<zarr::Value> open(const std::string& key) const override {
    return std::make_unique<BreakingValue>(inner_->open(key), throws_);
  }

 private:
  class BreakingValue final : public zarr::Value {
   public:
    BreakingValue(std::unique_ptr<zarr::Value> inner, bool throws)
        : inner_(std::move(inner)), throws_(throws) {}
    std::uint64_t size_bytes() const override { return inner_->size_bytes(); }
    std::size_t read(std::uint64_t offset, std::span<std::byte> out, zarr::ReadMode mode) override {
      if (mode == zarr::ReadMode::kNoWait) return 0;
      if (throws_) throw std::runtime_error("a fault of the store");
      const std::uint64_t end = size_bytes() / 2;
      if (offset >= end) return 0;
      return inner_->read(offset, out.first(std::min<std::size_t>(out.size(), end - offset)), mode);
    }

   private:
    std::unique_ptr<zarr::Value> inner_;
    bool throws_;
  };
  std::shared_ptr<const zarr::Store> inner_;
  bool throws_;
};

TEST_F(ChunkWorker, RefusesAChunkThatBecameShorterWhileItWasRead) {
  memory->put("t/0.0.0", raw(arange(6)));
  const auto shrinking = std::make_shared<BreakingStore>(memory, false);
  const auto meta = array()->meta();
  const Error error = error_of(channels(std::make_shared<const zarr::Array>(shrinking, meta)), {0});
  EXPECT_EQ(error.kind(), ErrorKind::kDecode);
  EXPECT_THAT(error.what(), HasSubstr("got 12 of 24 bytes"));
  EXPECT_EQ(error.place().chunk_key, "0.0.0");
  EXPECT_EQ(error.place().bytes, (std::pair<std::uint64_t, std::uint64_t>{0, 24}));
}

TEST_F(ChunkWorker, HasItsTurnAgainWhateverAReadThrows) {
  memory->put("t/0.0.0", raw(arange(6)));
  const auto throwing = std::make_shared<BreakingStore>(memory, true);
  const auto fields = channels(std::make_shared<const zarr::Array>(throwing, array()->meta()));
  EXPECT_THROW(run(fields, {0}), std::runtime_error);
  EXPECT_EQ(turn.releases, 1);
  EXPECT_EQ(turn.acquires, 1);
}

}  // namespace
}  // namespace niskin::loader
