#include <zstd.h>

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

Bytes frame(const std::string& text, bool checksum = false, bool content_size = true) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, content_size ? 1 : 0);
  Bytes out(ZSTD_compressBound(text.size()));
  const std::size_t size =
      ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(size));
  return front(out, size);
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::string kText = "salt and temperature, temperature and salt, salt and temperature";
const auto kCodec = make_zstd_codec();

TEST(Zstd, DecodesFramesWithAndWithoutSizeAndChecksum) {
  for (const bool checksum : {false, true}) {
    for (const bool content_size : {false, true}) {
      EXPECT_EQ(decode(*kCodec, frame(kText, checksum, content_size), kText.size()),
                to_bytes(kText));
    }
  }
}

TEST(Zstd, DecodesARawBlockOfAStreamingWriter) {
  const std::string encoded =
      std::string("\x28\xb5\x2f\xfd\x00\x58\x61\x00\x00", 9) + "Hello World!";
  EXPECT_EQ(decode(*kCodec, to_bytes(encoded), 12), to_bytes("Hello World!"));
}

TEST(Zstd, JoinsFramesAndSkipsSkippableAndEmptyOnes) {
  const Bytes skippable = to_bytes(std::string("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11));
  const Bytes encoded = skippable + frame("salt ") + frame("") + frame("water") + skippable;
  EXPECT_EQ(decode(*kCodec, encoded, 10), to_bytes("salt water"));
}

TEST(Zstd, RefusesAWrongChecksum) {
  Bytes encoded = frame(kText, true);
  encoded.back() ^= std::byte{1};
  EXPECT_NE(decode_error_of(*kCodec, encoded, kText.size()).find("checksum"), std::string::npos);
}

TEST(Zstd, RefusesAnotherSizeThanExpected) {
  EXPECT_EQ(decode_error_of(*kCodec, frame("salt"), 5), "zstd: decoded 4 bytes, expected 5");
  EXPECT_NE(decode_error_of(*kCodec, frame("salty"), 4).find("do not decode to the expected 4"),
            std::string::npos);
  EXPECT_EQ(decode_error_of(*kCodec, frame(""), 4), "zstd: decoded 0 bytes, expected 4");
  EXPECT_EQ(decode_error_of(*kCodec, {}, 4), "zstd: got 0 bytes, expected a frame");
}

TEST(Zstd, RefusesBytesThatAreNoFrame) {
  EXPECT_NE(decode_error_of(*kCodec, frame("salt") + to_bytes("garbage"), 4), "");
  EXPECT_NE(decode_error_of(*kCodec, to_bytes("<html>404</html>"), 4), "");
}

TEST(Zstd, SurvivesTruncationAndFlippedBits) {
  const Bytes encoded = frame(kText, false, false);
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_THROW(decode(*kCodec, front(encoded, size), kText.size()), Error);
  }
  for (std::size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    Bytes flipped = encoded;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    survive(*kCodec, flipped, kText.size());
  }
}

TEST(Zstd, HandsOverOnePieceForEachWantedRange) {
  const std::vector<ElementRange> wanted{{1, 3}, {8, 16}};
  DecodeScratch scratch;
  testing::Assembler sink(kText.size(), 4);
  kCodec->decode_pieces(frame(kText), kText.size(), 4, wanted, scratch, sink);
  ASSERT_EQ(sink.pieces.size(), 2u);
  EXPECT_EQ(sink.pieces[0].first, 1u);
  EXPECT_EQ(sink.pieces[1].count, 8u);
  EXPECT_EQ(std::memcmp(sink.bytes().data() + 32, kText.data() + 32, 32), 0);
}

}  // namespace
}  // namespace niskin::zarr
