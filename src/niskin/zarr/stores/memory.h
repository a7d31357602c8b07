// A store in memory, for tests and examples.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "niskin/base/mutex.h"
#include "niskin/zarr/store.h"

namespace niskin::zarr {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::string name = "memory");
  // Replaces the value at `key`. Values that are open keep what they had.
  void put(const std::string& key, std::string bytes);
  void erase(const std::string& key);

  const std::string& name() const override { return name_; }
  std::unique_ptr<Value> open(const std::string& key) const override;
  std::vector<std::string> list(const std::string& prefix) const override;

 private:
  std::string name_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const std::string>> values_ NISKIN_GUARDED_BY(mutex_);
};

}  // namespace niskin::zarr
