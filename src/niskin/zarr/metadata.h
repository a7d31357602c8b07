// What the metadata of an array says, whichever Zarr format it is written in.
//
// Immutable once parsed. Parsing refuses by name whatever cannot be read exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "niskin/base/box.h"
#include "niskin/base/dtype.h"
#include "niskin/zarr/codec.h"

namespace niskin::zarr {

// How a chunk's indices become its key below the array's own prefix.
struct ChunkKeyEncoding {
  char separator = '.';
  bool operator==(const ChunkKeyEncoding&) const = default;
  // "3.0.0"; "0" for rank 0.
  std::string key(std::span<const std::int64_t> chunk) const;
};

enum class MemoryOrder { kC, kF };

struct ArrayMeta {
  std::string name;  // path below the root of the store
  Shape shape;
  Shape chunk_shape;
  DType dtype;
  MemoryOrder order = MemoryOrder::kC;
  ChunkKeyEncoding key_encoding;
  std::shared_ptr<const Codec> codec;  // nullptr: stored uncompressed
  double fill_value = 0;               // of absent chunks; null in the metadata reads as 0
  bool has_fill_value = false;
  // Values other than NaN that mark missing data (attributes _FillValue and missing_value; a
  // non-zero fill_value of format 2), cast to float32, ascending. NaN marks missing data anyhow.
  std::vector<float> missing_markers;
  // The attributes scale_factor and add_offset ask for more than the identity.
  bool scaled = false;
  std::vector<std::string> dimension_names;  // empty if the array does not name them

  std::int64_t chunk_elements() const { return element_count(chunk_shape); }
  std::uint64_t chunk_bytes() const {
    return static_cast<std::uint64_t>(chunk_elements()) * dtype.size_bytes;
  }
};

// Parses `.zarray` and `.zattrs` (empty text: no attributes). Throws FormatError that names the
// array and the field: filters, structured or non-numeric types, unknown compressors and settings,
// ranks that differ, zero or negative extents, products that overflow.
ArrayMeta parse_array_v2(const std::string& name, std::string_view zarray, std::string_view zattrs);

}  // namespace niskin::zarr
