// What the tests of the codecs share: encoded bytes without slack, and a sink that puts pieces
// together.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "niskin/base/error.h"
#include "niskin/zarr/codec.h"

namespace niskin::zarr::testing {

using Bytes = std::vector<std::byte>;

inline Bytes to_bytes(const std::string& text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// A copy of exactly `size` bytes, so that a sanitizer sees the first byte read beyond it.
inline Bytes front(const Bytes& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + size};
}

// Puts the pieces of a chunk together and checks the promises of Codec::decode_pieces.
class Assembler final : public PieceSink {
 public:
  Assembler(std::uint64_t chunk_bytes, std::uint32_t element_bytes)
      : elements_(chunk_bytes / element_bytes),
        element_bytes_(element_bytes),
        bytes_(chunk_bytes) {}

  void take(const Piece& piece) override {
    ASSERT_GE(piece.first, next_);
    ASSERT_GT(piece.count, 0u);
    ASSERT_LE(piece.first + piece.count, elements_);
    next_ = piece.first + piece.count;
    for (std::uint64_t i = 0; i < piece.count; ++i) {
      std::byte* const to = bytes_.data() + (piece.first + i) * element_bytes_;
      for (std::uint32_t k = 0; k < element_bytes_; ++k) {
        to[k] = piece.planar ? piece.bytes[k][i] : piece.bytes[0][i * element_bytes_ + k];
      }
    }
    pieces.push_back(piece);
  }

  const Bytes& bytes() const { return bytes_; }
  std::vector<Piece> pieces;

 private:
  std::uint64_t elements_;
  std::uint32_t element_bytes_;
  std::uint64_t next_ = 0;
  Bytes bytes_;
};

inline Bytes decode(const Codec& codec, const Bytes& encoded, std::size_t decoded_bytes) {
  DecodeScratch scratch;
  Bytes out(decoded_bytes);
  codec.decode(encoded, out, scratch);
  return out;
}

inline std::string decode_error_of(const Codec& codec, const Bytes& encoded,
                                   std::size_t decoded_bytes) {
  try {
    decode(codec, encoded, decoded_bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDecode);
    return error.what();
  }
  ADD_FAILURE() << "decoded without an error";
  return {};
}

// Decodes damaged bytes both ways: each must end in DecodeError or in output of the right size.
inline void survive(const Codec& codec, const Bytes& encoded, std::size_t decoded_bytes) {
  DecodeScratch scratch;
  try {
    Bytes out(decoded_bytes);
    codec.decode(encoded, out, scratch);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDecode);
  }
  try {
    Assembler sink(decoded_bytes, 4);
    const ElementRange all{0, decoded_bytes / 4};
    codec.decode_pieces(encoded, decoded_bytes, 4, std::span(&all, 1), scratch, sink);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDecode);
  }
}

}  // namespace niskin::zarr::testing
