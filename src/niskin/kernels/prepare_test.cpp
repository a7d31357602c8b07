#include "niskin/kernels/prepare.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace niskin::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kGuard = -12345.5F;

// The bits of `wet` from bit `first` on, with the readable bytes that kernels may touch.
std::vector<std::uint8_t> packed(const std::vector<bool>& wet, std::size_t first = 0) {
  std::vector<std::uint8_t> bits((first + wet.size() + 7) / 8 + 8, 0);
  for (std::size_t i = 0; i < wet.size(); ++i) {
    const std::size_t bit = first + i;
    if (wet[i]) bits[bit >> 3] = static_cast<std::uint8_t>(bits[bit >> 3] | 1U << (bit & 7));
  }
  return bits;
}

// `values` as a chunk holds them in one of the three forms.
class Stored {
 public:
  Stored(const std::vector<float>& values, Form form, std::size_t misaligned = 0)
      : bytes_(values.size() * sizeof(float) + misaligned), form_(form), at_(misaligned) {
    const std::size_t n = values.size();
    for (std::size_t i = 0; i < n; ++i) {
      const auto word = std::bit_cast<std::uint32_t>(values[i]);
      for (std::size_t k = 0; k < 4; ++k) {
        const auto byte = static_cast<std::byte>(word >> (8 * k));
        const bool little = std::endian::native == std::endian::little;
        const std::size_t native = little ? k : 3 - k;
        const std::size_t place = form == Form::kPlanar   ? k * n + i
                                  : form == Form::kNative ? 4 * i + native
                                                          : 4 * i + 3 - native;
        bytes_[at_ + place] = byte;
      }
    }
    planes_ = n;
  }
  Source source() const {
    Source source{form_, {bytes_.data() + at_}};
    if (form_ == Form::kPlanar) {
      for (std::size_t k = 1; k < 4; ++k) source.bytes[k] = source.bytes[0] + k * planes_;
    }
    return source;
  }

 private:
  std::vector<std::byte> bytes_;
  Form form_;
  std::size_t at_;
  std::size_t planes_ = 0;
};

std::vector<float> scalar(const std::vector<float>& x, const std::vector<bool>& wet,
                          const Transform& transform, std::size_t* bad = nullptr) {
  std::vector<float> y(x.size(), kGuard);
  const auto bits = packed(wet);
  float* out = y.data();
  const std::size_t found = prepare_scalar(Stored(x, Form::kNative).source(), transform,
                                           {bits.data(), 0}, {&out, 1}, x.size(), false);
  if (bad != nullptr) *bad = found;
  return y;
}

using Floats = std::vector<float>;

// Mean 20, std 8, fill -1: both orders of normalizing and masking, worked out by hand.
TEST(Prepare, NormalizesThenMasks) {
  EXPECT_EQ(scalar({10, kNan, 30, 40}, {true, true, false, false}, {20, 8, -1, false}),
            (Floats{-1.25F, 0, -1, -1}));
}

TEST(Prepare, MasksThenNormalizes) {
  EXPECT_EQ(scalar({10, kNan, 30, 40}, {true, true, false, false}, {20, 8, -1, true}),
            (Floats{-1.25F, 0, -2.625F, -2.625F}));
}

// Float64 first would give 0.09992646, a product with 1 / std 0.09986443.
TEST(Prepare, SubtractsAndDividesInFloat32) {
  const Floats y = scalar({34.70123F}, {true}, {34.7F, 0.0123F, 0, false});
  EXPECT_EQ(y[0], 0.09986444F);
  EXPECT_EQ(y[0], (34.70123F - 34.7F) / 0.0123F);
}

TEST(Prepare, TurnsInfinitiesIntoTheLargestFloat) {
  EXPECT_EQ(
      scalar({kInf, -kInf, kLargest, -kLargest}, {true, true, true, true}, {0, 0.5F, 0, false}),
      (Floats{kLargest, -kLargest, kLargest, -kLargest}));
  // std 0: the mean itself is 0 / 0.
  EXPECT_EQ(scalar({2, 3, 1}, {true, true, true}, {2, 0, 0, false}),
            (Floats{0, kLargest, -kLargest}));
}

TEST(Prepare, CountsNanAndInfinityOfWetCellsOnly) {
  std::size_t bad = 0;
  scalar({kNan, kInf, -kInf, kNan, kInf, 1}, {true, true, true, false, false, true},
         {0, 1, 0, false}, &bad);
  EXPECT_EQ(bad, 3U);
}

TEST(Prepare, HidesWhateverLiesOnLand) {
  const Floats land{0, -1e34F, 9.96921e36F, 1e17F, kNan, kInf};
  const std::vector<bool> dry(land.size(), false);
  EXPECT_EQ(scalar(land, dry, {3, 2, -7, false}), Floats(land.size(), -7));
  EXPECT_EQ(scalar(land, dry, {3, 2, -7, true}), Floats(land.size(), -5));  // (-7 - 3) / 2
}

TEST(Prepare, KeepsSubnormals) {
  set_exact_floating_point();
  const float tiny = std::numeric_limits<float>::denorm_min();
  for (const Variant& variant : variants()) {
    const auto bits = packed(std::vector<bool>(64, true));
    Floats y(64, kGuard);
    float* out = y.data();
    variant.prepare(Stored(Floats(64, 3 * tiny), Form::kNative).source(), {tiny, 1, 0, false},
                    {bits.data(), 0}, {&out, 1}, 64, false);
    EXPECT_EQ(y, Floats(64, 2 * tiny)) << variant.name;
  }
}

TEST(Source, SkipsElementsInEveryForm) {
  const Floats values{1.5F, -2.25F, 3e30F, 4e-30F};
  for (const Form form : {Form::kNative, Form::kSwapped, Form::kPlanar}) {
    const Stored stored(values, form);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(element(stored.source(), i), values[i]);
      EXPECT_EQ(element(stored.source().skip(i), 0), values[i]);
    }
  }
}

TEST(Variants, ListTheScalarTruthFirst) {
  ASSERT_FALSE(variants().empty());
  EXPECT_EQ(variants().front().prepare, &prepare_scalar);
  EXPECT_EQ(variants().back().prepare, prepare());
}

// Ordinary numbers, and all that is special: payloads of NaN, signed zeros, subnormals, the ends.
std::vector<float> awkward(std::size_t count, std::mt19937& random) {
  const float special[] = {kNan,
                           std::bit_cast<float>(0x7F800001U),
                           std::bit_cast<float>(0xFFC12345U),
                           kInf,
                           -kInf,
                           0.0F,
                           -0.0F,
                           std::numeric_limits<float>::denorm_min(),
                           -std::numeric_limits<float>::min(),
                           kLargest,
                           -kLargest,
                           1e20F};
  std::normal_distribution<float> normal(15, 10);
  std::vector<float> values(count);
  for (float& x : values) {
    const auto draw = random();
    x = draw % 4 == 0 ? special[draw / 4 % std::size(special)] : normal(random);
  }
  return values;
}

struct Case {
  std::size_t count, misaligned_in, misaligned_out, first_bit, slots;
};

// Runs a variant with guards on both sides of every slot, and holds it against the truth.
void expect_the_truth(const Variant& variant, const Case& c, Form form, const Transform& transform,
                      bool stream, std::mt19937& random) {
  const std::vector<float> x = awkward(c.count, random);
  std::vector<bool> wet(c.count);
  const auto kind = random() % 4;  // all dry, all wet, mixed
  for (std::size_t i = 0; i < c.count; ++i) wet[i] = kind > 0 && (kind == 1 || random() % 3 != 0);
  std::size_t expected_bad = 0;
  const std::vector<float> expected = scalar(x, wet, transform, &expected_bad);

  constexpr std::size_t kMargin = 32;
  std::vector<std::vector<float>> memory(
      c.slots, std::vector<float>(c.count + c.misaligned_out + 2 * kMargin, kGuard));
  std::vector<float*> outs;
  for (auto& slot : memory) outs.push_back(slot.data() + kMargin + c.misaligned_out);
  const auto bits = packed(wet, c.first_bit);
  const Stored stored(x, form, c.misaligned_in);
  const std::size_t bad = variant.prepare(stored.source(), transform, {bits.data(), c.first_bit},
                                          outs, c.count, stream);
  fence();

  const std::string where = std::string(variant.name) + ", " + std::to_string(c.count) +
                            " cells, form " + std::to_string(static_cast<int>(form));
  ASSERT_EQ(bad, expected_bad) << where;
  for (std::size_t s = 0; s < c.slots; ++s) {
    if (c.count > 0) {
      ASSERT_EQ(std::memcmp(outs[s], expected.data(), c.count * sizeof(float)), 0) << where;
    }
    for (const float* p = memory[s].data(); p != outs[s]; ++p) ASSERT_EQ(*p, kGuard) << where;
    const float* end = memory[s].data() + memory[s].size();
    for (const float* p = outs[s] + c.count; p != end; ++p) ASSERT_EQ(*p, kGuard) << where;
  }
}

TEST(Variants, GiveTheBitsOfTheScalarTruth) {
  std::mt19937 random(15);
  const Transform transforms[] = {
      {20, 8, -1, false},   {20, 8, -1, true},        {0, 1, 0, false},   {-0.02F, 0.1F, 0, true},
      {3, 0, 1e20F, false}, {3, 1e-38F, -0.0F, true}, {0, 1, kNan, false}};
  for (const Variant& variant : variants()) {
    for (std::size_t count = 0; count <= 200; ++count) {
      for (const Form form : {Form::kNative, Form::kSwapped, Form::kPlanar}) {
        const Case c{count, random() % 8, random() % 16, random() % 16, 1 + random() % 3};
        const Transform& transform = transforms[random() % std::size(transforms)];
        expect_the_truth(variant, c, form, transform, random() % 2 == 0, random);
      }
    }
    for (const Form form : {Form::kNative, Form::kSwapped, Form::kPlanar}) {
      for (const Transform& transform : transforms) {
        expect_the_truth(variant, {64800, 0, 0, 0, 1}, form, transform, true, random);
        expect_the_truth(variant, {5003, 1, 3, 13, 8}, form, transform, true, random);
      }
    }
  }
}

}  // namespace
}  // namespace niskin::kernels
