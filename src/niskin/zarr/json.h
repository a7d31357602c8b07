// JSON as Zarr writers write it: bare NaN, Infinity and -Infinity, a byte order mark, overflowing
// numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace niskin::zarr {

// Parses `text`. Bare NaN and infinities, also -Infinity, and numbers beyond float64 become the
// strings "NaN", "Infinity" and "-Infinity", which format 2 and 3 define for fill values. Duplicate
// keys keep the last value. Throws FormatError with the line and column; nesting deeper than 500 is
// an error.
nlohmann::json parse_json(std::string_view text);

}  // namespace niskin::zarr
