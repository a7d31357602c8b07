#include "niskin/base/dtype.h"

#include <fmt/format.h>

#include "niskin/base/error.h"

namespace niskin {
namespace {

char letter(TypeKind kind) {
  switch (kind) {
    case TypeKind::kBool:
      return 'b';
    case TypeKind::kInt:
      return 'i';
    case TypeKind::kUint:
      return 'u';
    case TypeKind::kFloat:
      break;
  }
  return 'f';
}

bool has_size(TypeKind kind, int size_bytes) {
  switch (kind) {
    case TypeKind::kBool:
      return size_bytes == 1;
    case TypeKind::kFloat:
      return size_bytes == 2 || size_bytes == 4 || size_bytes == 8;
    case TypeKind::kInt:
    case TypeKind::kUint:
      break;
  }
  return size_bytes == 1 || size_bytes == 2 || size_bytes == 4 || size_bytes == 8;
}

}  // namespace

std::string DType::name() const {
  const char order = size_bytes == 1 ? '|' : (big_endian ? '>' : '<');
  return fmt::format("{}{}{}", order, letter(kind), size_bytes);
}

DType parse_dtype_v2(std::string_view text) {
  const auto refuse = [text] {
    return format_error(
        fmt::format("dtype: got \"{}\", expected a byte order (<, > or |) and one of b1 i1 i2 i4 "
                    "i8 u1 u2 u4 u8 f2 f4 f8",
                    text));
  };
  if (text.size() != 3) throw refuse();
  DType type;
  switch (text[1]) {
    case 'b':
      type.kind = TypeKind::kBool;
      break;
    case 'i':
      type.kind = TypeKind::kInt;
      break;
    case 'u':
      type.kind = TypeKind::kUint;
      break;
    case 'f':
      type.kind = TypeKind::kFloat;
      break;
    default:
      throw refuse();
  }
  const int size_bytes = text[2] - '0';
  if (!has_size(type.kind, size_bytes)) throw refuse();
  type.size_bytes = static_cast<std::uint8_t>(size_bytes);
  const char order = text[0];
  if (order != '<' && order != '>' && !(order == '|' && size_bytes == 1)) throw refuse();
  type.big_endian = order == '>' && size_bytes > 1;
  return type;
}

}  // namespace niskin
