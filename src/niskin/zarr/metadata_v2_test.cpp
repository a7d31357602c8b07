#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "niskin/base/error.h"
#include "niskin/zarr/metadata.h"

namespace niskin::zarr {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A `.zarray` of shape (6, 4, 8), with some of its fields replaced.
struct Fields {
  std::string shape = "[6, 4, 8]";
  std::string chunks = "[1, 4, 8]";
  std::string dtype = R"("<f4")";
  std::string compressor = "null";
  std::string fill_value = R"("NaN")";
  std::string filters = "null";
  std::string order = R"("C")";
  std::string more = "";

  std::string json() const {
    return R"({"zarr_format": 2, "shape": )" + shape + R"(, "chunks": )" + chunks +
           R"(, "dtype": )" + dtype + R"(, "compressor": )" + compressor + R"(, "fill_value": )" +
           fill_value + R"(, "filters": )" + filters + R"(, "order": )" + order + more + "}";
  }
};

ArrayMeta parse(const Fields& fields, std::string_view zattrs = "") {
  return parse_array_v2("thetao", fields.json(), zattrs);
}

std::string error_of_text(const std::string& zarray, std::string_view zattrs = "") {
  try {
    parse_array_v2("thetao", zarray, zattrs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFormat);
    return error.what();
  }
  ADD_FAILURE() << "parsed";
  return {};
}

std::string error_of(const Fields& fields, std::string_view zattrs = "") {
  return error_of_text(fields.json(), zattrs);
}

TEST(MetadataV2, ReadsAPlainFloatArray) {
  const ArrayMeta meta =
      parse({}, R"({"_ARRAY_DIMENSIONS": ["time", "y", "x"], "long_name": "temperature"})");
  EXPECT_EQ(meta.name, "thetao");
  EXPECT_EQ(meta.shape, (Shape{6, 4, 8}));
  EXPECT_EQ(meta.chunk_shape, (Shape{1, 4, 8}));
  EXPECT_EQ(meta.dtype.name(), "<f4");
  EXPECT_EQ(meta.order, MemoryOrder::kC);
  EXPECT_EQ(meta.key_encoding.separator, '.');
  EXPECT_EQ(meta.codec, nullptr);
  EXPECT_TRUE(meta.has_fill_value);
  EXPECT_TRUE(std::isnan(meta.fill_value));
  EXPECT_TRUE(meta.missing_markers.empty());
  EXPECT_FALSE(meta.scaled);
  EXPECT_EQ(meta.dimension_names, (std::vector<std::string>{"time", "y", "x"}));
  EXPECT_EQ(meta.chunk_bytes(), 128u);
}

TEST(MetadataV2, KnowsTheKeysOfBothSeparatorsAndOfScalars) {
  EXPECT_EQ(parse({}).key_encoding.key(Shape{3, 0, 12}), "3.0.12");
  EXPECT_EQ(parse({.more = R"(, "dimension_separator": "/")"}).key_encoding.key(Shape{3, 0, 12}),
            "3/0/12");
  EXPECT_EQ(parse({.more = R"(, "dimension_separator": null)"}).key_encoding.separator, '.');
  EXPECT_EQ(parse({.shape = "[]", .chunks = "[]"}).key_encoding.key(Shape{}), "0");
}

TEST(MetadataV2, ReadsEveryCompressorAndItsVariants) {
  const auto codec = [](const char* compressor) {
    return parse({.compressor = compressor}).codec->name();
  };
  EXPECT_EQ(codec(R"({"id": "zstd", "level": 3})"), "zstd");
  EXPECT_EQ(codec(R"({"id": "zstd", "level": 0, "checksum": true})"), "zstd");
  EXPECT_EQ(codec(R"({"id": "zlib", "level": 1})"), "zlib");
  EXPECT_EQ(codec(R"({"id": "gzip", "level": 1})"), "gzip");
  EXPECT_EQ(codec(R"({"id": "lz4", "acceleration": 1})"), "lz4");
  EXPECT_EQ(codec(R"({"id": "blosc"})"), "blosc-lz4");
  for (const char* shuffle : {"-1", "0", "1", "2"}) {
    EXPECT_EQ(
        codec((R"({"id": "blosc", "cname": "zstd", "clevel": 5, "blocksize": 0, "shuffle": )" +
               std::string(shuffle) + "}")
                  .c_str()),
        "blosc-zstd");
  }
}

TEST(MetadataV2, RefusesCompressorsAndFiltersByName) {
  EXPECT_EQ(
      error_of({.compressor = R"({"id": "jpeg2k"})"}),
      "thetao: compressor id: got \"jpeg2k\", expected one of blosc, zstd, zlib, gzip and lz4");
  EXPECT_NE(error_of({.compressor = R"({"id": "blosc", "cname": "lz5"})"}).find("lz5"),
            std::string::npos);
  EXPECT_NE(error_of({.compressor = R"("zstd")"}).find("compressor: got \"zstd\""),
            std::string::npos);
  EXPECT_EQ(error_of({.filters = R"([{"id": "delta", "dtype": "<f4"}, {"id": "bitround"}])"}),
            "thetao: filters: got delta, bitround, expected none\n"
            "  hint:  write the array again without filters");
  EXPECT_NO_THROW(parse({.filters = "[]"}));
}

TEST(MetadataV2, ReadsFillValuesOfEveryForm) {
  const auto fill = [](const char* dtype, const char* value) {
    return parse({.dtype = dtype, .fill_value = value}).fill_value;
  };
  EXPECT_EQ(fill(R"("<f4")", "1.5"), 1.5);
  EXPECT_EQ(fill(R"("<f4")", "1e20"), static_cast<double>(1e20F));
  EXPECT_EQ(fill(R"("<f8")", "1e20"), 1e20);
  EXPECT_TRUE(std::isnan(fill(R"("<f4")", "NaN")));
  EXPECT_EQ(fill(R"("<f4")", R"("-Infinity")"), -kInfinity);
  EXPECT_EQ(fill(R"("<f4")", "Infinity"), kInfinity);
  EXPECT_EQ(fill(R"("|b1")", "true"), 1);
  EXPECT_EQ(fill(R"("|b1")", "0"), 0);
  EXPECT_EQ(fill(R"("|u1")", "0.0"), 0);
  EXPECT_EQ(fill(R"("|u1")", R"("7")"), 7);
  EXPECT_EQ(fill(R"("|i1")", "-128"), -128);
  const ArrayMeta none = parse({.fill_value = "null"});
  EXPECT_FALSE(none.has_fill_value);
  EXPECT_EQ(none.fill_value, 0);
}

TEST(MetadataV2, RefusesFillValuesThatTheTypeCannotHold) {
  EXPECT_EQ(error_of({.dtype = R"("|u1")", .fill_value = "300"}),
            "thetao: fill_value: got 300, expected null or a value of |u1");
  for (const char* value : {"-1", "1.5", R"("NaN")", R"("Infinity")", R"("x")", "[]"}) {
    EXPECT_NE(error_of({.dtype = R"("|u1")", .fill_value = value}), "") << value;
  }
}

TEST(MetadataV2, CollectsMissingMarkersAsFloat32) {
  const auto markers = [](const char* fill, const char* zattrs) {
    return parse({.fill_value = fill}, zattrs).missing_markers;
  };
  EXPECT_EQ(markers("null", R"({"missing_value": 1e20})"), (std::vector<float>{1e20F}));
  EXPECT_EQ(markers("null", R"({"missing_value": [-99.0], "_FillValue": -999.0})"),
            (std::vector<float>{-999, -99}));
  EXPECT_EQ(markers("-5", R"({"_FillValue": -5})"), (std::vector<float>{-5}));
  EXPECT_EQ(markers("Infinity", ""), (std::vector<float>{kInfinity}));
  // NaN is missing anyhow; 1e300 is in no float32 field.
  EXPECT_TRUE(markers("NaN", R"({"_FillValue": NaN, "missing_value": ["NaN", 1e300]})").empty());
  EXPECT_NE(error_of({}, R"({"_FillValue": "AAAAAAAA+H8="})").find("attribute _FillValue"),
            std::string::npos);
}

TEST(MetadataV2, TakesAFillValueOfZeroForNoMarker) {
  EXPECT_TRUE(parse({.fill_value = "0.0"}).missing_markers.empty());
}

TEST(MetadataV2, NotesScalingOtherThanTheIdentity) {
  EXPECT_FALSE(parse({}, R"({"scale_factor": 1.0, "add_offset": 0})").scaled);
  EXPECT_TRUE(parse({}, R"({"scale_factor": 0.01})").scaled);
  EXPECT_TRUE(parse({}, R"({"add_offset": 273.15})").scaled);
  EXPECT_TRUE(parse({}, R"({"scale_factor": "about one"})").scaled);
}

TEST(MetadataV2, DoesNotMindAttributesThatItDoesNotUse) {
  EXPECT_NO_THROW(parse(
      {},
      R"({"history": {"a": [NaN, {"b": Infinity}]}, "valid_range": [-1e400, "x"], "n": null})"));
}

TEST(MetadataV2, AllowsEmptyDimensionsAndChunksLargerThanTheArray) {
  EXPECT_EQ(parse({.shape = "[3, 0]", .chunks = "[3, 1]"}).shape, (Shape{3, 0}));
  EXPECT_EQ(parse({.shape = "[3, 0]", .chunks = "[3, 0]"}).chunk_shape, (Shape{3, 1}));
  EXPECT_EQ(parse({.shape = "[5]", .chunks = "[10]"}).chunk_bytes(), 40u);
}

TEST(MetadataV2, RefusesGeometryThatMakesNoSense) {
  EXPECT_EQ(error_of({.shape = "[5]", .chunks = "[0]"}),
            "thetao: chunks: got (0,) for shape (5,), expected extents of at least 1");
  for (const Fields& fields :
       {Fields{.shape = "[-1, 4, 8]"}, Fields{.shape = "[4, 8]"}, Fields{.shape = "8"},
        Fields{.shape = "[1.5, 4, 8]"}, Fields{.shape = "[18446744073709551615, 4, 8]"},
        Fields{.shape = "[\"6\", 4, 8]"}, Fields{.chunks = "[-1, 4, 8]"},
        Fields{.shape = "[9223372036854775807, 9223372036854775807, 2]"},
        Fields{.shape = "[4611686018427387904, 1, 1]"}}) {
    EXPECT_NE(error_of(fields), "") << fields.json();
  }
}

TEST(MetadataV2, RefusesChunksThatACodecCannotHold) {
  const Fields big{.shape = "[536870912]", .chunks = "[536870912]"};  // 2^31 bytes
  EXPECT_EQ(parse(big).chunk_bytes(), std::uint64_t{1} << 31);
  for (const char* compressor : {R"({"id": "blosc", "cname": "lz4"})", R"({"id": "lz4"})"}) {
    Fields fields = big;
    fields.compressor = compressor;
    EXPECT_NE(error_of(fields).find("2147483648 bytes in a chunk"), std::string::npos);
  }
  Fields zstd = big;
  zstd.compressor = R"({"id": "zstd"})";
  EXPECT_NO_THROW(parse(zstd));
}

TEST(MetadataV2, NamesTheFieldThatIsMissingOrWrong) {
  EXPECT_EQ(error_of_text(R"({"zarr_format": 2})"), "thetao: .zarray has no \"dtype\"");
  EXPECT_EQ(error_of_text(R"({"zarr_format": 3})"), "thetao: zarr_format: got 3, expected 2");
  EXPECT_EQ(error_of_text("[]"), "thetao: .zarray: got [], expected an object");
  EXPECT_EQ(error_of({.order = R"("K")"}), "thetao: order: got \"K\", expected \"C\" or \"F\"");
  EXPECT_NE(error_of({.dtype = R"("<M8[ns]")"}).find("\"<M8[ns]\""), std::string::npos);
  EXPECT_NE(error_of({.dtype = R"([["a", "<f4"]])"}).find("dtype: got"), std::string::npos);
  EXPECT_NE(error_of({.more = R"(, "dimension_separator": "-")"}).find("dimension_separator"),
            std::string::npos);
  EXPECT_NE(error_of({}, R"({"_ARRAY_DIMENSIONS": ["y", "x"]})").find("expected 3 names"),
            std::string::npos);
  EXPECT_NE(error_of({}, R"({"_ARRAY_DIMENSIONS": [1, 2, 3]})").find("_ARRAY_DIMENSIONS"),
            std::string::npos);
  EXPECT_NE(error_of_text("{").find("thetao: .zarray: not valid JSON at line 1, column 2"),
            std::string::npos);
  EXPECT_NE(error_of({}, "[1]").find(".zattrs: got [1]"), std::string::npos);
}

}  // namespace
}  // namespace niskin::zarr
