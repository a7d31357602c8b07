#include "niskin/loader/batch_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

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
  if (closed_ || ring_.size() >= static_cast<std::size_t>(prefetch_batches_)) return false;
  if (ring_.empty()) return true;
  const std::uint64_t bytes = BatchJob::slab_bytes(bases);
  if (!pool_->state_->reserve(bytes, false)) return false;
  pool_->state_->unreserve(bytes);
  return true;
}

void BatchStream::submit(std::vector<plan::BaseRequest> bases) {
  pool_->check_process();
  if (closed_) throw usage_error("batch stream: got a batch after close, expected an open stream");
  auto job = std::make_shared<BatchJob>(std::move(bases));
  const std::uint64_t bytes = job->slab_bytes();
  pool_->state_->submit(job);
  pool_->state_->reserve(bytes, true);
  ring_.push_back({std::move(job), bytes});
}

bool BatchStream::wait(Seconds at_most) {
  pool_->check_process();
  if (ring_.empty()) throw usage_error("batch stream: got a wait, expected a pending batch");
  const auto start = Clock::now();
  const bool ready = pool_->state_->wait(*ring_.front().job, at_most);
  wait_s_ += Seconds(Clock::now() - start).count();
  return ready;
}

FinishedBatch BatchStream::take() {
  if (!wait(Seconds(0)))
    throw usage_error("batch stream: got take, expected a batch that is ready");
  Entry entry = std::move(ring_.front());
  ring_.pop_front();
  pool_->state_->unreserve(entry.bytes);
  const double waited_s = std::exchange(wait_s_, 0);
  if (entry.job->state.error) {
    close(Seconds(2));
    std::rethrow_exception(entry.job->state.error);
  }
  if (entry.job->state.cancelled || closed_)
    throw usage_error("batch stream: got take, expected an open stream");
  pool_->state_->slabs->deliver(*entry.job->slab());
  return {std::move(entry.job), waited_s};
}

void BatchStream::close(Seconds deadline) {
  closed_ = true;
  if (getpid() != pool_->process_) {
    // A forked child: the jobs belong to threads that do not exist here.
    new std::deque<Entry>(std::move(ring_));
    return;
  }
  for (const Entry& entry : ring_) pool_->state_->cancel(*entry.job);
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline);
  for (const Entry& entry : ring_) {
    pool_->state_->wait(*entry.job, std::max(Seconds(0), Seconds(until - Clock::now())));
    pool_->state_->unreserve(entry.bytes);
  }
  ring_.clear();
}

}  // namespace niskin::loader
