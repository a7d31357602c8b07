// Slabs: the memory of batches, kept and reused.
//
// Fresh memory is slow, so a slab goes back to its pool when the last owner lets go of it, in
// whichever thread that happens, and is handed out again. Safe to use from several threads; a slab
// may outlive every other owner of its pool, and may end in a forked child, where it is freed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "niskin/base/mutex.h"

namespace niskin::loader {

// Page-aligned memory of one batch. Content is undefined when it is handed out.
class Slab {
 public:
  explicit Slab(std::size_t size_bytes);  // throws std::bad_alloc
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  friend class SlabPool;
  std::byte* data_;
  std::size_t size_bytes_;
  bool delivered_ = false;  // guarded by the pool's mutex
};

class SlabPool : public std::enable_shared_from_this<SlabPool> {
 public:
  struct Counts {
    std::uint64_t live_bytes = 0;       // handed out
    std::uint64_t delivered_bytes = 0;  // of these, in the hands of the user
    std::uint64_t idle_bytes = 0;       // waiting to be reused
    std::uint64_t peak_bytes = 0;       // of both together
    std::uint64_t allocations = 0;
  };

  // Idle slabs are freed, smallest first, as long as all slabs that are not delivered together are
  // above `limit_bytes`.
  explicit SlabPool(std::uint64_t limit_bytes);

  // At least `size_bytes`: the smallest idle slab that fits and is at most twice that, or a new
  // one.
  std::shared_ptr<Slab> take(std::size_t size_bytes);
  // The slab is the user's from now on, until it comes back: it no longer counts against the limit.
  void deliver(Slab& slab);
  Counts counts() const;
  void set_limit(std::uint64_t limit_bytes);
  // Frees the idle slabs, and from now on every slab that comes back.
  void close();

 private:
  void give_back(std::unique_ptr<Slab> slab);
  void trim(std::vector<std::unique_ptr<Slab>>& freed) NISKIN_REQUIRES(mutex_);

  const pid_t process_;
  mutable Mutex mutex_;
  std::uint64_t limit_bytes_ NISKIN_GUARDED_BY(mutex_);
  bool closed_ NISKIN_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Slab>> idle_ NISKIN_GUARDED_BY(mutex_);
  Counts counts_ NISKIN_GUARDED_BY(mutex_);
};

}  // namespace niskin::loader
