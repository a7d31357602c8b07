// For tests of the plan: arrays that exist as metadata only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "niskin/plan/fields.h"
#include "niskin/zarr/stores/memory.h"

namespace niskin::plan::testing {

struct ArrayOptions {
  std::string name = "thetao_0";
  std::string shape = "10, 4, 6";
  std::string chunks = "1, 4, 6";
  std::string dimensions = R"("time", "lat", "lon")";
  std::string dtype = "<f4";
  std::string order = "C";
  std::string attributes = {};  // more of them, each with a comma before it
};

inline std::shared_ptr<const zarr::Array> array(const ArrayOptions& o = {}) {
  const std::string zarray =
      R"({"zarr_format": 2, "filters": null, "compressor": null, "fill_value": "NaN", "order": ")" +
      o.order + R"(", "dtype": ")" + o.dtype + R"(", "shape": [)" + o.shape + R"(], "chunks": [)" +
      o.chunks + "]}";
  const std::string zattrs =
      o.dimensions.empty() ? std::string()
                           : R"({"_ARRAY_DIMENSIONS": [)" + o.dimensions + "]" + o.attributes + "}";
  return std::make_shared<const zarr::Array>(std::make_shared<zarr::MemoryStore>("plan.zarr"),
                                             zarr::parse_array_v2(o.name, zarray, zattrs));
}

// "thetao(time, lev, lat, lon)" of 3 levels.
inline ArrayOptions with_levels(std::string chunks = "1, 3, 4, 6") {
  return {.name = "thetao",
          .shape = "10, 3, 4, 6",
          .chunks = std::move(chunks),
          .dimensions = R"("time", "lev", "lat", "lon")"};
}

inline Mask wet_everywhere(std::int64_t ny = 4, std::int64_t nx = 6) {
  return {ny, nx, std::vector<std::uint8_t>(static_cast<std::size_t>(ny * nx), 1)};
}
inline Mask dry_everywhere(std::int64_t ny = 4, std::int64_t nx = 6) {
  return {ny, nx, std::vector<std::uint8_t>(static_cast<std::size_t>(ny * nx), 0)};
}

// `fields` over `arrays`; mask 0 is wet everywhere, mask 1 dry.
inline std::shared_ptr<const FieldSet> field_set(
    const std::vector<std::shared_ptr<const zarr::Array>>& arrays, std::vector<Field> fields) {
  std::vector<FieldArray> field_arrays;
  for (const auto& one : arrays) field_arrays.push_back(make_field_array(one));
  const auto ny = field_arrays.front().ny, nx = field_arrays.front().nx;
  return std::make_shared<const FieldSet>(
      std::move(field_arrays), std::move(fields),
      std::vector<Mask>{wet_everywhere(ny, nx), dry_everywhere(ny, nx)}, Policy{});
}

}  // namespace niskin::plan::testing
