// The read plan of a batch: every chunk it needs exactly once, and where each plane of it goes.
//
// A pure value: no I/O, no clock; the same inputs give the same plan. Tasks are ordered by chunk of
// rows, then by array, so that neighbouring rows are read one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "niskin/plan/fields.h"

namespace niskin::plan {

// One plane of a chunk and the slot that wants it.
struct Placement {
  std::uint32_t base = 0;     // which base of the batch
  std::uint32_t row = 0;      // row of the base
  std::uint32_t channel = 0;  // channel of the base
  std::uint32_t row_in_chunk = 0;
  std::uint32_t level_in_chunk = 0;
  bool first_use = true;  // false where the same plane went to this base and channel already
};

// One chunk, with its chunk indices by axis.
struct ChunkTask {
  std::uint32_t base = 0;   // the base and ...
  std::uint32_t array = 0;  // ... its array that describe the chunk
  std::int64_t row_chunk = 0, level_chunk = 0, y_chunk = 0, x_chunk = 0;
  std::uint32_t first_placement = 0, end_placement = 0;  // in ReadPlan::placements
};

// A slot that is the fill value whatever the store holds: its channel has no wet cell.
struct DrySlot {
  std::uint32_t base = 0, row = 0, channel = 0;
};

// What a base needs: the rows of the store, one for each row of the base.
struct BaseRequest {
  std::shared_ptr<const FieldSet> fields;
  std::vector<std::int64_t> rows;
};

struct ReadPlan {
  std::vector<ChunkTask> tasks;
  std::vector<Placement> placements;
  std::vector<DrySlot> dry;

  std::span<const Placement> placements_of(const ChunkTask& task) const {
    return std::span(placements)
        .subspan(task.first_placement, task.end_placement - task.first_placement);
  }
};

// Throws UsageError for a row outside its store. `plan` is emptied and reused.
void make_read_plan(std::span<const BaseRequest> bases, ReadPlan& plan);

}  // namespace niskin::plan
