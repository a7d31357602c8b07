#include "niskin/zarr/stores/memory.h"

#include <gtest/gtest.h>

#include <array>

#include "niskin/base/error.h"
#include "niskin/zarr/stores/counting.h"

namespace niskin::zarr {
namespace {

TEST(MemoryStore, ReadsRangesAndStopsAtTheEnd) {
  MemoryStore store;
  store.put("a/0", "abcdef");
  const auto value = store.open("a/0");
  std::array<char, 4> out{};
  const auto bytes = std::as_writable_bytes(std::span(out));
  EXPECT_EQ(value->read(1, bytes, ReadMode::kWait), 4u);
  EXPECT_EQ(std::string(out.data(), 4), "bcde");
  EXPECT_EQ(value->read(4, bytes, ReadMode::kNoWait), 2u);
  EXPECT_EQ(value->read(6, bytes, ReadMode::kWait), 0u);
  EXPECT_EQ(store.open("a/1"), nullptr);
}

TEST(MemoryStore, KeepsWhatAnOpenValueHad) {
  MemoryStore store;
  store.put("a", "old");
  const auto value = store.open("a");
  store.put("a", "newer");
  store.erase("a");
  EXPECT_EQ(value->size_bytes(), 3u);
}

TEST(MemoryStore, ListsNamesDirectlyBelow) {
  MemoryStore store;
  store.put("a/0/0", "");
  store.put("a/0/1", "");
  store.put("a/.zarray", "");
  store.put("ab", "");
  EXPECT_EQ(store.list(""), (std::vector<std::string>{"a", "ab"}));
  EXPECT_EQ(store.list("a"), (std::vector<std::string>{".zarray", "0"}));
  EXPECT_TRUE(store.list("b").empty());
}

TEST(ReadText, ReturnsTheWholeValueAndRefusesHugeOnes) {
  MemoryStore store;
  store.put("a", "text");
  EXPECT_EQ(read_text(store, "a"), "text");
  EXPECT_EQ(read_text(store, "b"), std::nullopt);
  EXPECT_THROW(read_text(store, "a", 3), Error);
}

TEST(CountingStore, CountsWhatIsAskedOfTheInnerStore) {
  const auto inner = std::make_shared<MemoryStore>();
  inner->put("a", "abcdef");
  CountingStore store(inner);
  EXPECT_EQ(store.open("b"), nullptr);
  const auto value = store.open("a");
  std::array<std::byte, 4> out{};
  store.set_cached(false);
  EXPECT_EQ(value->read(0, out, ReadMode::kNoWait), 0u);
  EXPECT_EQ(value->read(0, out, ReadMode::kWait), 4u);
  store.set_cached(true);
  EXPECT_EQ(value->read(4, out, ReadMode::kNoWait), 2u);
  const StoreCounts counts = store.counts();
  EXPECT_EQ(counts.opens, 2u);
  EXPECT_EQ(counts.absent, 1u);
  EXPECT_EQ(counts.reads, 2u);
  EXPECT_EQ(counts.bytes_read, 6u);
}

}  // namespace
}  // namespace niskin::zarr
