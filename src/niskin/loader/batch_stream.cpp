#include "niskin/loader/batch_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "niskin/loader/pool_state.h"

namespace niskin::loader {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

BatchStream::BatchStream(std::shared_ptr<Pool> pool, int prefetch_batches)
    : pool_(std::move(pool)), prefetch_batches_(prefetch_batches) {
  if (prefetch_batches < 1) {
    throw usage_error(
        fmt::format("prefetch_batches: got {}, expected at least 1", prefetch_batches));
  }
}

BatchStream::~BatchStream() { close(Seconds(2)); }

bool BatchStream::admits(const std::vector<plan::BaseRequest>& bases) const {
  pool_->check_process();
  {
    MutexLock lock(mutex_);
    if (closed_ || ring_.size() >= static_cast<std::size_t>(prefetch_batches_)) return false;
    if (ring_.empty()) return true;
  }
  const std::uint64_t bytes = BatchJob::slab_bytes(bases);
  if (!pool_->state_->reserve(bytes, false)) return false;
  pool_->state_->unreserve(bytes);
  return true;
}

void BatchStream::submit(std::vector<plan::BaseRequest> bases) {
  pool_->check_process();
  auto job = std::make_shared<BatchJob>(std::move(bases));
  const std::uint64_t bytes = job->slab_bytes();
  MutexLock lock(mutex_);
  if (closed_) throw usage_error("batch stream: got a batch after close, expected an open stream");
  pool_->state_->submit(job);
  pool_->state_->reserve(bytes, true);
  ring_.push_back({std::move(job), bytes});
}

std::size_t BatchStream::pending() const {
  MutexLock lock(mutex_);
  return ring_.size();
}

std::shared_ptr<BatchJob> BatchStream::oldest() const {
  MutexLock lock(mutex_);
  if (ring_.empty()) throw usage_error("batch stream: got no batch, expected a pending one");
  return ring_.front().job;
}

bool BatchStream::wait(Seconds at_most) {
  pool_->check_process();
  const auto job = oldest();
  const auto start = Clock::now();
  const bool ready = pool_->state_->wait(*job, at_most);
  wait_s_ += Seconds(Clock::now() - start).count();
  if (!ready && pool_->state_->closed()) {
    throw usage_error("batch stream: got a closed pool, expected an open one");
  }
  return ready;
}

FinishedBatch BatchStream::take() {
  if (!wait(Seconds(0)))
    throw usage_error("batch stream: got take, expected a batch that is ready");
  Entry entry;
  {
    MutexLock lock(mutex_);
    if (closed_ || ring_.empty()) {
      throw usage_error("batch stream: got take after close, expected an open stream");
    }
    entry = std::move(ring_.front());
    ring_.pop_front();
  }
  pool_->state_->unreserve(entry.bytes);
  const double waited_s = std::exchange(wait_s_, 0);
  const BatchJob::State& state = entry.job->state;
  if (state.error || state.cancelled) close(Seconds(2));
  if (state.error) std::rethrow_exception(state.error);
  if (state.cancelled) throw usage_error("batch stream: got a closed pool, expected an open one");
  pool_->state_->slabs->deliver(*entry.job->slab());
  return {std::move(entry.job), waited_s};
}

void BatchStream::close(Seconds deadline) {
  if (getpid() != pool_->process_) {
    // A forked child: the jobs belong to threads that do not exist here, and so may the lock.
    leak_in_child();
    return;
  }
  std::deque<Entry> dropped;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    dropped.swap(ring_);
  }
  for (const Entry& entry : dropped) pool_->state_->cancel(*entry.job);
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline);
  for (const Entry& entry : dropped) {
    pool_->state_->wait(*entry.job, std::max(Seconds(0), Seconds(until - Clock::now())));
    pool_->state_->unreserve(entry.bytes);
  }
}

void BatchStream::leak_in_child() {
  static_cast<void>(new (std::nothrow) std::deque<Entry>(std::move(ring_)));
}

}  // namespace niskin::loader
