// Batches in order: a bounded ring of batches in the making.
//
// One consumer submits what the next batches need and takes them out in the same order; workers of
// the pool fill them meanwhile, without a barrier between batches. Not safe to use from several
// threads at once, except `close`. The pool must be open; it may be shared with other streams.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "niskin/base/mutex.h"
#include "niskin/loader/batch_job.h"
#include "niskin/loader/pool.h"

namespace niskin::loader {

// A finished batch. Its memory lives as long as any copy of `slab` does.
struct FinishedBatch {
  std::shared_ptr<const BatchJob> job;
  double wait_s = 0;  // that the consumer waited for it
};

class BatchStream {
 public:
  BatchStream(std::shared_ptr<Pool> pool, int prefetch_batches);
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // Whether a further batch may be submitted: the ring has room and the pool's memory admits it.
  // The batch that `next` would wait for is always admitted.
  bool admits(const std::vector<plan::BaseRequest>& bases) const;
  // Plans and queues a batch. Throws UsageError for rows outside their store and after `close`.
  void submit(std::vector<plan::BaseRequest> bases);
  std::size_t pending() const;
  // Waits for the oldest batch, at most so long; false if it is not ready yet. Throws UsageError if
  // there is none, and if it will never be ready since the pool was closed.
  bool wait(std::chrono::duration<double> at_most);
  // The oldest batch, which must be ready. Throws the error of its earliest failing chunk; the
  // stream is closed then.
  FinishedBatch take();
  // Drops what is pending and waits for running tasks until the deadline; those that hang are left
  // with the memory they own. Idempotent.
  void close(std::chrono::duration<double> deadline);

 private:
  struct Entry {
    std::shared_ptr<BatchJob> job;
    std::uint64_t bytes = 0;
  };

  void leak_in_child() NISKIN_NO_THREAD_SAFETY_ANALYSIS;
  // The oldest batch. Throws UsageError if there is none.
  std::shared_ptr<BatchJob> oldest() const NISKIN_EXCLUDES(mutex_);

  std::shared_ptr<Pool> pool_;
  int prefetch_batches_;
  double wait_s_ = 0;  // of the oldest batch so far
  mutable Mutex mutex_;
  std::deque<Entry> ring_ NISKIN_GUARDED_BY(mutex_);
  bool closed_ NISKIN_GUARDED_BY(mutex_) = false;
};

}  // namespace niskin::loader
