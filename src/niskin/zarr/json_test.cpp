#include "niskin/zarr/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "niskin/base/error.h"

namespace niskin::zarr {
namespace {

using nlohmann::json;

std::string error_of(const std::string& text) {
  try {
    parse_json(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFormat);
    return error.what();
  }
  ADD_FAILURE() << "parsed";
  return {};
}

TEST(Json, ReadsBareNanAndInfinitiesAsTheirNames) {
  EXPECT_EQ(parse_json(R"({"a": NaN, "b": [Infinity,-Infinity]})"),
            (json{{"a", "NaN"}, {"b", {"Infinity", "-Infinity"}}}));
  EXPECT_EQ(parse_json("NaN"), json("NaN"));
}

TEST(Json, LeavesTheWordsInStringsAlone) {
  EXPECT_EQ(parse_json(R"({"NaN": "is \"NaN\", -Infinity or 1e400 \\"})"),
            (json{{"NaN", "is \"NaN\", -Infinity or 1e400 \\"}}));
}

TEST(Json, ReadsNumbersBeyondFloat64AsInfinity) {
  const std::string digits(400, '9');
  EXPECT_EQ(
      parse_json("[1e400, -1e400, 123.5E+99999999999999999999, " + digits + ", -" + digits + "]"),
      (json{"Infinity", "-Infinity", "Infinity", "Infinity", "-Infinity"}));
  EXPECT_EQ(parse_json("[1e-400, 0e400, 1e308, 0." + std::string(400, '0') + "1e401]"),
            (json{0.0, 0.0, 1e308, 1.0}));
}

TEST(Json, KeepsSixtyFourBitIntegers) {
  const json numbers =
      parse_json("[9223372036854775807, -9223372036854775808, 18446744073709551615]");
  EXPECT_EQ(numbers[0].get<std::int64_t>(), INT64_MAX);
  EXPECT_EQ(numbers[1].get<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(numbers[2].get<std::uint64_t>(), UINT64_MAX);
}

TEST(Json, AllowsAByteOrderMarkTrailingSpaceAndDuplicateKeys) {
  EXPECT_EQ(parse_json("\xef\xbb\xbf{\"a\": 1, \"a\": 2}\n\n"), (json{{"a", 2}}));
}

TEST(Json, RefusesNestingThatWouldOverflowAStack) {
  EXPECT_NO_THROW(parse_json(std::string(500, '[') + std::string(500, ']')));
  EXPECT_EQ(error_of(std::string(100000, '[') + std::string(100000, ']')),
            "not valid JSON at line 1, column 501: nested deeper than 500");
  EXPECT_NE(error_of(std::string(100000, '{')), "");
}

TEST(Json, SaysWhereItIsWrongInTheTextAsItWas) {
  EXPECT_EQ(error_of("{\"a\": NaN,\n \"b\": [NaN, NaN, x]}").substr(0, 42),
            "not valid JSON at line 2, column 18: synta");
  EXPECT_EQ(error_of("").substr(0, 37), "not valid JSON at line 1, column 1: s");
  for (const char* text :
       {"{", "{\"a\"", "\"abc", "\"abc\\", "-", "-Inf", "Na", "1 2", "[1,]", "1e", "\"\xff\""}) {
    EXPECT_NE(error_of(text), "") << text;
  }
}

}  // namespace
}  // namespace niskin::zarr
