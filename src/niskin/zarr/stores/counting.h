// A store that counts what is asked of another one, so that tests state work as well as values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "niskin/zarr/store.h"

namespace niskin::zarr {

struct StoreCounts {
  std::uint64_t opens = 0;   // values opened, absent ones included
  std::uint64_t absent = 0;  // of these, absent
  std::uint64_t reads = 0;   // read calls that returned bytes
  std::uint64_t bytes_read = 0;
};

class CountingStore final : public Store {
 public:
  explicit CountingStore(std::shared_ptr<const Store> inner);
  StoreCounts counts() const;
  // With false, kNoWait reads return nothing: as on a cold page cache.
  void set_cached(bool cached);

  const std::string& name() const override { return inner_->name(); }
  std::unique_ptr<Value> open(const std::string& key) const override;
  std::vector<std::string> list(const std::string& prefix) const override;

 private:
  struct State;  // shared with the values that are open
  class CountingValue;
  std::shared_ptr<const Store> inner_;
  std::shared_ptr<State> state_;
};

}  // namespace niskin::zarr
