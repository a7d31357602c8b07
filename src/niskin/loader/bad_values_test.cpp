// NaN and infinities in wet cells: what a task reports of them.
#include <gtest/gtest.h>

#include <cmath>

#include "niskin/loader/chunk_testing.h"

namespace niskin::loader {
namespace {

using testing::arange;
using testing::Floats;
using testing::kNan;
using testing::raw;

class BadValues : public testing::ChunkFixture {};

TEST_F(BadValues, ReportsBadValuesOfWetCellsWithTheirPlace) {
  wet = {0, 1, 1, 1, 1, 1};
  constexpr float kMax = std::numeric_limits<float>::max();
  memory->put("t/2.0.0", raw({kNan, 1, 2, kNan, INFINITY, -INFINITY}));
  EXPECT_EQ(run(channels(array()), {2}), (Floats{0, 1, 2, 0, kMax, -kMax}));
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_EQ(report.bad[0].base, 0U);
  EXPECT_EQ(report.bad[0].channel, 0U);
  EXPECT_EQ(report.bad[0].count, 3U);
  EXPECT_EQ(report.bad[0].first_row, 2);
  EXPECT_EQ(report.bad[0].first_row_count, 3U);
  EXPECT_EQ(report.bad[0].first_cell, 3);

  policy.bad_values = plan::BadValues::kIgnore;
  run(channels(array()), {2});
  EXPECT_TRUE(report.bad.empty());
}

TEST_F(BadValues, FindsTheFirstBadCellInWhicheverPartOfAChunkItIs) {
  // A right-hand tile whose second row is bad; a plane of two pieces that is bad in the second.
  memory->put("t/0.0.0", raw({0, 1, 4, 5}));
  memory->put("t/0.0.1", raw({2, 3, 6, kNan}));
  run(channels(array({.shape = "1, 2, 4", .chunks = "1, 2, 2"})), {0});
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_EQ(report.bad[0].first_cell, 7);

  Floats cells = arange(70000);
  cells[65536] = cells[69999] = kNan;
  memory->put("t/0.0.0", raw(cells));
  run(channels(array({.shape = "1, 70, 1000", .chunks = "1, 70, 1000"})), {0});
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_EQ(report.bad[0].count, 2U);
  EXPECT_EQ(report.bad[0].first_cell, 65536);
}

TEST_F(BadValues, CountsBadValuesOfEachChannel) {
  memory->put("t/0.0.0.0", raw({0, kNan, 2, 3, 4, 5, kNan, 7, kNan, 9, 10, 11}));
  run(channels(array({.shape = "1, 2, 2, 3", .chunks = "1, 2, 2, 3"}), {1, 0}), {0});
  ASSERT_EQ(report.bad.size(), 2U);
  for (const BadValue& bad : report.bad) {
    EXPECT_EQ(bad.count, bad.channel == 0 ? 2U : 1U);  // channel 0 is level 1
    EXPECT_EQ(bad.first_cell, bad.channel == 0 ? 0 : 1);
  }
}

TEST_F(BadValues, CountsABadPlaneOnceForSeveralBases) {
  memory->put("t/0.0.0", raw({kNan, 1, 2, 3, 4, 5}));
  const auto fields = channels(array());
  run({{fields, {0, 0}}, {fields, {0}}});
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_EQ(report.bad[0].count, 1U);
  EXPECT_EQ(report.bad[0].base, 0U);
}

TEST(BadValueTest, KeepsTheEarliestRowAndSumsTheCounts) {
  BadValue all{.count = 2, .first_row = 5, .first_row_count = 2, .first_cell = 9};
  all.add({.count = 3, .first_row = 5, .first_row_count = 3, .first_cell = 7});
  EXPECT_EQ(all.first_row_count, 5U);
  EXPECT_EQ(all.first_cell, 7);
  all.add({.count = 1, .first_row = 8, .first_row_count = 1, .first_cell = 0});
  all.add({.count = 4, .first_row = 3, .first_row_count = 4, .first_cell = 11});
  EXPECT_EQ(all.count, 10U);
  EXPECT_EQ(all.first_row, 3);
  EXPECT_EQ(all.first_row_count, 4U);
  EXPECT_EQ(all.first_cell, 11);
}

}  // namespace
}  // namespace niskin::loader
