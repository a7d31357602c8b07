#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "niskin/base/error.h"
#include "niskin/plan/fields.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace niskin::bindings {
namespace {

using MaskArray = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
// channel, array, level (-1: none), mask, mean, std
using FieldRow = std::tuple<std::string, std::uint32_t, std::int64_t, std::uint32_t, float, float>;

template <typename Choice>
Choice choose(const char* option, const std::string& text,
              std::initializer_list<std::pair<const char*, Choice>> choices) {
  std::string known;
  for (const auto& [name, choice] : choices) {
    if (text == name) return choice;
    known += (known.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  throw usage_error(std::string(option) + ": got \"" + text + "\", expected one of " + known);
}

std::shared_ptr<plan::FieldSet> make_field_set(
    const std::vector<std::shared_ptr<const zarr::Array>>& arrays,
    const std::vector<FieldRow>& fields, const std::vector<MaskArray>& masks,
    const std::string& missing_chunks, const std::string& bad_values, bool normalize_before_mask,
    float masked_fill_value) {
  std::vector<plan::FieldArray> field_arrays;
  for (const auto& array : arrays) field_arrays.push_back(plan::make_field_array(array));
  std::vector<plan::Field> rows;
  for (const auto& [channel, array, level, mask, mean, std] : fields) {
    rows.push_back({.channel = channel,
                    .array = array,
                    .level = level,
                    .mask = mask,
                    .mean = mean,
                    .std = std});
  }
  std::vector<plan::Mask> planes;
  for (const auto& mask : masks) {
    planes.emplace_back(static_cast<std::int64_t>(mask.shape(0)),
                        static_cast<std::int64_t>(mask.shape(1)),
                        std::span(mask.data(), mask.size()));
  }
  const plan::Policy policy{
      .missing_chunks = choose<plan::MissingChunks>("missing_chunks", missing_chunks,
                                                    {{"error", plan::MissingChunks::kError},
                                                     {"warn", plan::MissingChunks::kWarn},
                                                     {"fill", plan::MissingChunks::kFill}}),
      .bad_values = choose<plan::BadValues>("bad_values", bad_values,
                                            {{"error", plan::BadValues::kError},
                                             {"warn", plan::BadValues::kWarn},
                                             {"ignore", plan::BadValues::kIgnore}}),
      .normalize_before_mask = normalize_before_mask,
      .masked_fill_value = masked_fill_value};
  return std::make_shared<plan::FieldSet>(std::move(field_arrays), std::move(rows),
                                          std::move(planes), policy);
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<plan::FieldSet>(m, "FieldSet",
                             "What a base holds along its channel axis, and how it is prepared.")
      .def(nb::new_(&make_field_set), "arrays"_a, "fields"_a, "masks"_a, nb::kw_only(),
           "missing_chunks"_a, "bad_values"_a, "normalize_before_mask"_a, "masked_fill_value"_a,
           "fields: (channel, array, level or -1, mask, mean, std); masks: uint8 (ny, nx), 0 is "
           "dry.")
      .def_prop_ro("rows", &plan::FieldSet::rows)
      .def_prop_ro("ny", &plan::FieldSet::ny)
      .def_prop_ro("nx", &plan::FieldSet::nx)
      .def_prop_ro("row_bytes", &plan::FieldSet::row_bytes);
}

}  // namespace niskin::bindings
