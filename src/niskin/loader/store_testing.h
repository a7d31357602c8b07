// For tests of the loader: a store whose reads wait until they are let go, and batches over it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "niskin/base/error.h"
#include "niskin/base/mutex.h"
#include "niskin/loader/batch_stream.h"
#include "niskin/plan/fields.h"
#include "niskin/zarr/stores/memory.h"

namespace niskin::loader::testing {

using Seconds = std::chrono::duration<double>;
// Longer than anything should take, so that a lost wake-up fails a test and does not hang it.
constexpr Seconds kLong(60);

// Values of another store. Nothing is in memory: every read has to wait. Reads of held keys wait
// until they are let go, reads of failing keys throw.
class GatedStore final : public zarr::Store {
 public:
  explicit GatedStore(std::shared_ptr<const zarr::Store> inner)
      : inner_(std::move(inner)), gate_(std::make_shared<Gate>()) {}
  ~GatedStore() override { let_go_all(); }

  void hold(const std::string& key) {
    MutexLock lock(gate_->mutex);
    gate_->held.insert(key);
  }
  void let_go(const std::string& key) {
    MutexLock lock(gate_->mutex);
    gate_->held.erase(key);
    gate_->changed.notify_all();
  }
  void let_go_all() {
    MutexLock lock(gate_->mutex);
    gate_->held.clear();
    gate_->changed.notify_all();
  }
  void fail(const std::string& key) {
    MutexLock lock(gate_->mutex);
    gate_->failing.insert(key);
  }
  // Until so many reads sit in held keys; false if that takes too long.
  bool wait_until_held(int count) {
    MutexLock lock(gate_->mutex);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (gate_->waiting != count) {
      if (gate_->changed.wait_until(lock, until) == std::cv_status::timeout) return false;
    }
    return true;
  }
  int most_reads_at_once() const {
    MutexLock lock(gate_->mutex);
    return gate_->most_reading;
  }
  std::vector<std::string> read_keys() const {
    MutexLock lock(gate_->mutex);
    return gate_->read_keys;
  }

  const std::string& name() const override { return inner_->name(); }
  std::vector<std::string> list(const std::string& prefix) const override {
    return inner_->list(prefix);
  }
  std::unique_ptr<zarr::Value> open(const std::string& key) const override {
    auto value = inner_->open(key);
    if (!value) return nullptr;
    return std::make_unique<GatedValue>(std::move(value), key, gate_);
  }

 private:
  struct Gate {
    mutable Mutex mutex;
    CondVar changed;
    std::set<std::string> held NISKIN_GUARDED_BY(mutex);
    std::set<std::string> failing NISKIN_GUARDED_BY(mutex);
    std::vector<std::string> read_keys NISKIN_GUARDED_BY(mutex);
    int waiting NISKIN_GUARDED_BY(mutex) = 0;  // in held keys
    int reading NISKIN_GUARDED_BY(mutex) = 0;
    int most_reading NISKIN_GUARDED_BY(mutex) = 0;
  };

  class GatedValue final : public zarr::Value {
   public:
    GatedValue(std::unique_ptr<zarr::Value> inner, std::string key, std::shared_ptr<Gate> gate)
        : inner_(std::move(inner)), key_(std::move(key)), gate_(std::move(gate)) {}

    std::uint64_t size_bytes() const override { return inner_->size_bytes(); }
    std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> out,
                     zarr::ReadMode mode) override {
      if (mode == zarr::ReadMode::kNoWait) return 0;
      Gate& gate = *gate_;
      {
        MutexLock lock(gate.mutex);
        gate.read_keys.push_back(key_);
        gate.most_reading = std::max(gate.most_reading, ++gate.reading);
        if (gate.held.contains(key_)) {
          ++gate.waiting;
          gate.changed.notify_all();
          while (gate.held.contains(key_)) gate.changed.wait(lock);
          --gate.waiting;
        }
        --gate.reading;
        gate.changed.notify_all();
        if (gate.failing.contains(key_)) throw store_error(key_ + ": got EIO, expected bytes");
      }
      return inner_->read(offset_bytes, out, mode);
    }

   private:
    std::unique_ptr<zarr::Value> inner_;
    std::string key_;
    std::shared_ptr<Gate> gate_;
  };

  std::shared_ptr<const zarr::Store> inner_;
  std::shared_ptr<Gate> gate_;
};

inline std::string chunk_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// The array `name` of `store`: float32 (rows, ny, nx), uncompressed, one row a chunk.
inline std::shared_ptr<const zarr::Array> row_array(std::shared_ptr<const zarr::Store> store,
                                                    const std::string& name, int rows, int ny,
                                                    int nx) {
  const std::string plane = std::to_string(ny) + ", " + std::to_string(nx) + "]";
  return std::make_shared<const zarr::Array>(
      std::move(store),
      zarr::parse_array_v2(
          name,
          R"({"zarr_format": 2, "filters": null, "order": "C", "compressor": null, "dtype": "<f4",)"
          R"("fill_value": "NaN", "shape": [)" +
              std::to_string(rows) + ", " + plane + R"(, "chunks": [1, )" + plane + "}",
          R"({"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]})"));
}

// All cells wet, mean 0 and std 1: batches hold what the store holds.
inline std::shared_ptr<const plan::FieldSet> plain_fields(
    const std::vector<std::shared_ptr<const zarr::Array>>& arrays, plan::Policy policy = {}) {
  std::vector<plan::FieldArray> field_arrays;
  std::vector<plan::Field> fields;
  for (const auto& array : arrays) {
    fields.push_back(
        {.channel = array->meta().name, .array = static_cast<std::uint32_t>(fields.size())});
    field_arrays.push_back(plan::make_field_array(array));
  }
  const auto& first = field_arrays.front();
  const std::vector<std::uint8_t> wet(static_cast<std::size_t>(first.ny * first.nx), 1);
  return std::make_shared<const plan::FieldSet>(std::move(field_arrays), std::move(fields),
                                                std::vector<plan::Mask>{{first.ny, first.nx, wet}},
                                                policy);
}

// Ten rows of 2 x 3 cells; cell c of row r is 100 r + c. Keys are "thetao/<row>.0.0".
class RowsFixture : public ::testing::Test {
 protected:
  static constexpr int kRows = 10, kNy = 2, kNx = 3, kCells = kNy * kNx;

  RowsFixture() {
    for (int row = 0; row < kRows; ++row) {
      std::vector<float> plane(kCells);
      for (int c = 0; c < kCells; ++c) plane[c] = static_cast<float>(100 * row + c);
      memory->put(key(row), chunk_of(plane));
    }
  }

  static std::string key(int row) { return "thetao/" + std::to_string(row) + ".0.0"; }

  std::vector<plan::BaseRequest> rows(std::vector<std::int64_t> wanted) const {
    return {{fields, std::move(wanted)}};
  }
  std::shared_ptr<Pool> pool(int reads = 4, int decodes = 2,
                             std::uint64_t limit_bytes = std::uint64_t{1} << 30) const {
    return std::make_shared<Pool>(PoolOptions{.max_concurrent_reads = reads,
                                              .decode_threads = decodes,
                                              .memory_limit_bytes = limit_bytes});
  }
  // The rows that a batch holds, found by its values.
  static std::vector<int> rows_in(const FinishedBatch& batch) {
    std::vector<int> found;
    const float* data = batch.job->base_data(0);
    for (std::size_t r = 0; r < batch.job->base(0).rows.size(); ++r, data += kCells) {
      const int row = static_cast<int>(data[0]) / 100;
      for (int c = 0; c < kCells; ++c) EXPECT_EQ(data[c], static_cast<float>(100 * row + c));
      found.push_back(row);
    }
    return found;
  }
  static std::vector<int> next(BatchStream& stream) {
    EXPECT_TRUE(stream.wait(kLong));
    return rows_in(stream.take());
  }
  static std::string error_of_next(BatchStream& stream) {
    try {
      next(stream);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "got a batch, expected an error";
    return {};
  }

  std::shared_ptr<zarr::MemoryStore> memory = std::make_shared<zarr::MemoryStore>("rows.zarr");
  std::shared_ptr<GatedStore> store = std::make_shared<GatedStore>(memory);
  std::shared_ptr<const plan::FieldSet> fields =
      plain_fields({row_array(store, "thetao", kRows, kNy, kNx)});
};

}  // namespace niskin::loader::testing
