// Chunks that are absent or damaged, and reads that fail.
#include <gmock/gmock.h>

#include <optional>
#include <stdexcept>

#include "niskin/loader/chunk_testing.h"

namespace niskin::loader {
namespace {

using testing::arange;
using testing::blosc;
using testing::Floats;
using ::testing::HasSubstr;
using testing::kBlosc;
using testing::kZstd;
using testing::raw;
using testing::zstd;
using Bytes = std::pair<std::uint64_t, std::uint64_t>;

class AbsentChunk : public testing::ChunkFixture {
 protected:
  // Channels "land" and "sea" of level 0, dry and wet in the right column.
  std::shared_ptr<const plan::FieldSet> land_and_sea() const {
    const auto shaped =
        plan::make_field_array(array({.shape = "1, 1, 2, 3", .chunks = "1, 1, 2, 2"}));
    return std::make_shared<const plan::FieldSet>(
        std::vector<plan::FieldArray>{shaped},
        std::vector<plan::Field>{{.channel = "land", .level = 0, .mask = 0},
                                 {.channel = "sea", .level = 0, .mask = 1}},
        std::vector<plan::Mask>{{2, 3, std::vector<std::uint8_t>{1, 1, 0, 1, 1, 0}},
                                {2, 3, std::vector<std::uint8_t>{1, 1, 0, 1, 1, 1}}},
        policy);
  }
};

TEST_F(AbsentChunk, IsRefusedWhereAWetCellNeedsIt) {
  const Error error = error_of(channels(array()), {3});
  EXPECT_EQ(error.kind(), ErrorKind::kStore);
  EXPECT_STREQ(error.what(),
               "t: chunk 3.0.0 is absent: got no such key, expected a stored chunk, since wet "
               "cells of channel t_-1 need it\n"
               "  store: chunks.zarr\n"
               "  hint:  was the store copied whole? missing_chunks=\"warn\" or \"fill\" reads it "
               "as the fill value");
}

TEST_F(AbsentChunk, IsPreparedLikeItsFillValue) {
  mean = 1;
  std = 2;
  wet = {1, 1, 1, 0, 0, 0};
  policy.masked_fill_value = -7;
  policy.missing_chunks = plan::MissingChunks::kFill;
  EXPECT_EQ(run(channels(array({.fill = "0.0"})), {0}), (Floats{-0.5, -0.5, -0.5, -7, -7, -7}));
  EXPECT_TRUE(report.bad.empty());
  for (const char* fill : {"\"NaN\"", "5.0"}) {  // a fill value that is not 0 marks missing data
    EXPECT_EQ(run(channels(array({.fill = fill})), {0}), (Floats{0, 0, 0, -7, -7, -7}));
    EXPECT_TRUE(report.missing.empty());
    EXPECT_EQ(report.work.chunks, 1U);
    EXPECT_EQ(report.work.absent_chunks, 1U);
    EXPECT_EQ(report.work.reads, 0U);
    std::uint64_t bad = 0;
    for (const BadValue& one : report.bad) bad += one.count;
    EXPECT_EQ(bad, 3U);
  }
}

TEST_F(AbsentChunk, IsReportedWithItsKeyWhereAWarningIsWanted) {
  policy.missing_chunks = plan::MissingChunks::kWarn;
  EXPECT_EQ(run(channels(array()), {3, 1, 1}), Floats(18, 0));
  ASSERT_EQ(report.missing.size(), 2U);  // one each, whatever the number of slots
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(report.missing[i].store, "chunks.zarr");
    EXPECT_EQ(report.missing[i].array, "t");
    EXPECT_EQ(report.missing[i].first_key, i == 0 ? "1.0.0" : "3.0.0");
    EXPECT_EQ(report.missing[i].count, 1U);
  }
  EXPECT_EQ(report.work.absent_chunks, 2U);
}

TEST_F(AbsentChunk, IsNoLossWhereAllIsLand) {
  // Left tile stored, right tile absent: all its cells are land.
  wet = {1, 1, 0, 0, 1, 1, 0, 0};
  policy.masked_fill_value = 3;
  memory->put("t/0.0.0", raw({1, 2, 5, 6}));
  const auto tiles = array({.shape = "1, 2, 4", .chunks = "1, 2, 2"});
  EXPECT_EQ(run(channels(tiles), {0}), (Floats{1, 2, 3, 3, 5, 6, 3, 3}));
  EXPECT_EQ(report.work.chunks, 2U);
  EXPECT_EQ(report.work.absent_chunks, 1U);
  EXPECT_EQ(report.work.reads, 1U);
  EXPECT_TRUE(report.missing.empty());
  EXPECT_TRUE(report.bad.empty());
}

TEST_F(AbsentChunk, IsNeededByTheChannelThatIsWetThere) {
  memory->put("t/0.0.0.0", raw(arange(4)));
  EXPECT_THAT(error_of(land_and_sea(), {0}).what(), HasSubstr("wet cells of channel sea need it"));
}

TEST_F(AbsentChunk, IsRefusedIfOneOfTwoBasesRefusesIt) {
  const auto shared = array();
  policy.missing_chunks = plan::MissingChunks::kWarn;
  const auto warns = channels(shared);
  policy.missing_chunks = plan::MissingChunks::kError;
  const auto refuses = channels(shared);
  EXPECT_EQ(error_of({{warns, {0}}, {refuses, {0}}}).kind(), ErrorKind::kStore);
  EXPECT_EQ(run({{warns, {0}}, {warns, {0}}}), Floats(12, 0));
  EXPECT_EQ(report.missing.size(), 1U);
}

TEST_F(AbsentChunk, IsAFaultOfTheMetadataIfKeysUseTheOtherSeparator) {
  memory->put("t/0/0/0", raw(arange(6)));
  for (const auto missing :
       {plan::MissingChunks::kError, plan::MissingChunks::kWarn, plan::MissingChunks::kFill}) {
    policy.missing_chunks = missing;
    const Error error = error_of(channels(array()), {0});
    EXPECT_EQ(error.kind(), ErrorKind::kFormat);
    EXPECT_THAT(error.what(), HasSubstr("stored as \"0/0/0\", expected \"0.0.0\""));
  }
}

class DamagedChunk : public testing::ChunkFixture {
 protected:
  static void expect_place(const Error& error, const std::string& key) {
    EXPECT_EQ(error.kind(), ErrorKind::kDecode);
    EXPECT_EQ(error.place().store, "chunks.zarr");
    EXPECT_EQ(error.place().array, "t");
    EXPECT_EQ(error.place().chunk_key, key);
  }
};

TEST_F(DamagedChunk, OfAnotherLengthIsRefusedWithItsAddress) {
  for (const char* compressor : {"null", kBlosc, kZstd}) {
    std::string bytes = raw(arange(6));
    if (compressor == kBlosc) bytes = blosc(bytes);
    if (compressor == kZstd) bytes = zstd(bytes);
    const auto fields = channels(array({.compressor = compressor}));
    for (const std::string& value :
         {bytes.substr(0, bytes.size() - 1), std::string(), bytes + std::string(4096, 'x')}) {
      memory->put("t/2.0.0", value);
      expect_place(error_of(fields, {2}), "2.0.0");
    }
    memory->put("t/2.0.0", bytes);
    EXPECT_EQ(run(fields, {2}), arange(6));  // the worker is as good as new
  }
}

TEST_F(DamagedChunk, ThatIsClippedAtTheEdgeIsRefused) {
  for (const char* key : {"t/0.0.0", "t/0.0.1", "t/0.1.0"}) memory->put(key, raw(arange(6)));
  memory->put("t/0.1.1", raw({0, 1}));  // its two cells without their padding
  const Error error = error_of(channels(array({.shape = "1, 3, 5", .chunks = "1, 2, 3"})), {0});
  expect_place(error, "0.1.1");
  EXPECT_THAT(error.what(), HasSubstr("got 8 bytes, expected 24"));
  EXPECT_THAT(error.what(), HasSubstr("stored without its padding"));
}

TEST_F(DamagedChunk, OfTheRightLengthIsRefusedIfItDoesNotDecode) {
  for (const char* order : {"C", "F"}) {
    std::string bytes = zstd(raw(arange(6)));
    bytes[0] ^= 1;  // its magic number
    memory->put("t/1.0.0", bytes);
    expect_place(error_of(channels(array({.order = order, .compressor = kZstd})), {1}), "1.0.0");
    bytes = blosc(raw(arange(6)));
    bytes[4] ^= 4;  // its decoded size
    memory->put("t/1.0.0", bytes);
    expect_place(error_of(channels(array({.order = order, .compressor = kBlosc})), {1}), "1.0.0");
  }
}

TEST_F(DamagedChunk, HurtsOnlyThePartsThatAreWanted) {
  // Three levels of 160 x 200 cells are 384000 bytes: only the last level is in the last block.
  std::string bytes = blosc(raw(arange(96000)), 1024);
  const std::uint32_t block_bytes = testing::blosc_header(bytes, 8);
  ASSERT_LE(block_bytes, 65536U);  // the library chooses
  const std::uint32_t last = (384000 - 1) / block_bytes;
  // The length of its first stream.
  bytes.replace(testing::blosc_header(bytes, 16 + 4 * last), 4, 4, '\x7f');
  memory->put("t/0.0.0.0", bytes);
  const auto levels =
      array({.shape = "1, 3, 160, 200", .chunks = "1, 3, 160, 200", .compressor = kBlosc});
  Floats wanted = arange(32000, 32000);
  const Floats first = arange(32000);
  wanted.insert(wanted.end(), first.begin(), first.end());
  EXPECT_EQ(run(channels(levels, {1, 0}), {0}), wanted);
  expect_place(error_of(channels(levels, {2}), {0}), "0.0.0.0");
}

// What reads of a FaultyStore do.
struct Fault {
  std::optional<std::uint64_t> end{};  // the value ends here, whatever its size was
  std::size_t in_memory_bytes = 0;     // what a read without waiting gets
  std::optional<zarr::ReadMode> fails{};
  bool unknown = false;  // fails with what the loader does not know
};

class FaultyStore final : public zarr::Store {
 public:
  FaultyStore(std::shared_ptr<const zarr::Store> inner, Fault fault)
      : inner_(std::move(inner)), fault_(fault) {}
  const std::string& name() const override { return inner_->name(); }
  std::vector<std::string> list(const std::string& /*prefix*/) const override { return {}; }
  std::unique_ptr<zarr::Value> open(const std::string& key) const override {
    return std::make_unique<FaultyValue>(inner_->open(key), fault_);
  }

 private:
  class FaultyValue final : public zarr::Value {
   public:
    FaultyValue(std::unique_ptr<zarr::Value> inner, Fault fault)
        : inner_(std::move(inner)), fault_(fault) {}
    std::uint64_t size_bytes() const override { return inner_->size_bytes(); }
    std::size_t read(std::uint64_t offset, std::span<std::byte> out, zarr::ReadMode mode) override {
      if (fault_.fails == mode) {
        if (fault_.unknown) throw std::runtime_error("a fault of the store");
        throw store_error("cannot read: Input/output error");
      }
      std::uint64_t count = out.size();
      if (mode == zarr::ReadMode::kNoWait) count = std::min(count, fault_.in_memory_bytes);
      const std::uint64_t end = fault_.end.value_or(size_bytes());
      count = std::min(count, offset < end ? end - offset : 0);
      return inner_->read(offset, out.first(count), mode);
    }

   private:
    std::unique_ptr<zarr::Value> inner_;
    Fault fault_;
  };

  std::shared_ptr<const zarr::Store> inner_;
  Fault fault_;
};

class FaultyRead : public testing::ChunkFixture {
 protected:
  std::shared_ptr<const plan::FieldSet> faulty(Fault fault, const testing::Layout& layout = {}) {
    return channels(std::make_shared<const zarr::Array>(
        std::make_shared<FaultyStore>(memory, fault), array(layout)->meta()));
  }
};

TEST_F(FaultyRead, WaitsOnceForTheRestOfWhatIsInMemory) {
  memory->put("t/0.0.0", raw(arange(6)));
  EXPECT_EQ(run(faulty({.in_memory_bytes = 10}), {0}), arange(6));
  EXPECT_EQ(report.work.reads, 1U);
  EXPECT_EQ(report.work.bytes_read, 24U);
  EXPECT_EQ(turn.releases, 1);
  EXPECT_EQ(turn.acquires, 1);
}

TEST_F(FaultyRead, OfAChunkThatBecameShorterIsRefused) {
  for (const char* compressor : {"null", kBlosc}) {
    memory->put("t/0.0.0", raw(arange(6)));
    if (compressor == kBlosc) memory->put("t/0.0.0", raw(arange(6)) + raw(arange(6)));
    const Error error = error_of(faulty({.end = 12}, {.compressor = compressor}), {0});
    EXPECT_EQ(error.kind(), ErrorKind::kDecode);
    EXPECT_EQ(error.place().store, "chunks.zarr");
    EXPECT_EQ(error.place().chunk_key, "0.0.0");
    EXPECT_EQ(error.place().bytes, compressor == kBlosc ? Bytes(0, 48) : Bytes(0, 24));
    EXPECT_THAT(error.what(), HasSubstr("became shorter while it was read: got 12 of"));
  }
  EXPECT_EQ(turn.releases, turn.acquires);
}

TEST_F(FaultyRead, NamesTheBytesOfThePieceThatIsShort) {
  // 70000 cells are 280000 bytes: pieces of 262144 and 17856.
  memory->put("t/0.0.0", raw(arange(70000)));
  const Error error =
      error_of(faulty({.end = 270000}, {.shape = "1, 70, 1000", .chunks = "1, 70, 1000"}), {0});
  EXPECT_THAT(error.what(), HasSubstr("got 7856 of 17856 bytes"));
  EXPECT_EQ(error.place().bytes, Bytes(262144, 280000));
  EXPECT_EQ(turn.releases, 2);
  EXPECT_EQ(turn.acquires, 2);
}

TEST_F(FaultyRead, KeepsItsPlaceAndHasItsTurnAgain) {
  memory->put("t/0.0.0", raw(arange(6)));
  for (const auto mode : {zarr::ReadMode::kWait, zarr::ReadMode::kNoWait}) {
    const Error error = error_of(faulty({.fails = mode}), {0});
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
    EXPECT_STREQ(error.what(),
                 "t chunk 0.0.0: cannot read: Input/output error\n  store: chunks.zarr");
    EXPECT_EQ(turn.releases, 1);  // none for the read that does not wait
    EXPECT_EQ(turn.acquires, 1);
  }
  EXPECT_THROW(run(faulty({.fails = zarr::ReadMode::kWait, .unknown = true}), {0}),
               std::runtime_error);
  EXPECT_EQ(turn.releases, 2);
  EXPECT_EQ(turn.acquires, 2);
}

}  // namespace
}  // namespace niskin::loader
