// Little-endian integers at any address. Private to the codecs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace niskin::zarr {

inline std::uint32_t load_le32(const std::byte* at) noexcept {
  return std::to_integer<std::uint32_t>(at[0]) | std::to_integer<std::uint32_t>(at[1]) << 8 |
         std::to_integer<std::uint32_t>(at[2]) << 16 | std::to_integer<std::uint32_t>(at[3]) << 24;
}

}  // namespace niskin::zarr
