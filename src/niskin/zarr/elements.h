// Stored elements of any numeric type as float64. Private to the module.
#pragma once

#include <cstddef>
#include <cstdint>

#include "niskin/base/dtype.h"

namespace niskin::zarr {

// Converts `count` elements that lie `stride_bytes` apart, from `from` on, into out[0], out[1], …
// 64-bit integers beyond 2^53 round to the nearest float64.
using ConvertElements = void (*)(const std::byte* from, std::size_t stride_bytes, std::size_t count,
                                 double* out);

ConvertElements converter_to_float64(const DType& type);

}  // namespace niskin::zarr
