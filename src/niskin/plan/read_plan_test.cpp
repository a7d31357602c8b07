#include "niskin/plan/read_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "niskin/base/error.h"
#include "niskin/plan/array_testing.h"

namespace niskin::plan {
namespace {

using testing::array;
using testing::field_set;
using ::testing::HasSubstr;
using testing::with_levels;

ReadPlan plan_of(const std::vector<BaseRequest>& bases) {
  ReadPlan plan;
  make_read_plan(bases, plan);
  return plan;
}

std::vector<Field> three_levels() {
  return {{.channel = "thetao_2", .level = 2},
          {.channel = "thetao_0", .level = 0},
          {.channel = "thetao_1", .level = 1}};
}

TEST(ReadPlan, ReadsAChunkOfSeveralLevelsOncePerRow) {
  const ReadPlan plan = plan_of({{field_set({array(with_levels())}, three_levels()), {4, 2, 4}}});
  ASSERT_EQ(plan.tasks.size(), 2U);  // rows 2 and 4
  EXPECT_EQ(plan.tasks[0].row_chunk, 2);
  EXPECT_EQ(plan.tasks[1].row_chunk, 4);
  EXPECT_EQ(plan.placements_of(plan.tasks[0]).size(), 3U);
  EXPECT_EQ(plan.placements_of(plan.tasks[1]).size(), 6U);  // two rows of the base each
}

TEST(ReadPlan, ReadsAChunkOfSeveralRowsOnce) {
  const auto rows5 = array({.chunks = "5, 4, 6"});
  const ReadPlan plan = plan_of({{field_set({rows5}, {{.channel = "thetao_0"}}), {1, 3, 4, 7}}});
  ASSERT_EQ(plan.tasks.size(), 2U);
  std::vector<std::uint32_t> in_chunk;
  for (const Placement& p : plan.placements_of(plan.tasks[0])) in_chunk.push_back(p.row_in_chunk);
  EXPECT_EQ(in_chunk, (std::vector<std::uint32_t>{1, 3, 4}));
  EXPECT_EQ(plan.placements_of(plan.tasks[1])[0].row_in_chunk, 2U);
}

TEST(ReadPlan, MakesATaskOfEachTile) {
  const auto tiled = array({.chunks = "1, 3, 4"});  // 2 x 2 tiles of 4 x 6 cells
  const ReadPlan plan = plan_of({{field_set({tiled}, {{.channel = "thetao_0"}}), {0}}});
  ASSERT_EQ(plan.tasks.size(), 4U);
  std::set<std::pair<std::int64_t, std::int64_t>> tiles;
  for (const ChunkTask& task : plan.tasks) {
    tiles.emplace(task.y_chunk, task.x_chunk);
    EXPECT_EQ(plan.placements_of(task).size(), 1U);
  }
  EXPECT_EQ(tiles.size(), 4U);
}

TEST(ReadPlan, MarksPlanesThatGoToSeveralSlots) {
  const ReadPlan plan = plan_of({{field_set({array()}, {{.channel = "thetao_0"}}), {3, 3, 3}}});
  ASSERT_EQ(plan.tasks.size(), 1U);
  const auto placements = plan.placements_of(plan.tasks[0]);
  EXPECT_TRUE(placements[0].first_use);
  EXPECT_FALSE(placements[1].first_use);
  EXPECT_FALSE(placements[2].first_use);
}

TEST(ReadPlan, SharesAChunkThatTwoBasesWant) {
  const auto shared = array();
  const ReadPlan plan = plan_of({{field_set({shared}, {{.channel = "thetao_0"}}), {1, 2}},
                                 {field_set({shared}, {{.channel = "label"}}), {2, 3}}});
  EXPECT_EQ(plan.tasks.size(), 3U);
  const auto both = plan.placements_of(plan.tasks[1]);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].base, 0U);
  EXPECT_EQ(both[1].base, 1U);
  EXPECT_TRUE(both[1].first_use);  // another base may prepare it in another way
}

TEST(ReadPlan, FillsDryChannelsWithoutATask) {
  const ReadPlan plan = plan_of(
      {{field_set({array()}, {{.channel = "wet"}, {.channel = "dry", .mask = 1}}), {5, 6}}});
  EXPECT_EQ(plan.tasks.size(), 2U);
  EXPECT_EQ(plan.placements.size(), 2U);
  ASSERT_EQ(plan.dry.size(), 2U);
  EXPECT_EQ(plan.dry[0].channel, 1U);
  EXPECT_EQ(plan.dry[1].row, 1U);
}

TEST(ReadPlan, RefusesRowsOutsideTheStore) {
  const auto set = field_set({array()}, {{.channel = "thetao_0"}});
  for (const std::int64_t row : {-1, 10}) {
    try {
      plan_of({{set, {0, row}}});
      ADD_FAILURE() << "planned row " << row;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("row " + std::to_string(row)));
      EXPECT_THAT(error.what(), HasSubstr("plan.zarr"));
    }
  }
}

TEST(ReadPlan, IsEmptiedBeforeItIsReused) {
  const auto set = field_set({array()}, {{.channel = "thetao_0"}, {.channel = "dry", .mask = 1}});
  ReadPlan plan;
  const std::vector<BaseRequest> many{{set, {0, 1, 2}}}, one{{set, {4}}};
  make_read_plan(many, plan);
  make_read_plan(one, plan);
  EXPECT_EQ(plan.tasks.size(), 1U);
  EXPECT_EQ(plan.placements.size(), 1U);
  EXPECT_EQ(plan.dry.size(), 1U);
}

// Enough arrays that a list of them has to grow while they are ranked.
TEST(ReadPlan, KeepsManyArraysApart) {
  std::vector<std::shared_ptr<const zarr::Array>> arrays;
  std::vector<Field> fields;
  for (std::uint32_t k = 0; k < 100; ++k) {
    arrays.push_back(array({.name = "v" + std::to_string(k)}));
    fields.push_back({.channel = "v" + std::to_string(k), .array = k});
  }
  const ReadPlan plan = plan_of({{field_set(arrays, fields), {0, 1}}});
  EXPECT_EQ(plan.tasks.size(), 200U);
  for (const ChunkTask& task : plan.tasks) {
    ASSERT_EQ(plan.placements_of(task).size(), 1U);
    EXPECT_EQ(plan.placements_of(task)[0].channel, task.array);
  }
}

// Every slot is served exactly once, by the chunk that holds its plane.
void expect_complete(const std::vector<BaseRequest>& bases, const ReadPlan& plan) {
  using Slot = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Slot, int> tiles_seen;
  std::set<std::tuple<const zarr::Array*, std::int64_t, std::int64_t, std::int64_t, std::int64_t>>
      chunks;
  for (const ChunkTask& task : plan.tasks) {
    const FieldArray& of_task = bases[task.base].fields->arrays()[task.array];
    EXPECT_TRUE(chunks
                    .emplace(of_task.array.get(), task.row_chunk, task.level_chunk, task.y_chunk,
                             task.x_chunk)
                    .second)
        << "a chunk is read twice";
    for (const Placement& p : plan.placements_of(task)) {
      const FieldSet& set = *bases[p.base].fields;
      const Field& field = set.fields()[p.channel];
      const FieldArray& array = set.arrays()[field.array];
      EXPECT_EQ(array.array.get(), of_task.array.get());
      EXPECT_EQ(task.row_chunk * array.chunk_rows + p.row_in_chunk, bases[p.base].rows[p.row]);
      EXPECT_EQ(task.level_chunk * array.chunk_levels + p.level_in_chunk,
                std::max<std::int64_t>(field.level, 0));
      ++tiles_seen[{p.base, p.row, p.channel}];
    }
  }
  for (const DrySlot& dry : plan.dry) tiles_seen[{dry.base, dry.row, dry.channel}] = -1;
  for (std::uint32_t b = 0; b < bases.size(); ++b) {
    const FieldSet& set = *bases[b].fields;
    for (std::uint32_t row = 0; row < bases[b].rows.size(); ++row) {
      for (std::uint32_t channel = 0; channel < set.fields().size(); ++channel) {
        const FieldArray& array = set.arrays()[set.fields()[channel].array];
        const auto tiles = ((array.ny + array.chunk_ny - 1) / array.chunk_ny) *
                           ((array.nx + array.chunk_nx - 1) / array.chunk_nx);
        const int expected = set.mask_of(channel).any_wet() ? static_cast<int>(tiles) : -1;
        EXPECT_EQ((tiles_seen[{b, row, channel}]), expected);
      }
    }
  }
}

TEST(ReadPlan, ServesEverySlotExactlyOnce) {
  std::mt19937 random(15);
  const auto below = [&random](int n) { return static_cast<int>(random() % n); };
  for (int repeat = 0; repeat < 200; ++repeat) {
    const auto chunk = [&](int extent) { return std::to_string(1 + below(extent)); };
    const std::string cells = chunk(4) + ", " + chunk(6);
    const std::vector<std::shared_ptr<const zarr::Array>> arrays{
        array({.name = "zos", .chunks = chunk(10) + ", " + cells}),
        array(with_levels(chunk(10) + ", " + chunk(3) + ", " + cells))};
    std::vector<BaseRequest> bases;
    for (int b = 0; b < 1 + below(2); ++b) {
      std::vector<Field> fields;
      for (int f = 0; f < 1 + below(4); ++f) {
        const bool deep = below(2) == 1;
        fields.push_back({.channel = "c",
                          .array = deep ? 1U : 0U,
                          .level = deep ? below(3) : -1,
                          .mask = below(5) == 0 ? 1U : 0U});
      }
      std::vector<std::int64_t> rows;
      for (int r = 0; r < 1 + below(8); ++r) rows.push_back(below(10));
      bases.push_back({field_set(arrays, fields), rows});
    }
    expect_complete(bases, plan_of(bases));
  }
}

}  // namespace
}  // namespace niskin::plan
