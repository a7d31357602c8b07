#include "niskin/plan/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "niskin/base/error.h"

namespace niskin::plan {
namespace {

Axes find_axes(const zarr::ArrayMeta& meta) {
  const auto& names = meta.dimension_names;
  const auto is_y = [&](std::size_t d) { return names[d] == "lat" || names[d] == "y"; };
  const auto is_x = [&](std::size_t d) { return names[d] == "lon" || names[d] == "x"; };
  if (names.size() == 3 && names[0] == "time" && is_y(1) && is_x(2)) return {0, -1, 1, 2};
  if (names.size() == 4 && is_y(2) && is_x(3)) {
    if (names[0] == "time" && names[1] == "lev") return {0, 1, 2, 3};
    if (names[0] == "lev" && names[1] == "time") return {1, 0, 2, 3};
  }
  throw format_error(
      names.empty()
          ? std::string("got dimensions without names, expected (time, lat/y, lon/x)")
          : fmt::format(
                "got dimensions ({}), expected (time, lat/y, lon/x), with lev before or after "
                "time for arrays with levels",
                fmt::join(names, ", ")));
}

// Elements between neighbours along each dimension of a chunk as it is stored.
Shape chunk_strides(const zarr::ArrayMeta& meta) {
  const std::size_t rank = meta.chunk_shape.size();
  Shape strides(rank);
  std::int64_t stride = 1;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t d = meta.order == zarr::MemoryOrder::kC ? rank - 1 - k : k;
    strides[d] = stride;
    stride *= meta.chunk_shape[d];
  }
  return strides;
}

void check_type(const zarr::ArrayMeta& meta) {
  if (meta.dtype.kind != TypeKind::kFloat || meta.dtype.size_bytes != 4) {
    throw format_error(
        fmt::format("got dtype {}, expected float32 (<f4 or >f4)", meta.dtype.name()));
  }
  if (meta.scaled) {
    throw format_error("got scale_factor or add_offset, expected float32 that is not packed");
  }
}

}  // namespace

Shape FieldArray::chunk_index(std::int64_t row, std::int64_t level, std::int64_t y,
                              std::int64_t x) const {
  Shape index(axes.level < 0 ? 3 : 4);
  index[static_cast<std::size_t>(axes.time)] = row;
  if (axes.level >= 0) index[static_cast<std::size_t>(axes.level)] = level;
  index[static_cast<std::size_t>(axes.y)] = y;
  index[static_cast<std::size_t>(axes.x)] = x;
  return index;
}

FieldArray make_field_array(std::shared_ptr<const zarr::Array> array) {
  const zarr::ArrayMeta& meta = array->meta();
  const Place place{.store = array->store().name(), .array = meta.name};
  try {
    check_type(meta);
    FieldArray field;
    field.axes = find_axes(meta);
    const Shape strides = chunk_strides(meta);
    const auto read = [&](int axis, std::int64_t& extent, std::int64_t& chunk,
                          std::int64_t& stride) {
      if (axis < 0) return;
      const auto d = static_cast<std::size_t>(axis);
      extent = meta.shape[d];
      chunk = meta.chunk_shape[d];
      stride = strides[d];
    };
    read(field.axes.time, field.rows, field.chunk_rows, field.row_stride);
    read(field.axes.level, field.levels, field.chunk_levels, field.level_stride);
    read(field.axes.y, field.ny, field.chunk_ny, field.y_stride);
    read(field.axes.x, field.nx, field.chunk_nx, field.x_stride);
    if (element_count(meta.shape) == 0) {
      throw format_error(
          fmt::format("got shape {}, expected no zero-sized extent", to_string(meta.shape)));
    }
    field.array = std::move(array);
    return field;
  } catch (const Error& error) {
    throw error.at(place);
  }
}

FieldSet::FieldSet(std::vector<FieldArray> arrays, std::vector<Field> fields,
                   std::vector<Mask> masks, Policy policy)
    : arrays_(std::move(arrays)),
      fields_(std::move(fields)),
      masks_(std::move(masks)),
      policy_(policy) {
  if (fields_.empty() || arrays_.empty())
    throw usage_error("fields: got none, expected at least one channel");
  for (const FieldArray& field : arrays_) {
    if (field.rows != rows() || field.ny != ny() || field.nx != nx()) {
      throw format_error(
          fmt::format("got {} rows of {} x {} cells, expected {} rows of {} x {} as in {}",
                      field.rows, field.ny, field.nx, rows(), ny(), nx(),
                      arrays_.front().array->meta().name))
          .at({.store = field.array->store().name(), .array = field.array->meta().name});
    }
  }
  for (const Mask& mask : masks_) {
    if (mask.ny() != ny() || mask.nx() != nx()) {
      throw format_error(fmt::format("mask: got {} x {} cells, expected {} x {}", mask.ny(),
                                     mask.nx(), ny(), nx()));
    }
  }
  for (const Field& field : fields_) {
    if (field.array >= arrays_.size() || field.mask >= masks_.size()) {
      throw usage_error(
          fmt::format("channel {}: got array {} and mask {}, expected below {} and {}",
                      field.channel, field.array, field.mask, arrays_.size(), masks_.size()));
    }
    const FieldArray& array = arrays_[field.array];
    const bool has_levels = array.axes.level >= 0;
    if (has_levels ? field.level < 0 || field.level >= array.levels : field.level != -1) {
      throw format_error(
          fmt::format("channel {} selects level {}, but {} has {}", field.channel, field.level,
                      array.array->meta().name,
                      has_levels ? fmt::format("{} levels", array.levels) : "no levels"));
    }
  }
}

}  // namespace niskin::plan
