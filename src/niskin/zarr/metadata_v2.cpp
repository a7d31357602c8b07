#include "niskin/zarr/metadata_v2.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "niskin/base/error.h"
#include "niskin/zarr/codecs/codecs.h"
#include "niskin/zarr/json.h"

namespace niskin::zarr {
namespace {

using nlohmann::json;

// JSON on one line of a message, cut where it gets long.
std::string shown(const json& value) {
  constexpr std::size_t kMost = 80;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "…";
  return text;
}

Error wrong(std::string_view field, const json& got, std::string_view expected) {
  return format_error(fmt::format("{}: got {}, expected {}", field, shown(got), expected));
}

const json& required(const json& zarray, const char* field) {
  const auto found = zarray.find(field);
  if (found == zarray.end()) throw format_error(fmt::format(".zarray has no \"{}\"", field));
  return *found;
}

const json* optional_field(const json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Shape read_extents(const json& zarray, const char* field) {
  const json& value = required(zarray, field);
  if (!value.is_array()) throw wrong(field, value, "a list of integers");
  Shape extents;
  for (const json& extent : value) {
    const bool fits =
        extent.is_number_integer() &&
        !(extent.is_number_unsigned() &&
          extent.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()});
    if (!fits) throw wrong(field, value, "a list of integers below 2^63");
    extents.push_back(extent.get<std::int64_t>());
    if (extents.back() < 0) throw wrong(field, value, "extents that are not negative");
  }
  return extents;
}

void read_geometry(const json& zarray, ArrayMeta& meta) {
  meta.shape = read_extents(zarray, "shape");
  meta.chunk_shape = read_extents(zarray, "chunks");
  if (meta.shape.size() != meta.chunk_shape.size()) {
    throw format_error(
        fmt::format("chunks: got {} for shape {}, expected one extent for each dimension",
                    to_string(meta.chunk_shape), to_string(meta.shape)));
  }
  for (std::size_t d = 0; d < meta.shape.size(); ++d) {
    if (meta.chunk_shape[d] > 0) continue;
    // Some writers give an empty dimension empty chunks; there is none to read.
    if (meta.shape[d] != 0) {
      throw format_error(fmt::format("chunks: got {} for shape {}, expected extents of at least 1",
                                     to_string(meta.chunk_shape), to_string(meta.shape)));
    }
    meta.chunk_shape[d] = 1;
  }
  for (const Shape& shape : {meta.shape, meta.chunk_shape}) {
    if (element_count(shape) > std::numeric_limits<std::int64_t>::max() / meta.dtype.size_bytes) {
      throw format_error(fmt::format("shape {} of {}: got more than 2^63 - 1 bytes",
                                     to_string(shape), meta.dtype.name()));
    }
  }
}

// The numbers that format 2 writes as text: "NaN", "Infinity", "-Infinity", and what is merely
// quoted.
std::optional<double> number_in(const std::string& text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> number_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return number_in(value.get_ref<const std::string&>());
  return std::nullopt;
}

bool holds(const DType& type, double value) {
  switch (type.kind) {
    case TypeKind::kFloat:
      return true;
    case TypeKind::kBool:
      return value == 0 || value == 1;
    case TypeKind::kInt:
    case TypeKind::kUint:
      break;
  }
  const bool is_signed = type.kind == TypeKind::kInt;
  const double end = std::ldexp(1.0, type.size_bytes * 8 - (is_signed ? 1 : 0));
  // 2^63 and 2^64 are what the largest 64-bit values round to.
  const bool below_end = type.size_bytes == 8 ? value <= end : value < end;
  return value == std::floor(value) && value >= (is_signed ? -end : 0.0) && below_end;
}

void read_fill_value(const json& zarray, ArrayMeta& meta) {
  const json& value = required(zarray, "fill_value");
  if (value.is_null()) return;
  const std::optional<double> number = number_of(value);
  if (!number || !holds(meta.dtype, *number)) {
    throw wrong("fill_value", value, fmt::format("null or a value of {}", meta.dtype.name()));
  }
  meta.has_fill_value = true;
  const bool is_float32 = meta.dtype.kind == TypeKind::kFloat && meta.dtype.size_bytes == 4;
  meta.fill_value = is_float32 ? static_cast<double>(static_cast<float>(*number)) : *number;
}

std::shared_ptr<const Codec> read_compressor(const json& zarray) {
  const json& value = required(zarray, "compressor");
  if (value.is_null()) return nullptr;
  const json* const id = value.is_object() ? optional_field(value, "id") : nullptr;
  if (id == nullptr || !id->is_string())
    throw wrong("compressor", value, "null or an object with an \"id\"");
  const std::string& name = id->get_ref<const std::string&>();
  if (name == "zstd") return make_zstd_codec();
  if (name == "zlib") return make_zlib_codec();
  if (name == "gzip") return make_gzip_codec();
  if (name == "lz4") return make_lz4_codec();
  if (name == "blosc") {
    // shuffle, clevel and blocksize told the writer what to do; each chunk says what was done.
    const json* const inner = optional_field(value, "cname");
    if (inner == nullptr) return make_blosc_codec("lz4");
    if (!inner->is_string()) throw wrong("compressor cname", *inner, "a name");
    return make_blosc_codec(inner->get_ref<const std::string&>());
  }
  throw wrong("compressor id", *id, "one of blosc, zstd, zlib, gzip and lz4");
}

void refuse_filters(const json& zarray) {
  const json* const filters = optional_field(zarray, "filters");
  if (filters == nullptr || (filters->is_array() && filters->empty())) return;
  std::vector<std::string> ids;
  if (filters->is_array()) {
    for (const json& filter : *filters) {
      const json* const id = filter.is_object() ? optional_field(filter, "id") : nullptr;
      ids.push_back(id != nullptr && id->is_string() ? id->get<std::string>() : shown(filter));
    }
  }
  throw format_error(
      fmt::format("filters: got {}, expected none",
                  ids.empty() ? shown(*filters) : fmt::format("{}", fmt::join(ids, ", "))),
      "write the array again without filters");
}

char read_separator(const json& zarray) {
  const json* const value = optional_field(zarray, "dimension_separator");
  if (value == nullptr || *value == ".") return '.';
  if (*value == "/") return '/';
  throw wrong("dimension_separator", *value, "\".\" or \"/\"");
}

MemoryOrder read_order(const json& zarray) {
  const json& value = required(zarray, "order");
  if (value == "C") return MemoryOrder::kC;
  if (value == "F") return MemoryOrder::kF;
  throw wrong("order", value, "\"C\" or \"F\"");
}

void add_marker(double value, std::vector<float>& markers) {
  if (std::isnan(value)) return;
  const auto marker = static_cast<float>(value);
  // A finite value that float32 cannot hold is in no field.
  if (std::isinf(marker) && std::isfinite(value)) return;
  markers.push_back(marker);
}

void read_markers(const json& attributes, ArrayMeta& meta) {
  for (const char* field : {"_FillValue", "missing_value"}) {
    const json* const value = optional_field(attributes, field);
    if (value == nullptr) continue;
    const json list = value->is_array() ? *value : json::array({*value});
    for (const json& entry : list) {
      const std::optional<double> number = number_of(entry);
      if (!number)
        throw wrong(fmt::format("attribute {}", field), *value, "a number or a list of numbers");
      add_marker(*number, meta.missing_markers);
    }
  }
  if (meta.has_fill_value && meta.fill_value != 0)
    add_marker(meta.fill_value, meta.missing_markers);
  std::sort(meta.missing_markers.begin(), meta.missing_markers.end());
  meta.missing_markers.erase(std::unique(meta.missing_markers.begin(), meta.missing_markers.end()),
                             meta.missing_markers.end());
}

void read_dimension_names(const json& attributes, ArrayMeta& meta) {
  const json* const names = optional_field(attributes, "_ARRAY_DIMENSIONS");
  if (names == nullptr) return;
  const bool all_text =
      names->is_array() &&
      std::all_of(names->begin(), names->end(), [](const json& name) { return name.is_string(); });
  if (!all_text || names->size() != meta.shape.size()) {
    throw wrong("attribute _ARRAY_DIMENSIONS", *names, fmt::format("{} names", meta.shape.size()));
  }
  meta.dimension_names = names->get<std::vector<std::string>>();
}

void read_attributes(const json& attributes, ArrayMeta& meta) {
  if (!attributes.is_object() && !attributes.is_null())
    throw wrong(".zattrs", attributes, "an object");
  read_dimension_names(attributes, meta);
  read_markers(attributes, meta);
  const json* const scale = optional_field(attributes, "scale_factor");
  const json* const offset = optional_field(attributes, "add_offset");
  // What is no number is left to whoever refuses scaled arrays.
  meta.scaled = (scale != nullptr && number_of(*scale) != 1.0) ||
                (offset != nullptr && number_of(*offset) != 0.0);
}

ArrayMeta parse(const std::string& name, const json& zarray, const json& zattrs) {
  if (!zarray.is_object()) throw wrong(".zarray", zarray, "an object");
  const json& format = required(zarray, "zarr_format");
  if (format != 2) throw wrong("zarr_format", format, "2");
  ArrayMeta meta;
  meta.name = name;
  const json& dtype = required(zarray, "dtype");
  if (!dtype.is_string()) throw wrong("dtype", dtype, "one numeric type");
  meta.dtype = parse_dtype_v2(dtype.get_ref<const std::string&>());
  refuse_filters(zarray);
  read_geometry(zarray, meta);
  meta.order = read_order(zarray);
  meta.key_encoding.separator = read_separator(zarray);
  meta.codec = read_compressor(zarray);
  if (meta.codec && meta.chunk_bytes() > meta.codec->max_decoded_bytes()) {
    throw format_error(fmt::format(
        "chunks: got {} bytes in a chunk of {}, expected at most {}, the most that {} holds",
        meta.chunk_bytes(), to_string(meta.chunk_shape), meta.codec->max_decoded_bytes(),
        meta.codec->name()));
  }
  read_fill_value(zarray, meta);
  read_attributes(zattrs, meta);
  return meta;
}

}  // namespace

ArrayMeta parse_array_v2(const std::string& name, const json& zarray, const json& zattrs) {
  try {
    return parse(name, zarray, zattrs);
  } catch (const Error& error) {
    throw error.at({.array = name});
  }
}

ArrayMeta parse_array_v2(const std::string& name, std::string_view zarray,
                         std::string_view zattrs) {
  const auto read = [&name](const char* document, std::string_view text) {
    try {
      return parse_json(text);
    } catch (const Error& error) {
      throw format_error(fmt::format("{}: {}", document, error.what())).at({.array = name});
    }
  };
  return parse_array_v2(name, read(".zarray", zarray),
                        zattrs.empty() ? json() : read(".zattrs", zattrs));
}

}  // namespace niskin::zarr
