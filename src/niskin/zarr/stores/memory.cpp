#include "niskin/zarr/stores/memory.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace niskin::zarr {
namespace {

class MemoryValue final : public Value {
 public:
  explicit MemoryValue(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size_bytes() const override { return bytes_->size(); }
  std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> out,
                   ReadMode /*mode*/) override {
    if (offset_bytes >= bytes_->size()) return 0;
    const std::size_t count = std::min<std::size_t>(out.size(), bytes_->size() - offset_bytes);
    if (count > 0) std::memcpy(out.data(), bytes_->data() + offset_bytes, count);
    return count;
  }

 private:
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace

MemoryStore::MemoryStore(std::string name) : name_(std::move(name)) {}

void MemoryStore::put(const std::string& key, std::string bytes) {
  auto value = std::make_shared<const std::string>(std::move(bytes));
  const MutexLock lock(mutex_);
  values_[key] = std::move(value);
}

void MemoryStore::erase(const std::string& key) {
  const MutexLock lock(mutex_);
  values_.erase(key);
}

std::unique_ptr<Value> MemoryStore::open(const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  return std::make_unique<MemoryValue>(found->second);
}

std::vector<std::string> MemoryStore::list(const std::string& prefix) const {
  const std::string below = prefix.empty() ? "" : prefix + "/";
  std::set<std::string> names;
  const MutexLock lock(mutex_);
  for (auto it = values_.lower_bound(below); it != values_.end() && it->first.starts_with(below);
       ++it) {
    const std::string rest = it->first.substr(below.size());
    names.insert(rest.substr(0, rest.find('/')));
  }
  return {names.begin(), names.end()};
}

}  // namespace niskin::zarr
