// The worker pool: reads wait in many threads, decodes run on few.
//
// Shared by all batch streams of a process. A worker takes a turn (one of `decode_threads`), starts
// the earliest task of the earliest batch, reads it and, where the bytes are in memory already,
// decodes it at once. Where a read has to wait the worker gives its turn to another one, waits, and
// queues for a turn; turns go to the earliest batch first. Work is admitted by bytes: tasks in
// flight together use at most `read_buffer_bytes`, one task always may run.
//
// Threads start when work comes and end in `close`; the destructor closes. Safe to use from several
// threads. After a fork the child's calls throw UsageError and its destructor does nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "niskin/loader/batch_job.h"
#include "niskin/loader/slab.h"

namespace niskin::loader {

struct PoolOptions {
  int max_concurrent_reads = 32;
  int decode_threads = 1;
  std::uint64_t memory_limit_bytes = std::uint64_t{1} << 30;
};

struct PoolCounts {
  WorkCounts work;
  SlabPool::Counts slabs;
  std::uint64_t reserved_bytes =
      0;                           // slabs of batches that streams have admitted and not delivered
  std::uint64_t worker_bytes = 0;  // buffers of workers
  std::uint64_t peak_worker_bytes = 0;
  int threads = 0;
};

class Pool {
 public:
  // Throws UsageError for options below 1.
  explicit Pool(PoolOptions options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::uint64_t memory_limit_bytes() const noexcept;
  // For a limit that nobody set: the working set of a loader is larger than expected. Never lowers
  // it.
  void raise_memory_limit(std::uint64_t at_least_bytes);
  // Buffers of tasks in flight, as far as they are bounded: part of memory_limit_bytes.
  std::uint64_t read_buffer_bytes() const noexcept;
  PoolCounts counts() const;
  // Ends the threads: waits for running tasks until the deadline, then leaves the ones that hang
  // behind with what they own. Returns how many hang. Idempotent; batch streams then throw
  // UsageError.
  int close(std::chrono::duration<double> deadline);

 private:
  friend class BatchStream;
  class State;
  void check_process() const;

  std::shared_ptr<State> state_;
  pid_t process_;
};

}  // namespace niskin::loader
