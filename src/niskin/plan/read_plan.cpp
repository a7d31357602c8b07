#include "niskin/plan/read_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "niskin/base/error.h"

namespace niskin::plan {
namespace {

// A wanted plane before planes of one chunk are brought together.
struct Wanted {
  std::int64_t row_chunk;
  const zarr::Array* identity;  // bases may share an array
  std::uint32_t
      array_rank;  // first-seen number of `identity`: an order that does not depend on addresses
  std::int64_t level_chunk;
  std::uint32_t array;
  Placement placement;

  auto key() const {
    return std::tuple(row_chunk, array_rank, level_chunk, placement.row_in_chunk,
                      placement.level_in_chunk, placement.base, placement.channel, placement.row);
  }
  bool same_chunk(const Wanted& other) const {
    return row_chunk == other.row_chunk && array_rank == other.array_rank &&
           level_chunk == other.level_chunk;
  }
  bool same_plane(const Wanted& other) const {
    return same_chunk(other) && placement.row_in_chunk == other.placement.row_in_chunk &&
           placement.level_in_chunk == other.placement.level_in_chunk &&
           placement.base == other.placement.base && placement.channel == other.placement.channel;
  }
};

class ArrayRanks {
 public:
  std::uint32_t of(const zarr::Array* array) {
    const auto rank =
        static_cast<std::uint32_t>(std::find(seen_.begin(), seen_.end(), array) - seen_.begin());
    if (rank == seen_.size()) seen_.push_back(array);
    return rank;
  }

 private:
  std::vector<const zarr::Array*> seen_;
};

void check_rows(const BaseRequest& base) {
  for (const std::int64_t row : base.rows) {
    if (row < 0 || row >= base.fields->rows()) {
      throw usage_error(
          fmt::format("row {} is out of bounds for {} rows", row, base.fields->rows()))
          .at({.store = base.fields->arrays().front().array->store().name()});
    }
  }
}

void collect(std::uint32_t number, const BaseRequest& base, ArrayRanks& ranks,
             std::vector<Wanted>& wanted, std::vector<DrySlot>& dry) {
  const FieldSet& fields = *base.fields;
  std::vector<std::uint32_t> rank_of(fields.arrays().size());
  for (std::size_t k = 0; k < rank_of.size(); ++k)
    rank_of[k] = ranks.of(fields.arrays()[k].array.get());
  for (std::uint32_t channel = 0; channel < fields.fields().size(); ++channel) {
    const Field& field = fields.fields()[channel];
    const FieldArray& array = fields.arrays()[field.array];
    const bool is_dry = !fields.mask_of(channel).any_wet();
    const std::int64_t level = std::max<std::int64_t>(field.level, 0);
    for (std::uint32_t row = 0; row < base.rows.size(); ++row) {
      if (is_dry) {
        dry.push_back({number, row, channel});
        continue;
      }
      const std::int64_t at = base.rows[row];
      wanted.push_back(
          {.row_chunk = at / array.chunk_rows,
           .identity = array.array.get(),
           .array_rank = rank_of[field.array],
           .level_chunk = level / array.chunk_levels,
           .array = field.array,
           .placement = {
               .base = number,
               .row = row,
               .channel = channel,
               .row_in_chunk = static_cast<std::uint32_t>(at % array.chunk_rows),
               .level_in_chunk = static_cast<std::uint32_t>(level % array.chunk_levels)}});
    }
  }
}

void add_tasks(const FieldArray& array, const Wanted& head, std::uint32_t first, std::uint32_t end,
               std::vector<ChunkTask>& tasks) {
  for (std::int64_t y = 0; y * array.chunk_ny < array.ny; ++y) {
    for (std::int64_t x = 0; x * array.chunk_nx < array.nx; ++x) {
      tasks.push_back(
          {head.placement.base, head.array, head.row_chunk, head.level_chunk, y, x, first, end});
    }
  }
}

}  // namespace

void make_read_plan(std::span<const BaseRequest> bases, ReadPlan& plan) {
  plan.tasks.clear();
  plan.placements.clear();
  plan.dry.clear();
  ArrayRanks ranks;
  std::vector<Wanted> wanted;
  for (std::uint32_t number = 0; number < bases.size(); ++number) {
    check_rows(bases[number]);
    collect(number, bases[number], ranks, wanted, plan.dry);
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const Wanted& a, const Wanted& b) { return a.key() < b.key(); });
  for (std::size_t begin = 0; begin < wanted.size();) {
    const auto first = static_cast<std::uint32_t>(plan.placements.size());
    std::size_t end = begin;
    for (; end < wanted.size() && wanted[end].same_chunk(wanted[begin]); ++end) {
      plan.placements.push_back(wanted[end].placement);
      plan.placements.back().first_use = end == begin || !wanted[end].same_plane(wanted[end - 1]);
    }
    const Wanted& head = wanted[begin];
    add_tasks(bases[head.placement.base].fields->arrays()[head.array], head, first,
              static_cast<std::uint32_t>(plan.placements.size()), plan.tasks);
    begin = end;
  }
}

}  // namespace niskin::plan
