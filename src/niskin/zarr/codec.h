// Codecs: from the stored bytes of a chunk to its elements.
//
// A codec is immutable and shared by all threads; what a thread reuses between calls lives in a
// DecodeScratch of its own. Every length that a chunk claims is checked against the encoded size
// and the decoded size that the metadata promises before a library sees it; nothing is allocated by
// what a chunk claims. Wrong bytes throw DecodeError ("blosc: 131072 of 136004 bytes"), without a
// place: the array adds it. Codecs never start threads and keep no global state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

namespace niskin::zarr {

// Elements [begin, end) of a chunk, counted in the order in which they are stored.
struct ElementRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const ElementRange&) const = default;
};

// A run of decoded elements that is still in the core's cache. Valid only during the call it is
// handed to. Pointers have no alignment: they may lie anywhere in the encoded bytes.
struct Piece {
  std::uint64_t first = 0;  // index of its first element in the chunk
  std::uint64_t count = 0;  // elements
  // planar == false: bytes[0] holds the elements one after the other, as stored (endianness
  // included). planar == true (4-byte elements only): bytes[k] holds byte k of every element
  // (blosc's byte shuffle).
  bool planar = false;
  std::array<const std::byte*, 4> bytes{};
};

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void take(const Piece& piece) = 0;
};

// Buffers and decompression contexts of one worker thread, kept and reused. Grows to the largest
// chunk it has met and never shrinks. Not shared between threads.
class DecodeScratch {
 public:
  DecodeScratch();
  ~DecodeScratch();
  DecodeScratch(const DecodeScratch&) = delete;
  DecodeScratch& operator=(const DecodeScratch&) = delete;

  // Exactly `size_bytes`, 64-byte aligned, content undefined; the next call takes it back. Two
  // buffers that may be in use at once: `decoded` for a whole chunk, `block` for a part of one.
  std::span<std::byte> decoded(std::size_t size_bytes);
  std::span<std::byte> block(std::size_t size_bytes);
  // Memory held by the two buffers.
  std::size_t size_bytes() const noexcept;

  struct Contexts;  // of the libraries; see codecs/contexts.h
  Contexts& contexts() noexcept { return *contexts_; }

 private:
  struct Release {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Buffer {
    std::unique_ptr<std::byte, Release> memory;
    std::size_t size_bytes = 0;
    std::span<std::byte> at_least(std::size_t wanted_bytes);
  };
  Buffer decoded_;
  Buffer block_;
  std::unique_ptr<Contexts> contexts_;
};

class Codec {
 public:
  virtual ~Codec() = default;
  // As the metadata names it, for example "blosc-lz4".
  virtual const std::string& name() const = 0;
  // No encoding of `decoded_bytes` that a writer makes is longer than this.
  virtual std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const = 0;
  // The largest chunk that the encoding can hold.
  virtual std::uint64_t max_decoded_bytes() const {
    return std::numeric_limits<std::uint64_t>::max();
  }
  // Fills all of `out`: encoded must decode to exactly out.size() bytes.
  virtual void decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                      DecodeScratch& scratch) const = 0;
  // Hands over pieces, in ascending order and disjoint, that together cover `wanted` (sorted,
  // disjoint, not empty) and perhaps more. Codecs that can decode a part decode only what `wanted`
  // needs; the others decode the chunk into scratch.decoded and hand over one piece per wanted
  // range.
  virtual void decode_pieces(std::span<const std::byte> encoded, std::uint64_t chunk_bytes,
                             std::uint32_t element_bytes, std::span<const ElementRange> wanted,
                             DecodeScratch& scratch, PieceSink& sink) const;
};

}  // namespace niskin::zarr
