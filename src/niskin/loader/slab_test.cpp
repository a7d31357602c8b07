#include "niskin/loader/slab.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace niskin::loader {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::shared_ptr<SlabPool> slab_pool(std::uint64_t limit_bytes = 100 * kMiB) {
  return std::make_shared<SlabPool>(limit_bytes);
}

TEST(SlabPool, HandsASlabOutAgain) {
  const auto pool = slab_pool();
  std::byte* first = nullptr;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto slab = pool->take(kMiB);
    std::memset(slab->data(), 1, kMiB);
    if (repeat == 0) first = slab->data();
    EXPECT_EQ(slab->data(), first);
  }
  EXPECT_EQ(pool->counts().allocations, 1U);
  EXPECT_EQ(pool->counts().live_bytes, 0U);
  EXPECT_EQ(pool->counts().idle_bytes, kMiB);
}

TEST(SlabPool, AlignsToPages) {
  const auto slab = slab_pool()->take(5);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab->data()) % 4096, 0U);
  EXPECT_GE(slab->size_bytes(), 5U);
  EXPECT_NE(slab_pool()->take(0)->data(), nullptr);
}

TEST(SlabPool, PrefersTheSmallestSlabThatFits) {
  const auto pool = slab_pool();
  {
    const auto a = pool->take(4 * kMiB), b = pool->take(3 * kMiB), c = pool->take(5 * kMiB);
  }
  EXPECT_EQ(pool->take(3 * kMiB)->size_bytes(), 3 * kMiB);
  EXPECT_EQ(pool->take(3 * kMiB + 1)->size_bytes(), 4 * kMiB);
  EXPECT_EQ(pool->counts().allocations, 3U);
}

TEST(SlabPool, DoesNotSpendASlabOfMoreThanTwiceTheSize) {
  const auto pool = slab_pool();
  pool->take(4 * kMiB);
  EXPECT_EQ(pool->take(2 * kMiB)->size_bytes(), 4 * kMiB);
  EXPECT_EQ(pool->take(2 * kMiB - 1)->size_bytes(), 2 * kMiB - 1);
  EXPECT_EQ(pool->counts().allocations, 2U);
}

TEST(SlabPool, FreesIdleSlabsAboveItsLimitSmallestFirst) {
  const auto pool = slab_pool(10 * kMiB);
  auto a = pool->take(2 * kMiB), b = pool->take(4 * kMiB), c = pool->take(3 * kMiB);
  b.reset();
  a.reset();
  c.reset();
  EXPECT_EQ(pool->counts().idle_bytes, 9 * kMiB);
  // With 7 MiB in use 16 would be held: 2 and 3 go, then 4 as well.
  auto d = pool->take(7 * kMiB);
  EXPECT_EQ(pool->counts().idle_bytes, 0U);
  b = pool->take(3 * kMiB);
  b.reset();
  EXPECT_EQ(pool->counts().idle_bytes, 3 * kMiB);
  // 5 MiB come back: 15 would be held, so that 3 go and then the 5 themselves.
  pool->take(5 * kMiB);
  EXPECT_EQ(pool->counts().idle_bytes, 0U);
  EXPECT_EQ(pool->counts().live_bytes, 7 * kMiB);
  EXPECT_EQ(pool->counts().allocations, 6U);
}

TEST(SlabPool, KeepsTheLargestOfItsIdleSlabs) {
  const auto pool = slab_pool(10 * kMiB);
  {
    const auto a = pool->take(2 * kMiB), b = pool->take(4 * kMiB);
  }
  const auto held = pool->take(5 * kMiB);  // 11 MiB would be held: the 2 go
  EXPECT_EQ(pool->counts().idle_bytes, 4 * kMiB);
  EXPECT_EQ(pool->take(4 * kMiB)->size_bytes(), 4 * kMiB);
  EXPECT_EQ(pool->counts().allocations, 3U);
}

TEST(SlabPool, NeverRefusesOrFreesWhatIsInUse) {
  const auto pool = slab_pool(3 * kMiB);
  auto a = pool->take(2 * kMiB), b = pool->take(2 * kMiB);
  EXPECT_EQ(pool->counts().live_bytes, 4 * kMiB);
  EXPECT_EQ(pool->counts().peak_bytes, 4 * kMiB);
  a.reset();  // 4 MiB would be held
  EXPECT_EQ(pool->counts().idle_bytes, 0U);
  b.reset();
  EXPECT_EQ(pool->counts().idle_bytes, 2 * kMiB);
  EXPECT_EQ(pool->counts().peak_bytes, 4 * kMiB);
}

TEST(SlabPool, KeepsToANewLimitFromTheNextSlabOn) {
  const auto pool = slab_pool();
  {
    const auto a = pool->take(2 * kMiB), b = pool->take(4 * kMiB);
  }
  pool->set_limit(4 * kMiB);
  pool->take(4 * kMiB);
  EXPECT_EQ(pool->counts().idle_bytes, 4 * kMiB);
  pool->set_limit(0);
  pool->take(4 * kMiB);
  EXPECT_EQ(pool->counts().idle_bytes, 0U);
}

TEST(SlabPool, DoesNotCountWhatTheUserHolds) {
  const auto pool = slab_pool(5 * kMiB);
  auto batch = pool->take(4 * kMiB);
  pool->deliver(*batch);
  pool->deliver(*batch);  // once is enough
  EXPECT_EQ(pool->counts().delivered_bytes, 4 * kMiB);
  pool->take(5 * kMiB);
  EXPECT_EQ(pool->counts().idle_bytes, 5 * kMiB);  // kept: only the batch is in use, the user's
  batch.reset();
  EXPECT_EQ(pool->counts().delivered_bytes, 0U);
  EXPECT_EQ(pool->counts().idle_bytes, 5 * kMiB);  // 9 would be above the limit
}

TEST(SlabPool, ForgetsThatASlabWasDelivered) {
  const auto pool = slab_pool();
  pool->deliver(*pool->take(kMiB));
  const auto again = pool->take(kMiB);
  EXPECT_EQ(pool->counts().allocations, 1U);
  EXPECT_EQ(pool->counts().delivered_bytes, 0U);
  EXPECT_EQ(pool->counts().live_bytes, kMiB);
}

TEST(SlabPool, KeepsNothingOnceClosed) {
  const auto pool = slab_pool();
  auto held = pool->take(2 * kMiB);
  pool->take(kMiB);
  pool->close();
  EXPECT_EQ(pool->counts().idle_bytes, 0U);
  EXPECT_EQ(pool->counts().live_bytes, 2 * kMiB);
  std::memset(held->data(), 1, held->size_bytes());  // still its owner's
  held.reset();
  pool->take(kMiB);
  EXPECT_EQ(pool->counts().live_bytes, 0U);
  EXPECT_EQ(pool->counts().idle_bytes, 0U);
}

TEST(SlabPool, CountsWhatComesBackFromManyThreads) {
  const auto pool = slab_pool();
  std::vector<std::thread> threads;
  std::atomic<int> mixed = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        auto slab = pool->take(4096);
        std::memset(slab->data(), t, 4096);
        pool->deliver(*slab);
        std::thread user;
        if (repeat == 0) {
          user = std::thread([slab = std::move(slab), t, &mixed]() mutable {
            mixed += slab->data()[4095] != std::byte(t);
            slab.reset();
          });
          user.join();
        } else {
          mixed += slab->data()[4095] != std::byte(t);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(mixed, 0);  // no slab has two owners
  const SlabPool::Counts counts = pool->counts();
  EXPECT_EQ(counts.live_bytes, 0U);
  EXPECT_EQ(counts.delivered_bytes, 0U);
  EXPECT_EQ(counts.idle_bytes, counts.allocations * 4096);
  EXPECT_LE(counts.allocations, 4U);
  EXPECT_EQ(counts.peak_bytes, counts.idle_bytes);
}

TEST(SlabPool, MayEndBeforeItsSlabs) {
  auto pool = slab_pool();
  auto slab = pool->take(kMiB);
  pool.reset();
  std::memset(slab->data(), 1, kMiB);
  std::thread([&slab] { slab.reset(); }).join();
}

TEST(SlabPool, ThrowsWhereTheSystemHasNoMemory) {
  const auto pool = slab_pool();
  EXPECT_THROW(pool->take(std::size_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(pool->counts().allocations, 0U);
  EXPECT_EQ(pool->counts().live_bytes, 0U);
  EXPECT_NE(pool->take(kMiB), nullptr);
}

// A child inherits the lock as it was, perhaps held by a thread that it does not have.
TEST(SlabPool, LetsAForkedChildDropItsSlabs) {
  const auto pool = slab_pool();
  auto held = pool->take(kMiB);
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) pool->take(4096);
  });
  int failed = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      held.reset();
      _exit(0);
    }
    int status = 0;
    failed += waitpid(child, &status, 0) != child || status != 0;
  }
  stop = true;
  busy.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace niskin::loader
