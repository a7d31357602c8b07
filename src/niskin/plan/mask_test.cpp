#include "niskin/plan/mask.h"

#include <gtest/gtest.h>

#include "niskin/base/error.h"

namespace niskin::plan {
namespace {

TEST(Mask, TakesWhatIsNotZeroForWet) {
  const std::vector<std::uint8_t> wet{0, 1, 2, 0, 255, 0, 0, 0, 0, 1};
  const Mask mask(2, 5, wet);
  for (std::size_t cell = 0; cell < wet.size(); ++cell) {
    EXPECT_EQ(mask.wet(static_cast<std::int64_t>(cell)), wet[cell] != 0);
  }
  EXPECT_TRUE(mask.any_wet());
  EXPECT_EQ(mask.bits()[0], 0b00010110);
  EXPECT_EQ(mask.bits()[1], 0b00000010);
  for (int spare = 2; spare < 10; ++spare) EXPECT_EQ(mask.bits()[spare], 0);  // readable
}

TEST(Mask, KnowsThatNothingIsWet) {
  EXPECT_FALSE(Mask(3, 3, std::vector<std::uint8_t>(9, 0)).any_wet());
}

TEST(Mask, LooksIntoATile) {
  std::vector<std::uint8_t> wet(12, 0);
  wet[1 * 4 + 2] = 1;
  const Mask mask(3, 4, wet);
  EXPECT_TRUE(mask.any_wet_in(1, 2, 2, 3));
  EXPECT_TRUE(mask.any_wet_in(0, 3, 0, 4));
  EXPECT_FALSE(mask.any_wet_in(0, 1, 0, 4));
  EXPECT_FALSE(mask.any_wet_in(2, 3, 0, 4));
  EXPECT_FALSE(mask.any_wet_in(0, 3, 0, 2));
  EXPECT_FALSE(mask.any_wet_in(0, 3, 3, 4));
}

TEST(Mask, RefusesAnotherNumberOfCells) {
  EXPECT_THROW(Mask(2, 2, std::vector<std::uint8_t>(3, 1)), Error);
  EXPECT_THROW(Mask(2, 2, std::vector<std::uint8_t>(5, 1)), Error);
}

}  // namespace
}  // namespace niskin::plan
