#include "niskin/base/box.h"

#include <gtest/gtest.h>

#include <limits>

#include "niskin/base/error.h"

namespace niskin {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(ElementCount, MultipliesTheExtents) {
  EXPECT_EQ(element_count({1, 180, 360}), 64800);
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({kMax}), kMax);
}

TEST(ElementCount, IsZeroWithAnEmptyDimensionEvenBesideHugeOnes) {
  EXPECT_EQ(element_count({kMax, kMax, 0}), 0);
}

TEST(ElementCount, RefusesOverflowAndNegativeExtents) {
  EXPECT_THROW(element_count({kMax, 2}), Error);
  EXPECT_THROW(element_count({std::int64_t{1} << 32, std::int64_t{1} << 31}), Error);
  EXPECT_THROW(element_count({3, -1}), Error);
  EXPECT_THROW(element_count({0, -1}), Error);
}

TEST(Box, KnowsItsExtentAndEmptiness) {
  const Box box{{1, 2}, {4, 7}};
  EXPECT_EQ(box.extent(), (Shape{3, 5}));
  EXPECT_FALSE(box.empty());
  EXPECT_TRUE((Box{{1, 2}, {4, 2}}.empty()));
  EXPECT_FALSE((Box{}.empty()));
}

TEST(Box, IntersectsAndIsEmptyWhereApart) {
  EXPECT_EQ(intersect({{0, 0}, {4, 4}}, {{2, -1}, {9, 3}}), (Box{{2, 0}, {4, 3}}));
  EXPECT_TRUE(intersect({{0}, {2}}, {{2}, {4}}).empty());
}

TEST(Shape, PrintsLikePython) {
  EXPECT_EQ(to_string(Shape{1, 180, 360}), "(1, 180, 360)");
  EXPECT_EQ(to_string(Shape{3}), "(3,)");
  EXPECT_EQ(to_string(Shape{}), "()");
}

}  // namespace
}  // namespace niskin
