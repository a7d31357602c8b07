#include "niskin/base/error.h"

#include <gtest/gtest.h>

namespace niskin {
namespace {

TEST(Error, SaysWhatOnlyWhereNoPlaceIsKnown) {
  EXPECT_STREQ(usage_error("steps: got 0, expected at least 1").what(),
               "steps: got 0, expected at least 1");
}

TEST(Error, LeadsWithArrayAndChunkAndEndsWithStoreBytesAndHint) {
  const Error error =
      decode_error("blosc decoded 131072 bytes, expected 259200", "write the chunk again")
          .at({.store = "OM4.zarr",
               .array = "thetao_3",
               .chunk_key = "412.0.0",
               .bytes = std::pair<std::uint64_t, std::uint64_t>{16, 48}});
  EXPECT_EQ(error.kind(), ErrorKind::kDecode);
  EXPECT_STREQ(error.what(),
               "thetao_3 chunk 412.0.0: blosc decoded 131072 bytes, expected 259200\n"
               "  store: OM4.zarr\n"
               "  bytes: 16..48\n"
               "  hint:  write the chunk again");
}

TEST(Error, KeepsThePlaceThatWasKnownFirst) {
  const Error inner = store_error("Permission denied").at({.array = "so_0"});
  const Error outer = inner.at({.store = "a.zarr", .array = "other"});
  EXPECT_EQ(outer.place().array, "so_0");
  EXPECT_EQ(outer.place().store, "a.zarr");
}

TEST(Error, ReplacesItsHint) {
  EXPECT_STREQ(format_error("no", "first").with_hint("second").what(), "no\n  hint:  second");
}

}  // namespace
}  // namespace niskin
