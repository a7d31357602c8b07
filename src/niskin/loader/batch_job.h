// One batch in the making: what it needs, where it goes and what came of it.
//
// Made by BatchStream, filled by the workers of a Pool. The parts above `state` are constant while
// workers run; `state` belongs to the pool's mutex until the job is done.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "niskin/base/error.h"
#include "niskin/loader/slab.h"
#include "niskin/plan/read_plan.h"

namespace niskin::loader {

// What a batch cost. Seconds are summed over threads.
struct WorkCounts {
  std::uint64_t reads = 0;          // ranges read
  std::uint64_t bytes_read = 0;     // stored bytes
  std::uint64_t decodes = 0;        // chunks decoded (uncompressed ones are not)
  std::uint64_t chunks = 0;         // chunks visited
  std::uint64_t absent_chunks = 0;  // of these, absent
  double read_s = 0;                // reading, the page cache included
  double decode_s = 0;              // decoding and preparing
  double token_wait_s = 0;          // waiting for a turn to decode

  WorkCounts& operator+=(const WorkCounts& other);
};

// NaN or infinity in wet cells of a channel of one batch. A plane that several bases of the same
// fields want counts once, for the first of them.
struct BadValue {
  std::uint32_t base = 0;
  std::uint32_t channel = 0;
  std::uint64_t count = 0;
  std::int64_t first_row = 0;         // of the store
  std::uint64_t first_row_count = 0;  // of `count`, those in that row
  std::int64_t first_cell = 0;        // of that row, C order

  // Takes those of another part of the same base and channel in.
  void add(const BadValue& other);
};

// Absent chunks of an array in which a needed cell is wet.
struct MissingChunk {
  std::string store;
  std::string array;
  std::string first_key;       // of the earliest task
  std::size_t first_task = 0;  // its number in the plan
  std::uint64_t count = 0;
};

class BatchJob {
 public:
  // Plans the reads. Throws UsageError for a row outside its store.
  explicit BatchJob(std::vector<plan::BaseRequest> bases);

  // Takes the memory of the batch, once, before its first task runs: as late as can be, so that the
  // slab of a batch that the user has just let go of serves the next one.
  void take_slab(SlabPool& slabs);
  std::uint64_t slab_bytes() const noexcept { return slab_bytes_; }

  std::size_t base_count() const noexcept { return bases_.size(); }
  const plan::BaseRequest& base(std::size_t number) const { return bases_[number]; }
  const plan::FieldSet& fields(std::uint32_t base) const { return *bases_[base].fields; }
  const plan::ReadPlan& plan() const noexcept { return plan_; }
  // Memory of a base: float32 (rows, channels, ny, nx), 64-byte aligned.
  float* base_data(std::size_t number) const noexcept;
  float* slot(std::uint32_t base, std::uint32_t row, std::uint32_t channel) const noexcept;
  const std::shared_ptr<Slab>& slab() const noexcept { return slab_; }
  // Slots of channels without a wet cell become their fill value.
  void fill_dry() const noexcept;

  static std::uint64_t slab_bytes(const std::vector<plan::BaseRequest>& bases);

  struct State {
    std::size_t next_task = 0;  // tasks before it have been handed to workers
    std::size_t running = 0;
    bool cancelled = false;
    WorkCounts work;
    std::map<std::pair<std::uint32_t, std::uint32_t>, BadValue> bad;      // by base and channel
    std::map<std::pair<std::string, std::string>, MissingChunk> missing;  // by store and array
    std::exception_ptr error;  // of the earliest task that failed
    std::size_t error_task = 0;
  };
  State state;
  bool done() const { return state.running == 0 && state.next_task >= plan_.tasks.size(); }
  void stop_early() { state.next_task = plan_.tasks.size(); }

 private:
  std::vector<plan::BaseRequest> bases_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t slab_bytes_ = 0;
  plan::ReadPlan plan_;
  std::shared_ptr<Slab> slab_;
};

}  // namespace niskin::loader
