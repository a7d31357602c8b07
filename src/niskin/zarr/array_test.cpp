#include "niskin/zarr/array.h"

#include <blosc.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "niskin/zarr/stores/counting.h"
#include "niskin/zarr/stores/memory.h"

namespace niskin::zarr {
namespace {

using Values = std::vector<double>;

template <typename T>
std::string stored(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  return bytes;
}

std::string zarray(const std::string& shape, const std::string& chunks, const std::string& dtype,
                   const std::string& fill = "null",
                   const std::string& more = R"("order": "C", "compressor": null)") {
  return R"({"zarr_format": 2, "filters": null, "shape": )" + shape + R"(, "chunks": )" + chunks +
         R"(, "dtype": ")" + dtype + R"(", "fill_value": )" + fill + ", " + more + "}";
}

constexpr const char* kFortran = R"("order": "F", "compressor": null)";
constexpr const char* kBlosc = R"("order": "C", "compressor": {"id": "blosc", "cname": "lz4"})";

class ArrayTest : public ::testing::Test {
 protected:
  Array array(const std::string& document) const {
    return {store, parse_array_v2("a", document, "")};
  }

  std::string error_of(const Array& read) const {
    try {
      read.read_all();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDecode);
      return error.what();
    }
    ADD_FAILURE() << "read without an error";
    return {};
  }

  std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>("test.zarr");
};

TEST_F(ArrayTest, ReadsAbsentChunksAsTheFillValue) {
  store->put("a/0", stored<float>({1, 2}));
  EXPECT_EQ(array(zarray("[4]", "[2]", "<f4", "7")).read_all(), (Values{1, 2, 7, 7}));
  EXPECT_EQ(array(zarray("[4]", "[2]", "<f4", "null")).read_all(), (Values{1, 2, 0, 0}));
  EXPECT_TRUE(std::isnan(array(zarray("[4]", "[2]", "<f4", "\"NaN\"")).read_all()[3]));
}

TEST_F(ArrayTest, KeepsRealZerosWhenTheFillValueIsZero) {
  store->put("a/0", stored<float>({0, 1, 2}));
  EXPECT_EQ(array(zarray("[3]", "[3]", "<f4", "0")).read_all(), (Values{0, 1, 2}));
}

TEST_F(ArrayTest, ReadsABooleanMaskWithoutChunksAsAllFalse) {
  EXPECT_EQ(array(zarray("[2, 2]", "[2, 2]", "|b1", "false")).read_all(), (Values{0, 0, 0, 0}));
}

TEST_F(ArrayTest, ReadsBigEndianElements) {
  store->put("a/0", std::string("\x00\x01\x01\x02", 4));
  EXPECT_EQ(array(zarray("[2]", "[2]", ">i2")).read_all(), (Values{1, 258}));
  store->put("a/0", std::string("\x3f\x80\x00\x00\xc0\x00\x00\x00", 8));
  EXPECT_EQ(array(zarray("[2]", "[2]", ">f4")).read_all(), (Values{1, -2}));
  store->put("a/0", std::string("\x3f\xf0\0\0\0\0\0\0", 8));
  EXPECT_EQ(array(zarray("[1]", "[1]", ">f8")).read_all(), (Values{1}));
  store->put("a/0", std::string("\x3c\x00\x7c\x00", 4));
  EXPECT_EQ(array(zarray("[2]", "[2]", ">f2")).read_all(), (Values{1, INFINITY}));
}

TEST_F(ArrayTest, ReadsEveryNumericType) {
  const auto read = [&](const char* dtype, std::string bytes) {
    const std::size_t count = bytes.size() / static_cast<std::size_t>(dtype[2] - '0');
    store->put("a/0", std::move(bytes));
    const std::string extent = "[" + std::to_string(count) + "]";
    return array(zarray(extent, extent, dtype)).read_all();
  };
  EXPECT_EQ(read("|i1", "\xff\x02"), (Values{-1, 2}));
  EXPECT_EQ(read("|u1", "\xff\x02"), (Values{255, 2}));
  EXPECT_EQ(read("|b1", std::string("\x00\x01\x02", 3)), (Values{0, 1, 1}));
  EXPECT_EQ(read("<i2", stored<std::int16_t>({-300})), (Values{-300}));
  EXPECT_EQ(read("<u2", stored<std::uint16_t>({65535})), (Values{65535}));
  EXPECT_EQ(read("<i4", stored<std::int32_t>({-70000})), (Values{-70000}));
  EXPECT_EQ(read("<u4", stored<std::uint32_t>({4294967295U})), (Values{4294967295.0}));
  EXPECT_EQ(read("<i8", stored<std::int64_t>({-(std::int64_t{1} << 40)})),
            (Values{-1099511627776.0}));
  EXPECT_EQ(read("<u8", stored<std::uint64_t>({std::uint64_t{1} << 63})),
            (Values{9223372036854775808.0}));
  EXPECT_EQ(read("<f8", stored<double>({0.1})), (Values{0.1}));
  EXPECT_EQ(read("<f2", stored<std::uint16_t>({0x3c00, 0xc000, 0x0001, 0x7bff})),
            (Values{1, -2, std::ldexp(1.0, -24), 65504}));
}

TEST_F(ArrayTest, ReadsFortranOrder) {
  store->put("a/0.0", stored<std::int32_t>({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(array(zarray("[2, 3]", "[2, 3]", "<i4", "0", kFortran)).read_all(),
            (Values{0, 1, 2, 3, 4, 5}));
}

TEST_F(ArrayTest, ReadsEdgeChunksOfThreeDimensionsInBothOrders) {
  // Shape (3, 4, 5) in chunks of (2, 3, 2); element value = its position; padding = -1.
  for (const bool fortran : {false, true}) {
    for (int a = 0; a < 2; ++a) {
      for (int b = 0; b < 2; ++b) {
        for (int c = 0; c < 3; ++c) {
          std::vector<std::int16_t> chunk(12, -1);
          for (int i = 0; i < 2; ++i) {
            for (int j = 0; j < 3; ++j) {
              for (int k = 0; k < 2; ++k) {
                const int x = 2 * a + i;
                const int y = 3 * b + j;
                const int z = 2 * c + k;
                if (x >= 3 || y >= 4 || z >= 5) continue;
                chunk[static_cast<std::size_t>(fortran ? i + 2 * (j + 3 * k)
                                                       : (i * 3 + j) * 2 + k)] =
                    static_cast<std::int16_t>((x * 4 + y) * 5 + z);
              }
            }
          }
          store->put("a/" + std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c),
                     std::string(reinterpret_cast<const char*>(chunk.data()), 24));
        }
      }
    }
    Values expected(60);
    for (std::size_t i = 0; i < 60; ++i) expected[i] = static_cast<double>(i);
    EXPECT_EQ(array(zarray("[3, 4, 5]", "[2, 3, 2]", "<i2", "0",
                           fortran ? kFortran : R"("order": "C", "compressor": null)"))
                  .read_all(),
              expected);
  }
}

TEST_F(ArrayTest, RefusesChunksThatAreClippedAtTheEdge) {
  store->put("a/0", stored<float>({1, 1, 1}));
  store->put("a/1", stored<float>({1, 1}));
  EXPECT_EQ(error_of(array(zarray("[5]", "[3]", "<f4"))),
            "a chunk 1: got 8 bytes, expected 12 (float32, (3,))\n"
            "  store: test.zarr\n"
            "  hint:  the file looks truncated, or the chunk was stored without its padding");
}

TEST_F(ArrayTest, TakesAnEmptyShortOrLongChunkForDamage) {
  const Array raw = array(zarray("[2]", "[2]", "<f4"));
  for (const std::size_t size : {0, 4, 7, 9, 16}) {
    store->put("a/0", std::string(size, 'x'));
    EXPECT_NE(error_of(raw).find("a chunk 0: got " + std::to_string(size) + " bytes, expected 8"),
              std::string::npos);
  }
  const Array blosc = array(zarray("[2]", "[2]", "<f4", "0", kBlosc));
  store->put("a/0", "");
  EXPECT_NE(error_of(blosc).find("a chunk 0: got 0 bytes"), std::string::npos);
  store->put("a/0", std::string(100000, 'x'));
  EXPECT_NE(error_of(blosc).find("got 100000 bytes, expected at most"), std::string::npos);
  store->put("a/0", std::string(20, '\x02'));
  EXPECT_NE(error_of(blosc).find("a chunk 0: blosc: "), std::string::npos);
}

TEST_F(ArrayTest, DecodesShuffledBigEndianChunksAndNamesThoseItCannot) {
  std::string encoded(64, '\0');
  const std::string elements("\x3f\x80\x00\x00\xc0\x00\x00\x00\x3f\x80\x00\x00\xc0\x00\x00\x00",
                             16);
  encoded.resize(static_cast<std::size_t>(blosc_compress_ctx(
      5, 1, 4, 16, elements.data(), encoded.data(), encoded.size(), "lz4", 0, 1)));
  store->put("a/0", encoded);
  const Array read = array(zarray("[4]", "[4]", ">f4", "0", kBlosc));
  EXPECT_EQ(read.read_all(), (Values{1, -2, 1, -2}));

  class Nothing final : public PieceSink {
    void take(const Piece& /*piece*/) override {}
  } sink;
  DecodeScratch scratch;
  const ElementRange all{0, 4};
  try {
    read.decode_pieces({0}, std::as_bytes(std::span(encoded.data(), encoded.size() - 1)),
                       std::span(&all, 1), scratch, sink);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a chunk 0: blosc: truncated: "), std::string::npos);
  }
}

TEST_F(ArrayTest, ReadsNestedKeysScalarsAndChunksLargerThanTheArray) {
  store->put("a/0/0", stored<float>({1, 2}));
  store->put("a/0", stored<float>({1, 2, 3, 4, 5, 9, 9, 9, 9, 9}));
  EXPECT_EQ(array(zarray("[1, 2]", "[1, 2]", "<f4", "0",
                         R"("order": "C", "compressor": null, "dimension_separator": "/")"))
                .read_all(),
            (Values{1, 2}));
  EXPECT_EQ(array(zarray("[5]", "[10]", "<f4")).read_all(), (Values{1, 2, 3, 4, 5}));
  store->put("a/0", stored<float>({3.5}));
  EXPECT_EQ(array(zarray("[]", "[]", "<f4")).read_all(), (Values{3.5}));
}

TEST_F(ArrayTest, ReadsAnEmptyArrayWithoutAskingTheStore) {
  const auto counting = std::make_shared<CountingStore>(store);
  const Array empty(counting, parse_array_v2("a", zarray("[3, 0]", "[3, 1]", "<f4"), ""));
  EXPECT_TRUE(empty.read_all().empty());
  EXPECT_EQ(counting->counts().opens, 0u);
}

TEST_F(ArrayTest, ReadsEveryChunkOnce) {
  const auto counting = std::make_shared<CountingStore>(store);
  store->put("a/0", stored<float>({1, 2}));
  store->put("a/2", stored<float>({5, 6}));
  Array(counting, parse_array_v2("a", zarray("[6]", "[2]", "<f4"), "")).read_all();
  const StoreCounts counts = counting->counts();
  EXPECT_EQ(counts.opens, 3u);
  EXPECT_EQ(counts.absent, 1u);
  EXPECT_EQ(counts.reads, 2u);
  EXPECT_EQ(counts.bytes_read, 16u);
}

// The message, empty if there is no conflict.
std::string conflict_of(const Array& array) {
  const std::optional<Error> conflict = array.key_form_conflict();
  return conflict ? conflict->what() : std::string();
}

TEST_F(ArrayTest, SaysWhenChunksLieUnderTheOtherSeparator) {
  const Array dotted = array(zarray("[4, 4]", "[2, 2]", "<f4"));
  const Array nested =
      array(zarray("[4, 4]", "[2, 2]", "<f4", "0",
                   R"("order": "C", "compressor": null, "dimension_separator": "/")"));
  EXPECT_EQ(conflict_of(dotted), "");
  store->put("a/.zarray", "{}");
  store->put("a/0/1", "x");
  EXPECT_EQ(conflict_of(nested), "");
  EXPECT_EQ(conflict_of(dotted),
            "a: chunks are stored as \"0/1\", expected \"0.0\" as dimension_separator \".\" says\n"
            "  store: test.zarr\n"
            "  hint:  set \"dimension_separator\": \"/\" in .zarray (and in .zmetadata)");
  store->put("a/1.1", "x");
  EXPECT_EQ(conflict_of(dotted), "");
  store->erase("a/0/1");
  EXPECT_NE(conflict_of(nested).find("stored as \"1.1\", expected \"0/0\""), std::string::npos);
}

TEST_F(ArrayTest, HasOneKeyFormInOneDimension) {
  store->put("a/7/7", "x");
  EXPECT_EQ(conflict_of(array(zarray("[4]", "[2]", "<f4"))), "");
}

}  // namespace
}  // namespace niskin::zarr
