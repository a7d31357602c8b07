// Element types of arrays: kind, size in bytes and byte order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace niskin {

enum class TypeKind { kBool, kInt, kUint, kFloat };

struct DType {
  TypeKind kind = TypeKind::kFloat;
  std::uint8_t size_bytes = 4;
  bool big_endian = false;  // false for one-byte types

  bool operator==(const DType&) const = default;
  // The spelling of Zarr format 2, for example "<f4".
  std::string name() const;
};

// Reads "<f4", ">i2", "|b1" and their like. Throws FormatError naming the text for anything else
// (strings, objects, structures, dates).
DType parse_dtype_v2(std::string_view text);

}  // namespace niskin
