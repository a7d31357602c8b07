// The inside of Pool: queues, turns and threads. Included by pool.cpp and batch_stream.cpp only.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "niskin/base/mutex.h"
#include "niskin/loader/chunk_worker.h"
#include "niskin/loader/pool.h"

namespace niskin::loader {

class Pool::State : public std::enable_shared_from_this<Pool::State> {
 public:
  explicit State(PoolOptions options);

  // Queues a job behind those queued before. Throws UsageError after `close`.
  void submit(const std::shared_ptr<BatchJob>& job) NISKIN_EXCLUDES(mutex_);
  // Waits until the job is done, the pool has closed or the time is over; true if it is done.
  bool wait(const BatchJob& job, std::chrono::duration<double> at_most) NISKIN_EXCLUDES(mutex_);
  // No further task of the job starts; running ones end by themselves.
  void cancel(BatchJob& job) NISKIN_EXCLUDES(mutex_);
  // Slab bytes that streams hold back for batches in the making.
  bool reserve(std::uint64_t bytes, bool always) NISKIN_EXCLUDES(mutex_);
  void unreserve(std::uint64_t bytes) NISKIN_EXCLUDES(mutex_);
  PoolCounts counts() const NISKIN_EXCLUDES(mutex_);
  int close(std::chrono::duration<double> deadline) NISKIN_EXCLUDES(mutex_);
  // Whether `close` has ended: a batch that is not done then never will be.
  bool closed() const NISKIN_EXCLUDES(mutex_);

  const int max_concurrent_reads;
  const int decode_threads;
  std::atomic<std::uint64_t> memory_limit_bytes;
  const std::uint64_t read_buffer_bytes;
  const std::shared_ptr<SlabPool> slabs;

 private:
  using TaskId =
      std::pair<std::uint64_t, std::size_t>;  // job number, task number: earlier is smaller
  struct Fresh {
    std::uint64_t number = 0;
    std::shared_ptr<BatchJob> job;
    std::size_t task = 0;
    std::uint64_t bytes = 0;  // of buffers it may use
  };
  struct Worker {
    std::thread thread;
    bool exited = false;
  };
  struct Waiter {
    TaskId task;
    CondVar granted_changed;
    bool granted = false;
  };
  class WorkerTurn;

  static void work(const std::shared_ptr<State>& self, Worker* worker);
  void run_while_first() NISKIN_REQUIRES(mutex_);
  // Runs the task without the lock.
  void run(Fresh fresh) NISKIN_REQUIRES(mutex_);
  // The first task that may start, if bytes allow it. Jobs without a task to start are not in
  // jobs_.
  bool find_fresh(Fresh& fresh) NISKIN_REQUIRES(mutex_);
  std::uint64_t task_bytes(const BatchJob& job, std::size_t task) const;
  void merge(const Fresh& fresh, TaskReport& report, const std::exception_ptr& error)
      NISKIN_REQUIRES(mutex_);
  // Hands free turns to waiters, then to an idle or a new worker.
  void grant() NISKIN_REQUIRES(mutex_);
  // Where the system refuses the first thread, every queued job fails with its answer.
  void start_worker() NISKIN_REQUIRES(mutex_);
  // No further task of the job starts.
  void stop(BatchJob& job) NISKIN_REQUIRES(mutex_);
  // The same, and `error` is the batch's.
  void fail(BatchJob& job, std::exception_ptr error) NISKIN_REQUIRES(mutex_);
  // Memory of an earlier task, nullptr if there is none to reuse.
  std::unique_ptr<WorkerMemory> take_memory() NISKIN_REQUIRES(mutex_);
  // `counted_bytes` of it were in the counts when it was taken.
  void give_back(std::unique_ptr<WorkerMemory> memory, std::uint64_t counted_bytes)
      NISKIN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  CondVar idle_;      // workers without work
  CondVar job_done_;  // consumers and close
  bool stopping_ NISKIN_GUARDED_BY(mutex_) = false;
  bool closed_ NISKIN_GUARDED_BY(mutex_) = false;
  std::map<std::uint64_t, std::shared_ptr<BatchJob>> jobs_
      NISKIN_GUARDED_BY(mutex_);  // with tasks to start
  std::uint64_t next_job_ NISKIN_GUARDED_BY(mutex_) = 0;
  int free_turns_ NISKIN_GUARDED_BY(mutex_);
  std::uint64_t bytes_in_flight_ NISKIN_GUARDED_BY(mutex_) = 0;
  std::map<TaskId, Waiter*> waiters_ NISKIN_GUARDED_BY(mutex_);
  std::list<Worker> workers_ NISKIN_GUARDED_BY(mutex_);
  int idle_workers_ NISKIN_GUARDED_BY(mutex_) = 0;
  int live_workers_ NISKIN_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<WorkerMemory>> memories_ NISKIN_GUARDED_BY(mutex_);  // last used last
  std::uint64_t reserved_bytes_ NISKIN_GUARDED_BY(mutex_) = 0;
  PoolCounts counts_ NISKIN_GUARDED_BY(mutex_);
};

}  // namespace niskin::loader
