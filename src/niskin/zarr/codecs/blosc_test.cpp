#include <blosc.h>
#include <fmt/format.h>

#include <random>

#include "niskin/zarr/codecs/codec_testing.h"
#include "niskin/zarr/codecs/codecs.h"

namespace niskin::zarr {
namespace {

using testing::Assembler;
using testing::Bytes;
using testing::decode;
using testing::decode_error_of;
using testing::front;
using testing::survive;

constexpr const char* kInnerNames[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};

struct Settings {
  const char* cname = "lz4";
  int clevel = 5;
  int shuffle = 1;
  std::size_t type_bytes = 4;
  std::size_t block_bytes = 0;
};

Bytes encode(const Bytes& bytes, const Settings& settings) {
  Bytes encoded(bytes.size() + BLOSC_MAX_OVERHEAD);
  const int size = blosc_compress_ctx(settings.clevel, settings.shuffle, settings.type_bytes,
                                      bytes.size(), bytes.data(), encoded.data(), encoded.size(),
                                      settings.cname, settings.block_bytes, 1);
  EXPECT_GT(size, 0);
  return front(encoded, static_cast<std::size_t>(size));
}

Bytes arange(std::size_t count) {
  Bytes bytes(count * 4);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(bytes.data() + 4 * i, &value, 4);
  }
  return bytes;
}

// Compressible in its high bytes, noise in its low ones: like a field.
Bytes field(std::size_t size) {
  std::mt19937 random(7);
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = std::byte(i % 4 < 2 ? random() & 0xff : (i >> 9) & 0x3f);
  }
  return bytes;
}

Bytes decode_by_pieces(const Bytes& encoded, std::size_t size, std::uint32_t element_bytes) {
  DecodeScratch scratch;
  Assembler sink(size, element_bytes);
  const ElementRange all{0, size / element_bytes};
  make_blosc_codec("lz4")->decode_pieces(encoded, size, element_bytes, std::span(&all, 1), scratch,
                                         sink);
  return sink.bytes();
}

std::uint32_t header_field(const Bytes& encoded, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, encoded.data() + at, 4);
  return value;
}

// Versions of the library change the block size that they are asked for: the header has what came
// of it.
std::uint32_t block_bytes(const Bytes& encoded) { return header_field(encoded, 8); }
std::uint32_t block_count(const Bytes& encoded) {
  return (header_field(encoded, 4) + block_bytes(encoded) - 1) / block_bytes(encoded);
}

// Whether the library splits blocks into one stream for each byte of an element, while it lives.
class SplitMode {
 public:
  explicit SplitMode(int mode) { blosc_set_splitmode(mode); }
  ~SplitMode() { blosc_set_splitmode(BLOSC_FORWARD_COMPAT_SPLIT); }
  SplitMode(const SplitMode&) = delete;
  SplitMode& operator=(const SplitMode&) = delete;
};

std::string error_of(const Bytes& encoded, std::size_t size) {
  return decode_error_of(*make_blosc_codec("lz4"), encoded, size);
}

TEST(Blosc, DecodesWhatTheLibraryEncodesWithAnySettings) {
  for (const char* cname : kInnerNames) {
    if (blosc_compname_to_compcode(cname) < 0) continue;
    for (const int shuffle : {0, 1, 2}) {
      for (const int clevel : {0, 5, 9}) {
        for (const std::size_t type_bytes : {1, 4, 8, 17}) {
          for (const std::size_t block_bytes : {0, 1024}) {
            for (const std::size_t size : {4, 132, 1024, 140004}) {
              SCOPED_TRACE(fmt::format("{} shuffle {} clevel {} type {} block {} size {}", cname,
                                       shuffle, clevel, type_bytes, block_bytes, size));
              const Bytes bytes = field(size);
              const Bytes encoded =
                  encode(bytes, {cname, clevel, shuffle, type_bytes, block_bytes});
              EXPECT_LE(encoded.size(), make_blosc_codec(cname)->max_encoded_bytes(size));
              EXPECT_EQ(decode(*make_blosc_codec(cname), encoded, size), bytes);
              EXPECT_EQ(decode_by_pieces(encoded, size, 4), bytes);
            }
          }
        }
      }
    }
  }
}

TEST(Blosc, ReadsChunksOfManyBlocksSplitOrNotWithAShortLastOne) {
  for (const int mode : {BLOSC_ALWAYS_SPLIT, BLOSC_NEVER_SPLIT}) {
    const SplitMode guard(mode);
    for (const char* cname : {"lz4", "zstd", "zlib"}) {
      for (const int shuffle : {0, 1}) {
        const Bytes bytes = field(300004);
        const Bytes encoded =
            encode(bytes, {.cname = cname, .shuffle = shuffle, .block_bytes = 2048});
        EXPECT_EQ(std::to_integer<int>(encoded[2]) & 0x10, mode == BLOSC_NEVER_SPLIT ? 0x10 : 0);
        EXPECT_GE(block_count(encoded), 5u);
        EXPECT_EQ(decode(*make_blosc_codec(cname), encoded, bytes.size()), bytes);
        EXPECT_EQ(decode_by_pieces(encoded, bytes.size(), 4), bytes)
            << cname << " split mode " << mode;
      }
    }
  }
}

TEST(Blosc, HandsOverShuffledFloatsAsPlanesAndOthersAsTheyAre) {
  const Bytes bytes = arange(10000);
  const ElementRange all{0, 10000};
  DecodeScratch scratch;
  for (const int shuffle : {0, 1, 2}) {
    Assembler sink(bytes.size(), 4);
    make_blosc_codec("lz4")->decode_pieces(encode(bytes, {.shuffle = shuffle}), bytes.size(), 4,
                                           std::span(&all, 1), scratch, sink);
    EXPECT_EQ(sink.bytes(), bytes);
    for (const Piece& piece : sink.pieces) EXPECT_EQ(piece.planar, shuffle == 1);
  }
}

TEST(Blosc, DecodesOnlyTheBlocksThatAreWanted) {
  const Bytes bytes = arange(65536);
  Bytes encoded = encode(bytes, {.block_bytes = 1024});
  const std::uint64_t block = block_bytes(encoded) / 4;
  ASSERT_GE(65536 / block, 4u);
  // Block 0 starts outside the chunk: whoever touches it fails.
  std::memset(encoded.data() + 16, 0x7f, 4);
  const std::vector<ElementRange> wanted{
      {block + 1, block + 2}, {block + 5, block + 9}, {3 * block, 3 * block + 1}};
  DecodeScratch scratch;
  Assembler sink(bytes.size(), 4);
  make_blosc_codec("lz4")->decode_pieces(encoded, bytes.size(), 4, wanted, scratch, sink);
  ASSERT_EQ(sink.pieces.size(), 2u);
  EXPECT_EQ(sink.pieces[0].first, block);
  EXPECT_EQ(sink.pieces[0].count, block);
  EXPECT_EQ(sink.pieces[1].first, 3 * block);
  EXPECT_TRUE(std::equal(bytes.begin() + 4 * block, bytes.begin() + 8 * block,
                         sink.bytes().begin() + 4 * block));
  EXPECT_EQ(scratch.size_bytes(), block * 4);
}

TEST(Blosc, CopiesNothingOfStreamsThatAreStoredAsTheyAre) {
  const Bytes bytes = field(4096);
  const Bytes encoded = encode(bytes, {});
  const ElementRange all{0, 1024};
  DecodeScratch scratch;
  Assembler sink(bytes.size(), 4);
  make_blosc_codec("lz4")->decode_pieces(encoded, bytes.size(), 4, std::span(&all, 1), scratch,
                                         sink);
  ASSERT_EQ(sink.pieces.size(), 1u);
  const auto inside = [&](const std::byte* at) {
    return at >= encoded.data() && at < encoded.data() + encoded.size();
  };
  EXPECT_TRUE(inside(sink.pieces[0].bytes[0]));   // noise
  EXPECT_FALSE(inside(sink.pieces[0].bytes[3]));  // smooth
}

TEST(Blosc, DoesNotUnshuffleAChunkThatWasOnlyCopied) {
  std::mt19937 random(1);
  Bytes bytes(4000);
  for (std::byte& byte : bytes) byte = std::byte(random() & 0xff);
  for (const Settings& settings :
       {Settings{.cname = "zstd", .clevel = 0}, Settings{.cname = "lz4", .clevel = 9}}) {
    const Bytes encoded = encode(bytes, settings);
    ASSERT_EQ(encoded.size(), 4016u);
    ASSERT_EQ(std::to_integer<int>(encoded[2]) & 0x03,
              0x03);  // copied, and the shuffle bit all the same
    EXPECT_EQ(decode(*make_blosc_codec("lz4"), encoded, 4000), bytes);
    EXPECT_EQ(decode_by_pieces(encoded, 4000, 4), bytes);
  }
}

TEST(Blosc, RefusesAChunkThatLostItsLastByte) {
  const Bytes encoded = encode(arange(10000), {});
  const std::size_t size = encoded.size();
  EXPECT_EQ(
      error_of(front(encoded, size - 1), 40000),
      "blosc: truncated: " + std::to_string(size - 1) + " of " + std::to_string(size) + " bytes");
  EXPECT_EQ(error_of(front(encoded, 8), 40000),
            "blosc: got 8 bytes, expected at least the header of 16");
  EXPECT_EQ(error_of({}, 40000), "blosc: got 0 bytes, expected at least the header of 16");
}

TEST(Blosc, RefusesBytesAfterTheChunk) {
  Bytes encoded = encode(arange(1000), {});
  const std::size_t size = encoded.size();
  encoded.push_back(std::byte{0});
  EXPECT_EQ(error_of(encoded, 4000), "blosc: got " + std::to_string(size + 1) +
                                         " bytes, expected " + std::to_string(size) +
                                         " as its header says");
}

TEST(Blosc, RefusesAChunkOfAnotherSize) {
  EXPECT_EQ(error_of(encode(arange(1000), {}), 4004),
            "blosc: holds 4000 bytes decoded, expected 4004");
  EXPECT_EQ(error_of(encode(arange(1000), {}), 3996),
            "blosc: holds 4000 bytes decoded, expected 3996");
}

TEST(Blosc, RefusesHeadersThatNoWriterMakes) {
  const auto with = [](std::size_t at, const std::vector<int>& values) {
    Bytes encoded = encode(arange(1000), {});
    for (const int value : values) encoded[at++] = std::byte(value);
    return error_of(encoded, 4000);
  };
  EXPECT_EQ(with(0, {0}), "blosc: got container version 0, expected 2");
  EXPECT_EQ(with(0, {255}), "blosc: got container version 255, expected 2");
  EXPECT_EQ(with(1, {9}), "blosc: got stream version 9, expected 1");
  EXPECT_EQ(with(2, {0xe1}), "blosc: got header flags 0xe1, which no known format has");
  EXPECT_EQ(with(3, {0}), "blosc: got a type size of 0");
  EXPECT_EQ(with(4, {0xff, 0xff, 0xff, 0x7f}),
            "blosc: holds 2147483647 bytes decoded, expected 4000");
  EXPECT_EQ(with(8, {0, 0, 0, 0}), "blosc: got blocks of 0 bytes for 4000 decoded bytes");
  EXPECT_EQ(with(8, {0xff, 0xff, 0, 0}), "blosc: got blocks of 65535 bytes for 4000 decoded bytes");
  EXPECT_NE(with(8, {1, 0, 0, 0}).find("too few for a table of 4000 blocks"), std::string::npos);
  EXPECT_NE(with(12, {15, 0, 0, 0}).find("expected 15 as its header says"), std::string::npos);
  EXPECT_EQ(with(16, {0, 0, 0, 0}), "blosc: block 0 of 1 starts at byte 0, inside the header");
  EXPECT_NE(with(16, {0xff, 0xff, 0xff, 0xff}).find("stream 0 of block 0 of 1 leaves the chunk"),
            std::string::npos);
  EXPECT_NE(with(20, {0xff, 0xff, 0xff, 0x7f}).find("stream 0 of block 0 of 1 leaves the chunk"),
            std::string::npos);
  EXPECT_NE(with(20, {0, 0, 0, 0}).find("stream 0 of block 0 of 1 leaves the chunk"),
            std::string::npos);
}

// Small chunks of every format: one block of four streams, and several blocks of one stream.
std::vector<Bytes> small_chunks(std::size_t size) {
  std::vector<Bytes> chunks;
  for (const char* cname : kInnerNames) {
    if (blosc_compname_to_compcode(cname) < 0) continue;
    for (const int shuffle : {1, 2}) {
      for (const int mode : {BLOSC_ALWAYS_SPLIT, BLOSC_NEVER_SPLIT}) {
        const SplitMode guard(mode);
        chunks.push_back(
            encode(field(size), {.cname = cname, .shuffle = shuffle, .block_bytes = 512}));
      }
    }
  }
  return chunks;
}

TEST(Blosc, SurvivesTruncationAtEveryByte) {
  const auto codec = make_blosc_codec("lz4");
  for (const Bytes& encoded : small_chunks(1200)) {
    for (std::size_t size = 0; size < encoded.size(); ++size) {
      Bytes cut = front(encoded, size);
      EXPECT_THROW(decode(*codec, cut, 1200), Error) << "cut to " << size;
      if (size < 16) continue;
      // With a header that agrees with the cut, only the lengths inside can tell.
      const auto claimed = static_cast<std::uint32_t>(size);
      std::memcpy(cut.data() + 12, &claimed, 4);
      survive(*codec, cut, 1200);
    }
  }
}

TEST(Blosc, SurvivesEveryFlippedBit) {
  const auto codec = make_blosc_codec("lz4");
  for (const Bytes& encoded : small_chunks(1200)) {
    for (std::size_t bit = 0; bit < encoded.size() * 8; ++bit) {
      Bytes flipped = encoded;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      survive(*codec, flipped, 1200);
    }
  }
}

TEST(Blosc, SurvivesRandomBytesInHeaderAndStreams) {
  std::mt19937 random(11);
  const auto codec = make_blosc_codec("lz4");
  for (const Bytes& encoded : small_chunks(2400)) {
    for (int trial = 0; trial < 200; ++trial) {
      Bytes damaged = encoded;
      const std::size_t reach = trial % 2 == 0 ? 64 : damaged.size();
      for (int k = 0; k < 4; ++k) damaged[random() % reach] = std::byte(random() & 0xff);
      // The sizes stay right, or nothing behind the header would ever be read.
      std::memcpy(damaged.data() + 12, encoded.data() + 12, 4);
      std::memcpy(damaged.data() + 4, encoded.data() + 4, 4);
      survive(*codec, damaged, 2400);
    }
  }
}

TEST(Blosc, RefusesAnUnknownInnerCodecByName) {
  try {
    make_blosc_codec("lz5");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFormat);
    EXPECT_STREQ(
        error.what(),
        "blosc cname: got \"lz5\", expected one of blosclz, lz4, lz4hc, snappy, zlib and zstd");
  }
}

}  // namespace
}  // namespace niskin::zarr
