#include "niskin/loader/slab.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace niskin::loader {

Slab::Slab(std::size_t size_bytes)
    : data_(nullptr), size_bytes_(std::max<std::size_t>(size_bytes, 1)) {
  void* memory =
      mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // Far fewer page faults on first touch; a refusal costs speed only.
  madvise(memory, size_bytes_, MADV_HUGEPAGE);
#endif
  data_ = static_cast<std::byte*>(memory);
}

Slab::~Slab() { munmap(data_, size_bytes_); }

SlabPool::SlabPool(std::uint64_t limit_bytes) : process_(getpid()), limit_bytes_(limit_bytes) {}

std::shared_ptr<Slab> SlabPool::take(std::size_t size_bytes) {
  std::unique_ptr<Slab> slab;
  {
    MutexLock lock(mutex_);
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      const std::size_t has = (*it)->size_bytes();
      if (has < size_bytes || has / 2 > size_bytes) continue;
      if (best == idle_.end() || has < (*best)->size_bytes()) best = it;
    }
    if (best != idle_.end()) {
      slab = std::move(*best);
      idle_.erase(best);
      counts_.idle_bytes -= slab->size_bytes();
    }
  }
  const bool fresh = !slab;
  if (fresh) slab = std::make_unique<Slab>(size_bytes);
  std::vector<std::unique_ptr<Slab>> freed;
  {
    MutexLock lock(mutex_);
    counts_.allocations += fresh ? 1 : 0;
    counts_.live_bytes += slab->size_bytes();
    trim(freed);
    counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.live_bytes + counts_.idle_bytes);
  }
  Slab* raw = slab.release();
  return {raw, [pool = shared_from_this()](Slab* back) {
            pool->give_back(std::unique_ptr<Slab>(back));
          }};
}

void SlabPool::deliver(Slab& slab) {
  MutexLock lock(mutex_);
  if (slab.delivered_) return;
  slab.delivered_ = true;
  counts_.delivered_bytes += slab.size_bytes();
}

SlabPool::Counts SlabPool::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

void SlabPool::set_limit(std::uint64_t limit_bytes) {
  MutexLock lock(mutex_);
  limit_bytes_ = limit_bytes;
}

void SlabPool::close() {
  std::vector<std::unique_ptr<Slab>> freed;
  MutexLock lock(mutex_);
  closed_ = true;
  freed.swap(idle_);
  counts_.idle_bytes = 0;
  lock.unlock();
}

void SlabPool::give_back(std::unique_ptr<Slab> slab) {
  if (getpid() != process_) return;  // a forked child: another thread may have held the mutex
  std::vector<std::unique_ptr<Slab>> freed;  // unmapped after the lock is released
  MutexLock lock(mutex_);
  counts_.live_bytes -= slab->size_bytes();
  if (slab->delivered_) counts_.delivered_bytes -= slab->size_bytes();
  slab->delivered_ = false;
  if (closed_) {
    freed.push_back(std::move(slab));
  } else {
    counts_.idle_bytes += slab->size_bytes();
    idle_.push_back(std::move(slab));
    trim(freed);
  }
  lock.unlock();
}

void SlabPool::trim(std::vector<std::unique_ptr<Slab>>& freed) {
  while (!idle_.empty() &&
         counts_.live_bytes - counts_.delivered_bytes + counts_.idle_bytes > limit_bytes_) {
    const auto smallest = std::min_element(
        idle_.begin(), idle_.end(),
        [](const auto& a, const auto& b) { return a->size_bytes() < b->size_bytes(); });
    counts_.idle_bytes -= (*smallest)->size_bytes();
    freed.push_back(std::move(*smallest));
    idle_.erase(smallest);
  }
}

}  // namespace niskin::loader
