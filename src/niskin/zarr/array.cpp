#include "niskin/zarr/array.h"

#include <fmt/format.h>

#include <algorithm>

#include "niskin/zarr/elements.h"

namespace niskin::zarr {
namespace {

std::string type_name(const DType& type) {
  const char* kind = "float";
  if (type.kind == TypeKind::kBool) return "bool";
  if (type.kind == TypeKind::kInt) kind = "int";
  if (type.kind == TypeKind::kUint) kind = "uint";
  return fmt::format("{}{}{}", kind, type.size_bytes * 8, type.big_endian ? " big-endian" : "");
}

std::string described(const ArrayMeta& meta) {
  return fmt::format("{}, {}", type_name(meta.dtype), to_string(meta.chunk_shape));
}

// Elements from one index of a dimension to the next, in the order in which a chunk is stored.
Shape strides_of(const Shape& shape, MemoryOrder order) {
  Shape strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t d = order == MemoryOrder::kC ? shape.size() - 1 - i : i;
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

// Copies the part of a decoded chunk that lies in the array (`box`) to its place in the whole
// array.
void scatter(const ArrayMeta& meta, const Box& box, const std::byte* chunk, ConvertElements convert,
             double* out) {
  if (meta.shape.empty()) return convert(chunk, 0, 1, out);
  const std::size_t rank = meta.shape.size();
  const Shape from = strides_of(meta.chunk_shape, meta.order);
  const Shape to = strides_of(meta.shape, MemoryOrder::kC);
  const Shape extent = box.extent();
  const std::size_t element_bytes = meta.dtype.size_bytes;
  Shape index(rank, 0);  // within the chunk; the last dimension is converted in one go
  for (;;) {
    std::int64_t source = 0;
    std::int64_t target = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      source += index[d] * from[d];
      target += (box.begin[d] + index[d]) * to[d];
    }
    convert(chunk + static_cast<std::size_t>(source) * element_bytes,
            static_cast<std::size_t>(from[rank - 1]) * element_bytes,
            static_cast<std::size_t>(extent[rank - 1]), out + target);
    std::size_t d = rank - 1;
    while (d > 0 && index[d - 1] + 1 == extent[d - 1]) {
      index[d - 1] = 0;
      --d;
    }
    if (d == 0) return;
    ++index[d - 1];
  }
}

// Whether `name` is `count` runs of digits with dots between them.
bool is_dotted_key(std::string_view name, std::size_t count) {
  std::size_t numbers = 1;
  bool digit_before = false;
  for (const char c : name) {
    if (c >= '0' && c <= '9') {
      digit_before = true;
    } else if (c == '.' && digit_before) {
      ++numbers;
      digit_before = false;
    } else {
      return false;
    }
  }
  return digit_before && numbers == count;
}

// The first name at `depth` levels of numbers below `prefix`, as "0/0"; empty if there is none.
std::string first_nested_key(const Store& store, const std::string& prefix, std::size_t depth) {
  std::vector<std::string> names = store.list(prefix);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (!is_dotted_key(name, 1)) continue;
    if (depth == 1) return name;
    const std::string rest =
        first_nested_key(store, prefix.empty() ? name : prefix + "/" + name, depth - 1);
    if (!rest.empty()) return name + "/" + rest;
  }
  return {};
}

std::string first_dotted_key(const Store& store, const std::string& prefix, std::size_t rank) {
  std::string first;
  for (const std::string& name : store.list(prefix)) {
    if (is_dotted_key(name, rank) && (first.empty() || name < first)) first = name;
  }
  return first;
}

}  // namespace

Array::Array(std::shared_ptr<const Store> store, ArrayMeta meta)
    : store_(std::move(store)), meta_(std::move(meta)), grid_(meta_.shape, meta_.chunk_shape) {}

std::string Array::value_key(const Shape& chunk) const {
  const std::string key = meta_.key_encoding.key(chunk);
  return meta_.name.empty() ? key : meta_.name + "/" + key;
}

Place Array::place(const Shape& chunk) const {
  return {.store = store_->name(), .array = meta_.name, .chunk_key = meta_.key_encoding.key(chunk)};
}

std::unique_ptr<Value> Array::open_chunk(const Shape& chunk) const {
  std::unique_ptr<Value> value;
  try {
    value = store_->open(value_key(chunk));
  } catch (const Error& error) {
    throw error.at(place(chunk));
  }
  if (!value) return nullptr;
  const std::uint64_t got_bytes = value->size_bytes();
  if (!meta_.codec && got_bytes != meta_.chunk_bytes()) {
    const bool is_short = got_bytes < meta_.chunk_bytes();
    throw decode_error(fmt::format("got {} bytes, expected {} ({})", got_bytes, meta_.chunk_bytes(),
                                   described(meta_)),
                       is_short
                           ? "the file looks truncated, or the chunk was stored without its padding"
                           : "the chunk was written with another shape or type")
        .at(place(chunk));
  }
  if (meta_.codec && got_bytes == 0) {
    throw decode_error(fmt::format("got 0 bytes, expected a chunk in {} ({})", meta_.codec->name(),
                                   described(meta_)),
                       "the file was created but never written")
        .at(place(chunk));
  }
  if (meta_.codec && got_bytes > meta_.codec->max_encoded_bytes(meta_.chunk_bytes())) {
    throw decode_error(fmt::format("got {} bytes, expected at most {} in {} ({})", got_bytes,
                                   meta_.codec->max_encoded_bytes(meta_.chunk_bytes()),
                                   meta_.codec->name(), described(meta_)))
        .at(place(chunk));
  }
  return value;
}

void Array::decode_pieces(const Shape& chunk, std::span<const std::byte> encoded,
                          std::span<const ElementRange> wanted, DecodeScratch& scratch,
                          PieceSink& sink) const {
  try {
    meta_.codec->decode_pieces(encoded, meta_.chunk_bytes(), meta_.dtype.size_bytes, wanted,
                               scratch, sink);
  } catch (const Error& error) {
    throw error.at(place(chunk));
  }
}

std::optional<Error> Array::key_form_conflict() const {
  const std::size_t rank = meta_.shape.size();
  if (rank < 2) return std::nullopt;  // both forms are the same
  const std::string dotted = first_dotted_key(*store_, meta_.name, rank);
  const std::string nested = first_nested_key(*store_, meta_.name, rank);
  const bool declared_dotted = meta_.key_encoding.separator == '.';
  const std::string& own = declared_dotted ? dotted : nested;
  const std::string& other = declared_dotted ? nested : dotted;
  if (!own.empty() || other.empty()) return std::nullopt;
  return format_error(
             fmt::format(
                 "chunks are stored as \"{}\", expected \"{}\" as dimension_separator \"{}\" says",
                 other, meta_.key_encoding.key(Shape(rank, 0)), meta_.key_encoding.separator),
             fmt::format("set \"dimension_separator\": \"{}\" in .zarray (and in .zmetadata)",
                         declared_dotted ? '/' : '.'))
      .at({.store = store_->name(), .array = meta_.name});
}

std::vector<double> Array::read_all() const {
  std::vector<double> out(static_cast<std::size_t>(element_count(meta_.shape)), meta_.fill_value);
  if (out.empty()) return out;
  const ConvertElements convert = converter_to_float64(meta_.dtype);
  DecodeScratch scratch;
  std::vector<std::byte> encoded;
  for (const Shape& chunk : grid_.chunks_in({Shape(meta_.shape.size(), 0), meta_.shape})) {
    const auto value = open_chunk(chunk);
    if (!value) continue;
    encoded.resize(value->size_bytes());
    try {
      if (const std::size_t got_bytes = value->read(0, encoded, ReadMode::kWait);
          got_bytes != encoded.size()) {
        throw store_error(fmt::format("got {} bytes, expected {}", got_bytes, encoded.size()),
                          "the file became shorter while it was read");
      }
      std::span<const std::byte> elements = encoded;
      if (meta_.codec) {
        const auto decoded = scratch.decoded(meta_.chunk_bytes());
        meta_.codec->decode(encoded, decoded, scratch);
        elements = decoded;
      }
      scatter(meta_, grid_.chunk_box(chunk), elements.data(), convert, out.data());
    } catch (const Error& error) {
      throw error.at(place(chunk));
    }
  }
  return out;
}

}  // namespace niskin::zarr
