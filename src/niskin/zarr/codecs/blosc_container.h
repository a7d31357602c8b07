// The layout of a Blosc 1 chunk: header, block table, blocks of one or several length-prefixed
// streams.
//
// Reading it checks it: no offset or length that a chunk claims leaves the encoded bytes. Pure;
// borrows the encoded bytes. Private to the blosc codec.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace niskin::zarr {

// What compressed the streams.
enum class BloscFormat : std::uint8_t { kBloscLz = 0, kLz4 = 1, kSnappy = 2, kZlib = 3, kZstd = 4 };

class BloscContainer {
 public:
  static constexpr std::size_t kHeaderBytes = 16;
  static constexpr std::size_t kMaxStreams = 16;  // of one block

  // Throws DecodeError unless `encoded` is one whole chunk of `decoded_bytes`.
  BloscContainer(std::span<const std::byte> encoded, std::uint64_t decoded_bytes);

  std::uint32_t type_bytes() const noexcept { return type_bytes_; }
  BloscFormat format() const noexcept { return format_; }
  // Stored as it is, without shuffle and blocks, whatever the shuffle flags say.
  bool copied() const noexcept { return copied_; }
  std::span<const std::byte> copied_bytes() const noexcept {
    return encoded_.subspan(kHeaderBytes);
  }
  bool byte_shuffled() const noexcept { return byte_shuffled_; }
  bool bit_shuffled() const noexcept { return bit_shuffled_; }

  std::size_t block_bytes() const noexcept {
    return block_bytes_;
  }  // of all blocks but perhaps the last
  std::size_t block_count() const noexcept { return block_count_; }
  std::size_t decoded_bytes_of(std::size_t block) const noexcept;

  struct Streams {
    std::array<std::span<const std::byte>, kMaxStreams> encoded;
    std::size_t count = 0;
    std::size_t decoded_bytes =
        0;  // of each stream; one that is as long as this is stored as it is
  };
  // Throws DecodeError if a stream leaves the encoded bytes.
  Streams streams_of(std::size_t block) const;

 private:
  void read_header(std::uint64_t decoded_bytes);

  std::span<const std::byte> encoded_;
  BloscFormat format_ = BloscFormat::kBloscLz;
  std::uint32_t type_bytes_ = 0;
  bool copied_ = false;
  bool byte_shuffled_ = false;
  bool bit_shuffled_ = false;
  bool split_ = false;
  std::size_t decoded_bytes_ = 0;
  std::size_t block_bytes_ = 0;
  std::size_t block_count_ = 0;
};

}  // namespace niskin::zarr
