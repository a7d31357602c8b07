#include <libdeflate.h>

#include "niskin/zarr/codecs/codec_testing.h"
#include "niskin/zarr/codecs/codecs.h"

namespace niskin::zarr {
namespace {

using testing::Bytes;
using testing::decode;
using testing::decode_error_of;
using testing::front;
using testing::survive;
using testing::to_bytes;

using Compress = decltype(&libdeflate_zlib_compress);

Bytes encode(Compress compress, const std::string& text) {
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(6);
  Bytes out(text.size() + 200);
  const std::size_t size = compress(compressor, text.data(), text.size(), out.data(), out.size());
  libdeflate_free_compressor(compressor);
  EXPECT_GT(size, 0u);
  return front(out, size);
}

Bytes zlib(const std::string& text) { return encode(&libdeflate_zlib_compress, text); }
Bytes gzip(const std::string& text) { return encode(&libdeflate_gzip_compress, text); }

const std::string kText = "salt and temperature, temperature and salt, salt and temperature";
const auto kZlib = make_zlib_codec();
const auto kGzip = make_gzip_codec();

TEST(Zlib, DecodesAStream) {
  EXPECT_EQ(decode(*kZlib, zlib(kText), kText.size()), to_bytes(kText));
}

TEST(Gzip, JoinsItsMembers) {
  EXPECT_EQ(decode(*kGzip, gzip(kText), kText.size()), to_bytes(kText));
  Bytes encoded = gzip("salt ");
  for (const std::string& text : {std::string("water"), std::string()}) {
    const Bytes member = gzip(text);
    encoded.insert(encoded.end(), member.begin(), member.end());
  }
  EXPECT_EQ(decode(*kGzip, encoded, 10), to_bytes("salt water"));
}

TEST(Deflate, RefusesAnotherSizeThanExpected) {
  EXPECT_EQ(decode_error_of(*kZlib, zlib("salt"), 5), "zlib: decoded 4 bytes, expected 5");
  EXPECT_EQ(decode_error_of(*kGzip, gzip("salt"), 3),
            "gzip: decodes to more than the expected 3 bytes");
  EXPECT_NE(decode_error_of(*kZlib, {}, 4).find("no valid stream"), std::string::npos);
  EXPECT_NE(decode_error_of(*kGzip, {}, 4).find("no valid stream"), std::string::npos);
}

TEST(Deflate, RefusesBytesAfterTheEnd) {
  Bytes encoded = zlib("salt");
  const std::size_t size = encoded.size();
  encoded.push_back(std::byte{'x'});
  EXPECT_EQ(decode_error_of(*kZlib, encoded, 4), "zlib: the stream ends after " +
                                                     std::to_string(size) + " bytes, got " +
                                                     std::to_string(size + 1));
  encoded = gzip("salt");
  encoded.push_back(std::byte{'x'});
  EXPECT_NE(decode_error_of(*kGzip, encoded, 4).find("no valid stream"), std::string::npos);
}

TEST(Deflate, RefusesAWrongChecksum) {
  Bytes encoded = zlib(kText);
  encoded.back() ^= std::byte{1};
  EXPECT_NE(decode_error_of(*kZlib, encoded, kText.size()).find("checksum"), std::string::npos);
  encoded = gzip(kText);
  encoded[encoded.size() - 8] ^= std::byte{1};  // CRC-32; the last four bytes are the size
  EXPECT_NE(decode_error_of(*kGzip, encoded, kText.size()).find("checksum"), std::string::npos);
}

TEST(Deflate, SurvivesTruncationAndFlippedBits) {
  for (const bool is_zlib : {true, false}) {
    const Codec& codec = is_zlib ? *kZlib : *kGzip;
    const Bytes encoded = is_zlib ? zlib(kText) : gzip(kText);
    for (std::size_t size = 0; size < encoded.size(); ++size) {
      EXPECT_THROW(decode(codec, front(encoded, size), kText.size()), Error)
          << codec.name() << " cut to " << size;
    }
    for (std::size_t bit = 0; bit < encoded.size() * 8; ++bit) {
      Bytes flipped = encoded;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      survive(codec, flipped, kText.size());
    }
  }
}

}  // namespace
}  // namespace niskin::zarr
