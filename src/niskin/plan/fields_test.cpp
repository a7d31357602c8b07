#include "niskin/plan/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "niskin/base/error.h"
#include "niskin/plan/array_testing.h"

namespace niskin::plan {
namespace {

using ::testing::AllOf;
using testing::array;
using testing::ArrayOptions;
using testing::field_set;
using ::testing::HasSubstr;
using testing::wet_everywhere;
using testing::with_levels;

std::string refusal(const std::function<void()>& call, ErrorKind kind = ErrorKind::kFormat) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "got no error";
  return {};
}

std::string refusal_of(const ArrayOptions& options) {
  return refusal([&] { make_field_array(array(options)); });
}

TEST(FieldArray, FindsAxesByNameInBothOrdersOfLevelAndTime) {
  const FieldArray flat = make_field_array(array());
  EXPECT_EQ(flat.axes.level, -1);
  EXPECT_EQ(flat.rows, 10);
  EXPECT_EQ(flat.levels, 1);
  EXPECT_EQ(flat.chunk_index(7, 0, 0, 0), (Shape{7, 0, 0}));

  const FieldArray time_first = make_field_array(array(with_levels()));
  EXPECT_EQ(time_first.rows, 10);
  EXPECT_EQ(time_first.levels, 3);
  EXPECT_EQ(time_first.chunk_index(7, 2, 1, 0), (Shape{7, 2, 1, 0}));
  EXPECT_EQ(time_first.level_stride, 24);
  EXPECT_EQ(time_first.row_stride, 72);

  const FieldArray level_first =
      make_field_array(array({.shape = "3, 10, 4, 6",
                              .chunks = "3, 2, 4, 6",
                              .dimensions = R"("lev", "time", "y", "x")"}));
  EXPECT_EQ(level_first.rows, 10);
  EXPECT_EQ(level_first.levels, 3);
  EXPECT_EQ(level_first.chunk_rows, 2);
  EXPECT_EQ(level_first.chunk_index(7, 2, 1, 0), (Shape{2, 7, 1, 0}));
  EXPECT_EQ(level_first.level_stride, 48);
  EXPECT_EQ(level_first.row_stride, 24);
  EXPECT_TRUE(level_first.planes_are_contiguous());
}

TEST(FieldArray, KnowsThatFortranOrderHasNoContiguousPlanes) {
  const FieldArray field = make_field_array(array({.chunks = "2, 4, 6", .order = "F"}));
  EXPECT_EQ(field.row_stride, 1);
  EXPECT_EQ(field.y_stride, 2);
  EXPECT_EQ(field.x_stride, 8);
  EXPECT_FALSE(field.planes_are_contiguous());
}

TEST(FieldArray, RefusesOtherDimensionsByName) {
  EXPECT_THAT(refusal_of({.dimensions = R"("time", "lon", "lat")"}),
              AllOf(HasSubstr("thetao_0"), HasSubstr("(time, lon, lat)"), HasSubstr("plan.zarr"),
                    HasSubstr("expected (time, lat/y, lon/x)")));
  EXPECT_THAT(refusal_of({.dimensions = R"("lat", "lon", "time")"}), HasSubstr("lat, lon, time"));
  EXPECT_THAT(refusal_of({.shape = "4, 6", .chunks = "4, 6", .dimensions = R"("lat", "lon")"}),
              HasSubstr("(lat, lon)"));
  EXPECT_THAT(refusal_of({.dimensions = ""}), HasSubstr("without names"));
  ArrayOptions depth = with_levels();
  depth.dimensions = R"("time", "depth", "lat", "lon")";
  EXPECT_THAT(refusal_of(depth), HasSubstr("depth"));
}

TEST(FieldArray, RefusesOtherTypesAndPackedNumbers) {
  EXPECT_THAT(refusal_of({.dtype = "<f8"}), AllOf(HasSubstr("<f8"), HasSubstr("expected float32")));
  EXPECT_THAT(refusal_of({.dtype = "<f2"}), HasSubstr("<f2"));
  EXPECT_THAT(refusal_of({.attributes = R"(, "scale_factor": 0.5)"}), HasSubstr("scale_factor"));
  EXPECT_EQ(make_field_array(array({.dtype = ">f4"})).rows, 10);
}

TEST(FieldArray, RefusesZeroExtents) {
  EXPECT_THAT(refusal_of({.shape = "0, 4, 6"}), HasSubstr("zero-sized extent"));
}

TEST(FieldSet, CountsTheBytesOfARow) {
  const auto set = field_set({array(with_levels())}, {{.channel = "thetao_2", .level = 2},
                                                      {.channel = "thetao_0", .level = 0}});
  EXPECT_EQ(set->rows(), 10);
  EXPECT_EQ(set->row_bytes(), 2U * 4 * 6 * sizeof(float));
}

TEST(FieldSet, RefusesLevelsThatTheArrayLacks) {
  const auto levels = [](std::int64_t level) {
    return refusal(
        [=] { field_set({array(with_levels())}, {{.channel = "thetao_9", .level = level}}); });
  };
  EXPECT_THAT(levels(3), AllOf(HasSubstr("thetao_9"), HasSubstr("level 3"), HasSubstr("3 levels")));
  EXPECT_THAT(levels(-1), HasSubstr("level -1"));
  EXPECT_THAT(refusal([] { field_set({array()}, {{.channel = "zos", .level = 0}}); }),
              HasSubstr("no levels"));
}

TEST(FieldSet, RefusesArraysAndMasksThatDiffer) {
  const auto other = [](const std::string& shape) {
    return refusal([&] {
      field_set({array(), array({.name = "so_0", .shape = shape})}, {{.channel = "thetao_0"}});
    });
  };
  EXPECT_THAT(other("9, 4, 6"),
              AllOf(HasSubstr("so_0"), HasSubstr("9 rows"), HasSubstr("thetao_0")));
  EXPECT_THAT(other("10, 5, 6"), HasSubstr("5 x 6"));
  EXPECT_THAT(refusal([] {
                FieldSet({make_field_array(array())}, {{.channel = "thetao_0"}},
                         {wet_everywhere(4, 5)}, {});
              }),
              AllOf(HasSubstr("mask"), HasSubstr("4 x 5")));
}

TEST(FieldSet, RefusesNothingAndIndicesOutOfRange) {
  EXPECT_THAT(refusal([] { field_set({array()}, {}); }, ErrorKind::kUsage), HasSubstr("got none"));
  EXPECT_THAT(
      refusal([] { field_set({array()}, {{.channel = "a", .array = 1}}); }, ErrorKind::kUsage),
      HasSubstr("channel a"));
  EXPECT_THAT(
      refusal([] { field_set({array()}, {{.channel = "a", .mask = 2}}); }, ErrorKind::kUsage),
      HasSubstr("mask 2"));
}

}  // namespace
}  // namespace niskin::plan
