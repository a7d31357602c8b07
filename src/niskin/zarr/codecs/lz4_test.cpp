#include <lz4.h>

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

Bytes encode(const std::string& text) {
  Bytes out(4 + static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(text.size()))));
  const auto decoded_bytes = static_cast<std::uint32_t>(text.size());
  std::memcpy(out.data(), &decoded_bytes, 4);
  const int size =
      LZ4_compress_default(text.data(), reinterpret_cast<char*>(out.data() + 4),
                           static_cast<int>(text.size()), static_cast<int>(out.size() - 4));
  EXPECT_GT(size, 0);
  return front(out, 4 + static_cast<std::size_t>(size));
}

const std::string kText = "salt and temperature, temperature and salt, salt and temperature";
const auto kCodec = make_lz4_codec();

TEST(Lz4, DecodesABlockBehindItsSize) {
  EXPECT_EQ(decode(*kCodec, encode(kText), kText.size()), to_bytes(kText));
  EXPECT_LE(encode(kText).size(), kCodec->max_encoded_bytes(kText.size()));
}

TEST(Lz4, BelievesTheMetadataAndNotThePrefix) {
  EXPECT_EQ(decode_error_of(*kCodec, encode("salt"), 5),
            "lz4: the size prefix says 4 bytes, expected 5");
  EXPECT_EQ(decode_error_of(*kCodec, to_bytes("abc"), 5),
            "lz4: got 3 bytes, expected at least the size prefix of 4");
  Bytes encoded = encode("salt");
  encoded[0] = std::byte{5};
  EXPECT_EQ(decode_error_of(*kCodec, encoded, 5), "lz4: decoded 4 bytes, expected 5");
}

TEST(Lz4, SurvivesTruncationAndFlippedBits) {
  const Bytes encoded = encode(kText);
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_THROW(decode(*kCodec, front(encoded, size), kText.size()), Error) << "cut to " << size;
  }
  for (std::size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    Bytes flipped = encoded;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    survive(*kCodec, flipped, kText.size());
  }
}

}  // namespace
}  // namespace niskin::zarr
