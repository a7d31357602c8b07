// Fields: which plane of which array each channel is, and how its numbers are prepared.
//
// A FieldSet is what one base of a batch holds in its channel axis. Immutable once made, safe to
// share between threads; knows nothing of oceans: a channel is a name for messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "niskin/plan/mask.h"
#include "niskin/zarr/array.h"

namespace niskin::plan {

enum class MissingChunks { kError, kWarn, kFill };
enum class BadValues { kError, kWarn, kIgnore };

// Where the axes of an array are. `level` is -1 for arrays without one.
struct Axes {
  int time = 0;
  int level = -1;
  int y = 1;
  int x = 2;
};

// An array with what the plan needs of its geometry, in terms of its axes rather than of its
// dimensions. Strides count elements inside a chunk as it is stored.
struct FieldArray {
  std::shared_ptr<const zarr::Array> array;
  Axes axes;
  std::int64_t rows = 0, levels = 1, ny = 0, nx = 0;
  std::int64_t chunk_rows = 1, chunk_levels = 1, chunk_ny = 0, chunk_nx = 0;
  std::int64_t row_stride = 0, level_stride = 0, y_stride = 0, x_stride = 0;

  // The chunk at these chunk indices, in the order of the array's dimensions.
  Shape chunk_index(std::int64_t row, std::int64_t level, std::int64_t y, std::int64_t x) const;
  // Whether a plane's part of a chunk is one run of elements, row after row.
  bool planes_are_contiguous() const noexcept { return x_stride == 1 && y_stride == chunk_nx; }
};

// Dimensions must be named time, then lat or y, then lon or x, with lev before or after time where
// there is a level axis; values must be unpacked float32. Throws FormatError naming the array.
FieldArray make_field_array(std::shared_ptr<const zarr::Array> array);

struct Field {
  std::string channel;
  std::uint32_t array = 0;  // in FieldSet::arrays
  std::int64_t level = -1;  // position on the level axis, -1 for arrays without one
  std::uint32_t mask = 0;   // in FieldSet::masks
  float mean = 0;
  float std = 1;
};

struct Policy {
  MissingChunks missing_chunks = MissingChunks::kError;
  BadValues bad_values = BadValues::kWarn;
  bool normalize_before_mask = true;
  float masked_fill_value = 0;
};

// All owners share one count, those of the bindings too: the last to let go may be a worker, which
// must not run code of another language.
class FieldSet : public std::enable_shared_from_this<FieldSet> {
 public:
  // Throws UsageError for no field or an index out of range, FormatError for a level outside its
  // array and for arrays or masks that differ in rows, ny or nx.
  FieldSet(std::vector<FieldArray> arrays, std::vector<Field> fields, std::vector<Mask> masks,
           Policy policy);

  const std::vector<FieldArray>& arrays() const noexcept { return arrays_; }
  const std::vector<Field>& fields() const noexcept { return fields_; }
  const Mask& mask_of(std::uint32_t channel) const { return masks_[fields_[channel].mask]; }
  const Policy& policy() const noexcept { return policy_; }
  std::int64_t rows() const noexcept { return arrays_.front().rows; }
  std::int64_t ny() const noexcept { return arrays_.front().ny; }
  std::int64_t nx() const noexcept { return arrays_.front().nx; }
  std::int64_t plane_cells() const noexcept { return ny() * nx(); }
  std::uint64_t row_bytes() const noexcept {
    return static_cast<std::uint64_t>(plane_cells()) * fields_.size() * sizeof(float);
  }

 private:
  std::vector<FieldArray> arrays_;
  std::vector<Field> fields_;
  std::vector<Mask> masks_;
  Policy policy_;
};

}  // namespace niskin::plan
