#include "niskin/base/dtype.h"

#include <gtest/gtest.h>

#include "niskin/base/error.h"

namespace niskin {
namespace {

TEST(DType, ReadsEveryNumericTypeAndSpellsItTheSame) {
  for (const char* name :
       {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4",
        "<f8", ">i2", ">i4", ">i8", ">u2", ">u4", ">u8", ">f2", ">f4", ">f8"}) {
    EXPECT_EQ(parse_dtype_v2(name).name(), name);
  }
}

TEST(DType, IgnoresTheByteOrderOfOneByte) {
  EXPECT_EQ(parse_dtype_v2(">i1"), parse_dtype_v2("|i1"));
  EXPECT_EQ(parse_dtype_v2("<b1").name(), "|b1");
}

TEST(DType, RefusesOtherTypesByTheirText) {
  for (const char* name :
       {"", "f4", "|f4", "=f4", "<f3", "<f16", "<b2", "<U5", "|S1", "|O", "<M8[ns]", "<c8"}) {
    try {
      parse_dtype_v2(name);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat);
      EXPECT_NE(std::string(error.what()).find('"' + std::string(name) + '"'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace niskin
