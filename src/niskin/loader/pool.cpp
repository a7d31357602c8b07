#include "niskin/loader/pool.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>

#include "niskin/base/error.h"
#include "niskin/kernels/prepare.h"
#include "niskin/loader/pool_state.h"

namespace niskin::loader {
namespace {

std::uint64_t read_share(const PoolOptions& options) {
  return std::clamp<std::uint64_t>(options.memory_limit_bytes / 8, std::uint64_t{1} << 20,
                                   std::uint64_t{256} << 20);
}

PoolOptions checked(PoolOptions options) {
  if (options.max_concurrent_reads < 1 || options.decode_threads < 1 ||
      options.memory_limit_bytes < 1) {
    throw usage_error(fmt::format(
        "pool: got max_concurrent_reads={}, decode_threads={}, memory_limit={}, expected at least "
        "1; all must be "
        "positive",
        options.max_concurrent_reads, options.decode_threads, options.memory_limit_bytes));
  }
  return options;
}

}  // namespace

// A worker's turn: `task` says how early it stands in the queue for the next one.
class Pool::State::WorkerTurn final : public Turn {
 public:
  WorkerTurn(State& state, TaskId task) : state_(state) { waiter_.task = task; }

  void release() override {
    MutexLock lock(state_.mutex_);
    ++state_.free_turns_;
    state_.grant();
  }
  void acquire() override {
    MutexLock lock(state_.mutex_);
    waiter_.granted = false;
    state_.waiters_.emplace(waiter_.task, &waiter_);
    state_.grant();
    while (!waiter_.granted) waiter_.granted_changed.wait(lock);
  }

 private:
  State& state_;
  Waiter waiter_;
};

Pool::State::State(PoolOptions given)
    : max_concurrent_reads(given.max_concurrent_reads),
      decode_threads(given.decode_threads),
      memory_limit_bytes(given.memory_limit_bytes),
      read_buffer_bytes(read_share(given)),
      slabs(std::make_shared<SlabPool>(given.memory_limit_bytes)),
      free_turns_(given.decode_threads) {}

void Pool::State::submit(const std::shared_ptr<BatchJob>& job) {
  if (job->done()) {  // every slot is dry
    job->take_slab(*slabs);
    job->fill_dry();
  }
  MutexLock lock(mutex_);
  if (stopping_) throw usage_error("pool: got a batch after close, expected an open pool");
  if (!job->done()) jobs_.emplace(next_job_++, job);
  grant();
}

bool Pool::State::wait(const BatchJob& job, std::chrono::duration<double> at_most) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(at_most);
  MutexLock lock(mutex_);
  while (!job.done() && !closed_) {
    if (job_done_.wait_until(lock, until) == std::cv_status::timeout) break;
  }
  return job.done();
}

void Pool::State::cancel(BatchJob& job) {
  MutexLock lock(mutex_);
  job.state.cancelled = true;
  stop(job);
  job_done_.notify_all();
}

bool Pool::State::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

bool Pool::State::reserve(std::uint64_t bytes, bool always) {
  MutexLock lock(mutex_);
  if (!always && reserved_bytes_ + bytes + read_buffer_bytes > memory_limit_bytes) return false;
  reserved_bytes_ += bytes;
  return true;
}

void Pool::State::unreserve(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  reserved_bytes_ -= bytes;
}

PoolCounts Pool::State::counts() const {
  PoolCounts counts;
  {
    MutexLock lock(mutex_);
    counts = counts_;
    counts.reserved_bytes = reserved_bytes_;
    counts.threads = live_workers_;
  }
  counts.slabs = slabs->counts();
  return counts;
}

int Pool::State::close(std::chrono::duration<double> deadline) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(deadline);
  std::list<Worker> ended;
  int left = 0;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& [number, job] : jobs_) {
      job->state.cancelled = true;
      job->stop_early();
    }
    jobs_.clear();
    idle_.notify_all();
    job_done_.notify_all();
    while (live_workers_ > 0 && job_done_.wait_until(lock, until) != std::cv_status::timeout) {
    }
    for (auto it = workers_.begin(); it != workers_.end();) {
      const auto worker = it++;
      if (worker->exited) {
        ended.splice(ended.end(), workers_, worker);
      } else {
        ++left;
        if (worker->thread.joinable()) worker->thread.detach();
      }
    }
    for (const auto& memory : memories_) counts_.worker_bytes -= memory->size_bytes();
    memories_.clear();
    closed_ = true;
    job_done_.notify_all();
  }
  for (Worker& worker : ended) {
    if (worker.thread.joinable()) worker.thread.join();  // not one that hung in an earlier close
  }
  slabs->close();
  return left;
}

void Pool::State::work(const std::shared_ptr<State>& self, Worker* worker) {
  kernels::set_exact_floating_point();
  State& state = *self;
  MutexLock lock(state.mutex_);
  while (!state.stopping_) {
    Fresh fresh;
    if (state.free_turns_ > 0 && state.waiters_.empty() && state.find_fresh(fresh)) {
      --state.free_turns_;
      state.run(std::move(fresh));
      state.run_while_first();
      ++state.free_turns_;
      state.grant();
      continue;
    }
    ++state.idle_workers_;
    state.idle_.wait(lock);
    --state.idle_workers_;
  }
  worker->exited = true;
  --state.live_workers_;
  state.job_done_.notify_all();
}

// Keeps the turn as long as no worker with an earlier task waits for one.
void Pool::State::run_while_first() {
  Fresh fresh;
  while (!stopping_) {
    if (!find_fresh(fresh)) return;
    if (!waiters_.empty() && waiters_.begin()->first < TaskId(fresh.number, fresh.task)) {
      // Not started after all.
      bytes_in_flight_ -= fresh.bytes;
      --fresh.job->state.next_task;
      --fresh.job->state.running;
      jobs_.emplace(fresh.number, fresh.job);
      return;
    }
    run(std::move(fresh));
  }
}

void Pool::State::run(Fresh fresh) {
  std::unique_ptr<WorkerMemory> memory = take_memory();
  const std::uint64_t counted_bytes = memory ? memory->size_bytes() : 0;
  grant();  // another turn may be free for the next task
  mutex_.unlock();
  TaskReport report;
  std::exception_ptr error;
  WorkerTurn turn(*this, {fresh.number, fresh.task});
  try {
    if (!memory) memory = std::make_unique<WorkerMemory>();
    if (fresh.task == 0) fresh.job->fill_dry();
    run_chunk_task(*fresh.job, fresh.job->plan().tasks[fresh.task], *memory, turn, report);
  } catch (...) {
    error = std::current_exception();
  }
  mutex_.lock();
  if (memory) give_back(std::move(memory), counted_bytes);
  bytes_in_flight_ -= fresh.bytes;
  merge(fresh, report, error);
  // Let go of the batch before it is announced: whoever takes it then owns its slab alone.
  const bool done = fresh.job->done();
  fresh.job.reset();
  if (done) job_done_.notify_all();
}

bool Pool::State::find_fresh(Fresh& fresh) {
  while (!jobs_.empty()) {
    const auto first = jobs_.begin();
    BatchJob& job = *first->second;
    const std::uint64_t bytes = task_bytes(job, job.state.next_task);
    if (bytes_in_flight_ > 0 && bytes_in_flight_ + bytes > read_buffer_bytes) return false;
    if (job.state.next_task == 0) {
      try {
        job.take_slab(*slabs);
      } catch (...) {
        fail(job, std::current_exception());
        continue;
      }
    }
    bytes_in_flight_ += bytes;
    ++job.state.running;
    fresh = {first->first, first->second, job.state.next_task++, bytes};
    if (job.state.next_task == job.plan().tasks.size()) jobs_.erase(first);
    return true;
  }
  return false;
}

std::uint64_t Pool::State::task_bytes(const BatchJob& job, std::size_t task) const {
  const plan::ChunkTask& chunk = job.plan().tasks[task];
  const plan::FieldArray& array = job.fields(chunk.base).arrays()[chunk.array];
  const std::uint64_t bytes = array.array->meta().chunk_bytes();
  return array.array->meta().codec || !array.planes_are_contiguous() ? bytes
                                                                     : std::min(bytes, kPieceBytes);
}

void Pool::State::merge(const Fresh& fresh, TaskReport& report, const std::exception_ptr& error) {
  BatchJob::State& state = fresh.job->state;
  --state.running;
  state.work += report.work;
  counts_.work += report.work;
  for (const BadValue& bad : report.bad) {
    auto [it, is_new] = state.bad.try_emplace({bad.base, bad.channel}, bad);
    if (!is_new) it->second.add(bad);
  }
  for (const MissingChunk& missing : report.missing) {
    auto [it, is_new] = state.missing.try_emplace({missing.store, missing.array}, missing);
    MissingChunk& known = it->second;
    if (!is_new) known.count += missing.count;
    if (is_new || fresh.task < known.first_task) {
      known.first_key = missing.first_key;
      known.first_task = fresh.task;
    }
  }
  if (error && (!state.error || fresh.task < state.error_task)) {
    state.error = error;
    state.error_task = fresh.task;
    stop(*fresh.job);
  }
}

void Pool::State::stop(BatchJob& job) {
  job.stop_early();
  std::erase_if(jobs_, [&job](const auto& entry) { return entry.second.get() == &job; });
}

void Pool::State::fail(BatchJob& job, std::exception_ptr error) {
  job.state.error = std::move(error);
  job.state.error_task = 0;
  job_done_.notify_all();
  stop(job);
}

void Pool::State::grant() {
  while (free_turns_ > 0 && !waiters_.empty()) {
    Waiter& waiter = *waiters_.begin()->second;
    waiters_.erase(waiters_.begin());
    --free_turns_;
    waiter.granted = true;
    waiter.granted_changed.notify_one();
  }
  if (free_turns_ == 0 || jobs_.empty() || stopping_) return;
  if (idle_workers_ > 0) {
    idle_.notify_one();
  } else if (live_workers_ < max_concurrent_reads) {
    start_worker();
  }
}

void Pool::State::start_worker() {
  Worker& worker = workers_.emplace_back();
  try {
    worker.thread = std::thread(&State::work, shared_from_this(), &worker);
    ++live_workers_;
  } catch (const std::exception& error) {
    workers_.pop_back();
    if (live_workers_ > 0) return;  // fewer have to do
    const auto refused = std::make_exception_ptr(store_error(
        fmt::format("pool: got \"{}\" from the operating system, expected a thread", error.what()),
        "raise the limit on processes and threads (ulimit -u, pids.max of the cgroup)"));
    while (!jobs_.empty()) fail(*jobs_.begin()->second, refused);
  }
}

std::unique_ptr<WorkerMemory> Pool::State::take_memory() {
  if (memories_.empty()) return nullptr;
  auto memory = std::move(memories_.back());
  memories_.pop_back();
  return memory;
}

void Pool::State::give_back(std::unique_ptr<WorkerMemory> memory, std::uint64_t counted_bytes) {
  counts_.worker_bytes += memory->size_bytes() - counted_bytes;
  counts_.peak_worker_bytes = std::max(counts_.peak_worker_bytes, counts_.worker_bytes);
  // More memory than tasks in flight may use: a burst of waiting reads is over.
  if (counts_.worker_bytes > read_buffer_bytes &&
      memories_.size() >= static_cast<std::size_t>(decode_threads)) {
    counts_.worker_bytes -= memory->size_bytes();
    return;
  }
  memories_.push_back(std::move(memory));
}

Pool::Pool(PoolOptions options)
    : state_(std::make_shared<State>(checked(options))), process_(getpid()) {}

Pool::~Pool() {
  if (getpid() == process_) {
    state_->close(std::chrono::seconds(state_->closed() ? 0 : 2));  // a hung thread hangs still
  } else {
    // A forked child has neither the threads nor a sound mutex: leave all as it is.
    static_cast<void>(new (std::nothrow) std::shared_ptr<State>(std::move(state_)));
  }
}

std::uint64_t Pool::memory_limit_bytes() const noexcept { return state_->memory_limit_bytes; }

void Pool::raise_memory_limit(std::uint64_t at_least_bytes) {
  check_process();
  std::uint64_t now = state_->memory_limit_bytes;
  while (now < at_least_bytes &&
         !state_->memory_limit_bytes.compare_exchange_weak(now, at_least_bytes)) {
  }
  state_->slabs->set_limit(state_->memory_limit_bytes);
}

std::uint64_t Pool::read_buffer_bytes() const noexcept { return state_->read_buffer_bytes; }

PoolCounts Pool::counts() const {
  check_process();
  return state_->counts();
}

int Pool::close(std::chrono::duration<double> deadline) {
  if (getpid() != process_) return 0;
  return state_->close(deadline);
}

void Pool::check_process() const {
  if (getpid() != process_) {
    throw usage_error(
        fmt::format("pool: used after fork: got process {}, expected {}", getpid(), process_),
        "make the pool and the loader in the process that uses them, or start it by spawn");
  }
}

}  // namespace niskin::loader
