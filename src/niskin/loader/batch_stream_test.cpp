#include "niskin/loader/batch_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "niskin/loader/store_testing.h"

namespace niskin::loader {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kLong;
using testing::Seconds;

class BatchStreamTest : public testing::RowsFixture {};

TEST_F(BatchStreamTest, DeliversBatchesInTheOrderInWhichTheyWereSubmitted) {
  BatchStream stream(pool(), 4);
  for (const int row : {7, 2, 9, 2}) stream.submit(rows({row, row - 1}));
  EXPECT_EQ(stream.pending(), 4U);
  EXPECT_THAT(next(stream), ElementsAre(7, 6));
  EXPECT_THAT(next(stream), ElementsAre(2, 1));
  EXPECT_THAT(next(stream), ElementsAre(9, 8));
  EXPECT_THAT(next(stream), ElementsAre(2, 1));
  EXPECT_EQ(stream.pending(), 0U);
}

TEST_F(BatchStreamTest, ReadsAChunkOncePerBatchHoweverManySlotsWantIt) {
  BatchStream stream(pool(), 1);
  stream.submit(rows({4, 3, 4, 4}));
  EXPECT_TRUE(stream.wait(kLong));
  const FinishedBatch batch = stream.take();
  EXPECT_THAT(rows_in(batch), ElementsAre(4, 3, 4, 4));
  EXPECT_EQ(batch.job->state.work.reads, 2U);
  EXPECT_EQ(batch.job->state.work.chunks, 2U);
  EXPECT_EQ(batch.job->state.work.decodes, 0U);  // uncompressed
  EXPECT_EQ(batch.job->state.work.bytes_read, 2U * kCells * sizeof(float));
}

TEST_F(BatchStreamTest, ReadsTheNextBatchWhileAReadOfTheFirstHangs) {
  store->hold(key(0));
  BatchStream stream(pool(), 2);
  stream.submit(rows({0, 1}));
  stream.submit(rows({2, 3}));
  ASSERT_TRUE(store->wait_until_held(1));
  // All other chunks are read meanwhile: no barrier between batches.
  for (bool all = false; !all;) {
    all = store->read_keys().size() == 4;
    std::this_thread::yield();
  }
  EXPECT_FALSE(stream.wait(Seconds(0)));
  store->let_go(key(0));
  EXPECT_THAT(next(stream), ElementsAre(0, 1));
  EXPECT_THAT(next(stream), ElementsAre(2, 3));
}

TEST_F(BatchStreamTest, DeliversEarlierBatchesBeforeTheOneThatFails) {
  store->fail(key(5));
  BatchStream stream(pool(), 3);
  stream.submit(rows({1}));
  stream.submit(rows({5}));
  stream.submit(rows({6}));
  EXPECT_THAT(next(stream), ElementsAre(1));
  const std::string message = error_of_next(stream);
  EXPECT_THAT(message, HasSubstr("got EIO"));
  EXPECT_THAT(message, HasSubstr("thetao chunk 5.0.0"));
  EXPECT_THAT(message, HasSubstr("rows.zarr"));
  EXPECT_EQ(stream.pending(), 0U);
  EXPECT_THROW(stream.submit(rows({6})), Error);  // closed
}

TEST_F(BatchStreamTest, RaisesTheErrorOfTheEarliestChunkOfABatch) {
  for (const int row : {2, 4, 6}) store->fail(key(row));
  store->hold(key(2));
  BatchStream stream(pool(4, 2), 1);
  stream.submit(rows({6, 4, 2}));  // chunks are read in the order of rows
  ASSERT_TRUE(store->wait_until_held(1));
  for (bool others = false; !others;) {
    others = store->read_keys().size() >= 2;  // a later chunk fails first, and stops the batch
    std::this_thread::yield();
  }
  store->let_go(key(2));
  EXPECT_THAT(error_of_next(stream), HasSubstr("chunk 2.0.0"));
}

TEST_F(BatchStreamTest, WorksOnAfterAFailureInAnotherStream) {
  store->fail(key(5));
  const auto shared = pool();
  {
    BatchStream failing(shared, 1);
    failing.submit(rows({5}));
    error_of_next(failing);
  }
  BatchStream stream(shared, 1);
  stream.submit(rows({6}));
  EXPECT_THAT(next(stream), ElementsAre(6));
  EXPECT_EQ(shared->counts().reserved_bytes, 0U);
}

TEST_F(BatchStreamTest, AdmitsAsManyBatchesAsTheRingHolds) {
  BatchStream stream(pool(), 2);
  EXPECT_TRUE(stream.admits(rows({0})));
  stream.submit(rows({0}));
  EXPECT_TRUE(stream.admits(rows({0})));
  stream.submit(rows({1}));
  EXPECT_FALSE(stream.admits(rows({0})));
  next(stream);
  EXPECT_TRUE(stream.admits(rows({0})));
}

TEST_F(BatchStreamTest, AdmitsByBytesButAlwaysTheBatchThatIsAwaited) {
  const auto small = pool(4, 2, 1);  // one byte: nothing fits
  BatchStream stream(small, 4);
  EXPECT_TRUE(stream.admits(rows({0, 1, 2})));
  stream.submit(rows({0, 1, 2}));
  EXPECT_FALSE(stream.admits(rows({3})));
  EXPECT_THAT(next(stream), ElementsAre(0, 1, 2));
  EXPECT_TRUE(stream.admits(rows({3})));
  EXPECT_EQ(small->counts().reserved_bytes, 0U);
}

TEST_F(BatchStreamTest, KeepsBatchesAliveAfterStreamAndPoolAreGone) {
  std::vector<FinishedBatch> kept;
  {
    BatchStream stream(pool(), 2);
    for (int row = 0; row < 5; ++row) {
      stream.submit(rows({row}));
      EXPECT_TRUE(stream.wait(kLong));
      kept.push_back(stream.take());
    }
  }
  for (int row = 0; row < 5; ++row) EXPECT_THAT(rows_in(kept[row]), ElementsAre(row));
  std::thread([&kept] { kept.clear(); }).join();  // the last owner may die in any thread
}

TEST_F(BatchStreamTest, ReusesTheMemoryOfABatchThatWasLetGo) {
  const auto shared = pool();
  BatchStream stream(shared, 1);
  for (int row = 0; row < 8; ++row) {
    stream.submit(rows({row}));
    next(stream);
  }
  EXPECT_EQ(shared->counts().slabs.allocations, 1U);
  EXPECT_EQ(shared->counts().slabs.live_bytes, 0U);
}

TEST_F(BatchStreamTest, CloseEndsWithinItsDeadlineWhileAReadHangs) {
  store->hold(key(0));
  const auto shared = pool();
  {
    BatchStream stream(shared, 2);
    stream.submit(rows({0, 1}));
    stream.submit(rows({2}));
    ASSERT_TRUE(store->wait_until_held(1));
    stream.close(Seconds(0.01));
    stream.close(Seconds(0.01));
    EXPECT_EQ(stream.pending(), 0U);
    EXPECT_THROW(stream.submit(rows({1})), Error);
  }
  EXPECT_EQ(shared->counts().reserved_bytes, 0U);
  // The pool serves others as long as a thread and a turn are free.
  BatchStream other(shared, 1);
  other.submit(rows({7}));
  EXPECT_THAT(next(other), ElementsAre(7));
  store->let_go_all();
}

TEST_F(BatchStreamTest, PoolLeavesAHungReadBehindThatCleansUpLater) {
  store->hold(key(0));
  auto hung = pool();
  BatchStream stream(hung, 1);
  stream.submit(rows({0}));
  ASSERT_TRUE(store->wait_until_held(1));
  stream.close(Seconds(0));
  EXPECT_EQ(hung->close(Seconds(0.01)), 1);
  EXPECT_EQ(hung->close(Seconds(0)), 1);  // it still hangs
  store->let_go_all();
  EXPECT_EQ(hung->close(kLong), 0);
}

TEST_F(BatchStreamTest, PoolCloseEndsAWaitForABatchThatWillNotCome) {
  store->hold(key(0));
  auto shared = pool(1, 1);
  BatchStream stream(shared, 2);
  stream.submit(rows({0}));
  stream.submit(rows({1}));
  ASSERT_TRUE(store->wait_until_held(1));
  std::thread closer([&] {
    store->let_go_all();
    shared->close(Seconds(10));
  });
  for (int batch = 0; batch < 2; ++batch) {
    try {
      next(stream);  // what was finished in time
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      break;
    }
  }
  closer.join();
  EXPECT_THROW(stream.submit(rows({1})), Error);
}

TEST_F(BatchStreamTest, CloseFromAnotherThreadEndsAWait) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    store->hold(key(0));
    BatchStream stream(pool(), 2);
    stream.submit(rows({0}));
    stream.submit(rows({1}));
    ASSERT_TRUE(store->wait_until_held(1));
    std::thread closer([&] { stream.close(Seconds(0)); });
    try {
      while (!stream.wait(Seconds(0.001))) {
      }
      stream.take();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    }
    closer.join();
    store->let_go_all();
  }
}

TEST_F(BatchStreamTest, RefusesWhatMakesNoSense) {
  EXPECT_THROW(BatchStream(pool(), 0), Error);
  BatchStream stream(pool(), 1);
  EXPECT_THROW(stream.submit(rows({kRows})), Error);
  EXPECT_THROW(stream.submit(rows({-1})), Error);
  EXPECT_EQ(stream.pending(), 0U);
  EXPECT_THROW(stream.wait(Seconds(0)), Error);
  store->hold(key(0));
  stream.submit(rows({0}));
  EXPECT_THROW(stream.take(), Error);  // not ready
  store->let_go_all();
  EXPECT_THAT(next(stream), ElementsAre(0));
}

TEST_F(BatchStreamTest, AForkedChildIsRefusedAndItsDestructorsDoNotWait) {
  auto shared = pool();
  auto stream = std::make_unique<BatchStream>(shared, 2);
  store->hold(key(0));
  stream->submit(rows({0}));
  ASSERT_TRUE(store->wait_until_held(1));
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    alarm(20);
    int refused = 0;
    const auto refuses = [&refused](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        refused += error.kind() == ErrorKind::kUsage;
      }
    };
    refuses([&] { stream->submit(rows({1})); });
    refuses([&] { stream->wait(Seconds(1)); });
    refuses([&] { shared->counts(); });
    refuses([&] { BatchStream(shared, 1).submit(rows({1})); });
    stream->close(Seconds(5));
    stream.reset();
    shared.reset();
    _exit(refused);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 4);
  store->let_go_all();
  EXPECT_THAT(next(*stream), ElementsAre(0));  // the parent goes on
}

struct Threads {
  int reads;
  int decodes;
};
class BatchStreamThreads : public testing::RowsFixture,
                           public ::testing::WithParamInterface<Threads> {};

// One pool for all: nothing waits for a thread that waits for it.
TEST_P(BatchStreamThreads, FourStreamsOnOnePoolCompleteWithAnyNumberOfThreads) {
  const auto [reads, decodes] = GetParam();
  const auto shared = pool(reads, decodes);
  std::vector<std::unique_ptr<BatchStream>> streams;
  for (int s = 0; s < 4; ++s) streams.push_back(std::make_unique<BatchStream>(shared, 1 + s));
  for (int round = 0; round < 40; ++round) {
    for (auto& stream : streams) {
      const int row = round % kRows;
      stream->submit(rows({row, (row + 3) % kRows, (row + 5) % kRows}));
    }
    for (auto& stream : streams) {
      EXPECT_THAT(next(*stream),
                  ElementsAre(round % kRows, (round + 3) % kRows, (round + 5) % kRows));
    }
  }
  EXPECT_LE(store->most_reads_at_once(), reads);
  EXPECT_LE(shared->counts().threads, reads);
}

INSTANTIATE_TEST_SUITE_P(All, BatchStreamThreads,
                         ::testing::Values(Threads{1, 1}, Threads{2, 1}, Threads{3, 2},
                                           Threads{1, 64}, Threads{64, 1}, Threads{64, 64}));

}  // namespace
}  // namespace niskin::loader
