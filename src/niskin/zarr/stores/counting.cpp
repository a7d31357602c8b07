#include "niskin/zarr/stores/counting.h"

#include <atomic>

namespace niskin::zarr {

struct CountingStore::State {
  std::atomic<std::uint64_t> opens{0};
  std::atomic<std::uint64_t> absent{0};
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> bytes_read{0};
  std::atomic<bool> cached{true};
};

class CountingStore::CountingValue final : public Value {
 public:
  CountingValue(std::unique_ptr<Value> inner, std::shared_ptr<State> state)
      : inner_(std::move(inner)), state_(std::move(state)) {}
  std::uint64_t size_bytes() const override { return inner_->size_bytes(); }
  std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> out, ReadMode mode) override {
    if (mode == ReadMode::kNoWait && !state_->cached) return 0;
    const std::size_t count = inner_->read(offset_bytes, out, mode);
    if (count > 0) {
      ++state_->reads;
      state_->bytes_read += count;
    }
    return count;
  }
  void prefetch(std::uint64_t offset_bytes, std::uint64_t size_bytes) override {
    inner_->prefetch(offset_bytes, size_bytes);
  }

 private:
  std::unique_ptr<Value> inner_;
  std::shared_ptr<State> state_;
};

CountingStore::CountingStore(std::shared_ptr<const Store> inner)
    : inner_(std::move(inner)), state_(std::make_shared<State>()) {}

StoreCounts CountingStore::counts() const {
  return {.opens = state_->opens,
          .absent = state_->absent,
          .reads = state_->reads,
          .bytes_read = state_->bytes_read};
}

void CountingStore::set_cached(bool cached) { state_->cached = cached; }

std::unique_ptr<Value> CountingStore::open(const std::string& key) const {
  ++state_->opens;
  auto value = inner_->open(key);
  if (!value) {
    ++state_->absent;
    return nullptr;
  }
  return std::make_unique<CountingValue>(std::move(value), state_);
}

std::vector<std::string> CountingStore::list(const std::string& prefix) const {
  return inner_->list(prefix);
}

}  // namespace niskin::zarr
