#include "niskin/loader/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <new>
#include <thread>

#include "niskin/loader/store_testing.h"
#include "niskin/zarr/codec.h"

namespace niskin::loader {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kLong;
using testing::Seconds;

class PoolTest : public testing::RowsFixture {};

TEST_F(PoolTest, RefusesOptionsBelowOne) {
  EXPECT_THROW(Pool({.max_concurrent_reads = 0}), Error);
  EXPECT_THROW(Pool({.decode_threads = 0}), Error);
  EXPECT_THROW(Pool({.memory_limit_bytes = 0}), Error);
}

TEST_F(PoolTest, StartsThreadsWhenWorkComesAndEndsThemInClose) {
  const auto shared = pool();
  EXPECT_EQ(shared->counts().threads, 0);
  BatchStream stream(shared, 1);
  stream.submit(rows({1}));
  next(stream);
  EXPECT_GE(shared->counts().threads, 1);
  EXPECT_EQ(shared->close(kLong), 0);
  EXPECT_EQ(shared->counts().threads, 0);
  EXPECT_EQ(shared->counts().worker_bytes, 0U);
  EXPECT_EQ(shared->counts().slabs.idle_bytes, 0U);
}

TEST_F(PoolTest, SumsTheWorkOfAllStreams) {
  const auto shared = pool();
  for (int repeat = 0; repeat < 3; ++repeat) {
    BatchStream stream(shared, 1);
    stream.submit(rows({repeat, repeat + 1}));
    next(stream);
  }
  EXPECT_EQ(shared->counts().work.reads, 6U);
  EXPECT_EQ(shared->counts().work.chunks, 6U);
  EXPECT_EQ(shared->counts().work.bytes_read, 6U * kCells * sizeof(float));
}

TEST_F(PoolTest, RaisesItsMemoryLimitAndNeverLowersIt) {
  const auto shared = pool(4, 2, 100);
  shared->raise_memory_limit(50);
  EXPECT_EQ(shared->memory_limit_bytes(), 100U);
  shared->raise_memory_limit(500);
  EXPECT_EQ(shared->memory_limit_bytes(), 500U);
}

TEST_F(PoolTest, NeedsNoThreadForABatchThatIsAllLand) {
  std::vector<plan::FieldArray> arrays = fields->arrays();
  const std::vector<std::uint8_t> land(kCells, 0);
  fields = std::make_shared<const plan::FieldSet>(
      std::move(arrays), std::vector<plan::Field>{{.channel = "land"}},
      std::vector<plan::Mask>{{kNy, kNx, land}}, plan::Policy{.masked_fill_value = 42});
  const auto shared = pool();
  BatchStream stream(shared, 1);
  stream.submit(rows({3}));
  ASSERT_TRUE(stream.wait(Seconds(0)));
  const FinishedBatch batch = stream.take();
  for (int c = 0; c < kCells; ++c) EXPECT_EQ(batch.job->base_data(0)[c], 42.0F);
  EXPECT_EQ(shared->counts().threads, 0);
  EXPECT_TRUE(store->read_keys().empty());
}

// Copies, and knows how many copy at once.
class WatchedCodec final : public zarr::Codec {
 public:
  const std::string& name() const override { return name_; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return decoded_bytes;
  }
  void decode(std::span<const std::byte> encoded, std::span<std::byte> out,
              zarr::DecodeScratch& /*scratch*/) const override {
    const int now = ++running_;
    int most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::copy(encoded.begin(), encoded.end(), out.begin());
    --running_;
  }
  int most_at_once() const { return most_; }

 private:
  std::string name_ = "watched";
  mutable std::atomic<int> running_ = 0;
  mutable std::atomic<int> most_ = 0;
};

TEST_F(PoolTest, DecodesOnAtMostDecodeThreadsAndReadsOnAtMostMaxConcurrentReads) {
  const auto codec = std::make_shared<WatchedCodec>();
  zarr::ArrayMeta meta = fields->arrays().front().array->meta();
  meta.codec = codec;
  fields = testing::plain_fields({std::make_shared<const zarr::Array>(store, meta)});
  const auto shared = pool(6, 2);
  BatchStream stream(shared, 4);
  for (int round = 0; round < 10; ++round) {
    while (stream.admits(rows({0}))) stream.submit(rows({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_THAT(next(stream), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  }
  EXPECT_LE(codec->most_at_once(), 2);
  EXPECT_LE(store->most_reads_at_once(), 6);
  EXPECT_LE(shared->counts().threads, 6);
  stream.close(kLong);
  EXPECT_EQ(shared->counts().work.decodes, shared->counts().work.reads);
}

TEST_F(PoolTest, ReadsInSeveralThreadsWhileOneTurnIsEnoughToDecode) {
  for (int row = 0; row < 4; ++row) store->hold(key(row));
  BatchStream stream(pool(4, 1), 1);
  stream.submit(rows({0, 1, 2, 3}));
  EXPECT_TRUE(store->wait_until_held(4));
  store->let_go_all();
  EXPECT_THAT(next(stream), ElementsAre(0, 1, 2, 3));
}

TEST_F(PoolTest, AdmitsTasksByTheBytesOfTheirBuffers) {
  // An encoded chunk is one of 1 MiB and the share of reads is 1 MiB: one at a time.
  const auto codec = std::make_shared<WatchedCodec>();
  zarr::ArrayMeta meta = testing::row_array(store, "wide", 3, 512, 512)->meta();
  meta.codec = codec;
  const auto wide = testing::plain_fields({std::make_shared<const zarr::Array>(store, meta)});
  for (int row = 0; row < 3; ++row) {
    memory->put("wide/" + std::to_string(row) + ".0.0",
                testing::chunk_of(std::vector<float>(512 * 512, 1)));
  }
  const auto shared = pool(8, 4, 1);
  EXPECT_EQ(shared->read_buffer_bytes(), std::uint64_t{1} << 20);
  BatchStream stream(shared, 1);
  stream.submit({{wide, {0, 1, 2}}});
  ASSERT_TRUE(stream.wait(kLong));
  stream.take();
  EXPECT_EQ(store->most_reads_at_once(), 1);
  EXPECT_EQ(shared->counts().work.decodes, 3U);
  EXPECT_GE(shared->counts().peak_worker_bytes, std::uint64_t{1} << 20);
}

TEST_F(PoolTest, CloseEndsAWaitForABatchWhoseReadHangs) {
  store->hold(key(0));
  const auto shared = pool();
  BatchStream stream(shared, 1);
  stream.submit(rows({0}));
  ASSERT_TRUE(store->wait_until_held(1));
  std::thread closer([&] { EXPECT_EQ(shared->close(Seconds(0.05)), 1); });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(stream.wait(kLong), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);  // did not run out
  closer.join();
  stream.close(kLong);  // has nothing to wait for
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
}

// The read ends after everyone who knew of it has gone.
TEST_F(PoolTest, AHungReadMayOutliveBatchStreamPoolAndStore) {
  store->hold(key(0));
  auto shared = pool();
  auto stream = std::make_unique<BatchStream>(shared, 1);
  stream->submit(rows({0, 1}));
  ASSERT_TRUE(store->wait_until_held(1));
  stream->close(Seconds(0));
  EXPECT_GE(shared->close(Seconds(0)), 1);  // idle threads may need a moment more
  stream.reset();
  shared.reset();
  const std::weak_ptr<const plan::FieldSet> left = fields;
  fields.reset();
  EXPECT_FALSE(left.expired());  // the thread holds what it works on
  store->let_go_all();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!left.expired() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(left.expired());
}

// ---- what the system refuses

TEST_F(PoolTest, AThreadThatTheSystemRefusesIsTheErrorOfTheBatch) {
  pthread_attr_t before;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  pthread_attr_t greedy;
  ASSERT_EQ(pthread_attr_init(&greedy), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&greedy, std::size_t{1} << 50), 0);  // no room for it
  const auto shared = pool();
  {
    BatchStream stream(shared, 2);
    ASSERT_EQ(pthread_setattr_default_np(&greedy), 0);
    stream.submit(rows({0}));
    stream.submit(rows({1}));
    ASSERT_EQ(pthread_setattr_default_np(&before), 0);
    const std::string message = error_of_next(stream);
    EXPECT_THAT(message, HasSubstr("expected a thread"));
    EXPECT_THAT(message, HasSubstr("ulimit -u"));
  }
  BatchStream stream(shared, 1);  // there are threads again
  stream.submit(rows({2}));
  EXPECT_THAT(next(stream), ElementsAre(2));
  EXPECT_EQ(shared->counts().reserved_bytes, 0U);
  pthread_attr_destroy(&greedy);
  pthread_attr_destroy(&before);
}

TEST_F(PoolTest, GoesOnWithTheThreadsItHasWhereTheSystemRefusesMore) {
  pthread_attr_t before;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  pthread_attr_t greedy;
  ASSERT_EQ(pthread_attr_init(&greedy), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&greedy, std::size_t{1} << 50), 0);
  const auto shared = pool();
  BatchStream stream(shared, 1);
  store->hold(key(0));
  stream.submit(rows({0}));
  ASSERT_TRUE(store->wait_until_held(1));
  const int threads = shared->counts().threads;
  ASSERT_EQ(pthread_setattr_default_np(&greedy), 0);
  BatchStream other(shared, 1);
  other.submit(rows({1, 2, 3, 4, 5, 6}));
  store->let_go_all();
  EXPECT_THAT(next(other), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(next(stream), ElementsAre(0));
  EXPECT_EQ(shared->counts().threads, threads);
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&greedy);
  pthread_attr_destroy(&before);
}

TEST_F(PoolTest, MemoryThatTheSystemRefusesIsTheErrorOfTheBatch) {
  // 256 MiB a row, 600,000 rows: more than a processor can address.
  const auto wide = testing::plain_fields({testing::row_array(store, "wide", 1, 8192, 8192)});
  const auto shared = pool();
  {
    BatchStream stream(shared, 2);
    stream.submit(rows({1}));
    stream.submit({{wide, std::vector<std::int64_t>(600000, 0)}});
    EXPECT_THAT(next(stream), ElementsAre(1));
    ASSERT_TRUE(stream.wait(kLong));
    EXPECT_THROW(stream.take(), std::bad_alloc);
  }
  BatchStream stream(shared, 1);
  stream.submit(rows({2}));
  EXPECT_THAT(next(stream), ElementsAre(2));
  EXPECT_EQ(shared->counts().reserved_bytes, 0U);
}

}  // namespace
}  // namespace niskin::loader
