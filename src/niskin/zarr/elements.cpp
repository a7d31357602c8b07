#include "niskin/zarr/elements.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "niskin/base/error.h"

namespace niskin::zarr {
namespace {

struct Half {
  std::uint16_t bits;
};

double value_of(Half half) {
  const int exponent = half.bits >> 10 & 0x1f;
  const int fraction = half.bits & 0x3ff;
  const double sign = (half.bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0x1f) return fraction == 0 ? sign * HUGE_VAL : std::copysign(std::nan(""), sign);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 0x400, exponent - 25);
}

// Any stored byte that is not zero is true.
struct Flag {
  std::uint8_t byte;
};
double value_of(Flag flag) { return flag.byte != 0 ? 1.0 : 0.0; }

template <typename T>
double value_of(T number) {
  return static_cast<double>(number);
}

template <typename T, bool kSwap>
void convert(const std::byte* from, std::size_t stride_bytes, std::size_t count, double* out) {
  for (std::size_t i = 0; i < count; ++i, from += stride_bytes) {
    std::byte bytes[sizeof(T)];
    for (std::size_t k = 0; k < sizeof(T); ++k) bytes[k] = from[kSwap ? sizeof(T) - 1 - k : k];
    T element;
    std::memcpy(&element, bytes, sizeof(T));
    out[i] = value_of(element);
  }
}

template <typename T>
ConvertElements of(bool big_endian) {
  return big_endian == (std::endian::native == std::endian::big) ? &convert<T, false>
                                                                 : &convert<T, true>;
}

}  // namespace

ConvertElements converter_to_float64(const DType& type) {
  const bool big = type.big_endian;
  switch (type.kind) {
    case TypeKind::kBool:
      return of<Flag>(big);
    case TypeKind::kInt:
      switch (type.size_bytes) {
        case 1:
          return of<std::int8_t>(big);
        case 2:
          return of<std::int16_t>(big);
        case 4:
          return of<std::int32_t>(big);
        case 8:
          return of<std::int64_t>(big);
      }
      break;
    case TypeKind::kUint:
      switch (type.size_bytes) {
        case 1:
          return of<std::uint8_t>(big);
        case 2:
          return of<std::uint16_t>(big);
        case 4:
          return of<std::uint32_t>(big);
        case 8:
          return of<std::uint64_t>(big);
      }
      break;
    case TypeKind::kFloat:
      switch (type.size_bytes) {
        case 2:
          return of<Half>(big);
        case 4:
          return of<float>(big);
        case 8:
          return of<double>(big);
      }
      break;
  }
  throw format_error("dtype: got " + type.name() + ", expected a numeric type");
}

}  // namespace niskin::zarr
