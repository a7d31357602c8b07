#include "niskin/zarr/metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace niskin::zarr {

std::string ChunkKeyEncoding::key(std::span<const std::int64_t> chunk) const {
  if (chunk.empty()) return "0";
  return fmt::format("{}", fmt::join(chunk.begin(), chunk.end(), std::string_view(&separator, 1)));
}

}  // namespace niskin::zarr
