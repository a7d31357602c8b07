// Mutexes that Clang's thread-safety analysis understands.
//
// A field that several threads share is declared NISKIN_GUARDED_BY(mutex); a function that needs
// the lock held NISKIN_REQUIRES(mutex).
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define NISKIN_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define NISKIN_THREAD_ANNOTATION(x)
#endif
#define NISKIN_GUARDED_BY(x) NISKIN_THREAD_ANNOTATION(guarded_by(x))
#define NISKIN_REQUIRES(...) NISKIN_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define NISKIN_NO_THREAD_SAFETY_ANALYSIS NISKIN_THREAD_ANNOTATION(no_thread_safety_analysis)
#define NISKIN_EXCLUDES(...) NISKIN_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace niskin {

class NISKIN_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() NISKIN_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() NISKIN_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Held from construction to destruction, except between unlock() and lock().
class NISKIN_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) NISKIN_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex), held_(true) {
    mutex_.lock();
  }
  ~MutexLock() NISKIN_THREAD_ANNOTATION(release_capability()) {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() NISKIN_THREAD_ANNOTATION(acquire_capability()) {
    mutex_.lock();
    held_ = true;
  }
  void unlock() NISKIN_THREAD_ANNOTATION(release_capability()) {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_;
};

// Waits on a Mutex that is held; always call it in a loop that tests the condition.
using CondVar = std::condition_variable_any;

}  // namespace niskin
