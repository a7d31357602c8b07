#include <blosc.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "niskin/base/error.h"
#include "niskin/zarr/codecs/blosc_container.h"
#include "niskin/zarr/codecs/codecs.h"
#include "niskin/zarr/codecs/contexts.h"

namespace niskin::zarr {
namespace {

constexpr std::uint32_t kPlanarBytes = 4;

// Whether this file inflates the streams; the Blosc library does the others, a whole chunk at a
// time.
bool inflates(BloscFormat format) {
  return format == BloscFormat::kLz4 || format == BloscFormat::kZstd ||
         format == BloscFormat::kZlib;
}

// Decodes `stream` into exactly `out`; false if it does not.
bool inflate(BloscFormat format, std::span<const std::byte> stream, std::span<std::byte> out,
             DecodeScratch::Contexts& contexts) {
  switch (format) {
    case BloscFormat::kLz4:
      return LZ4_decompress_safe(reinterpret_cast<const char*>(stream.data()),
                                 reinterpret_cast<char*>(out.data()),
                                 static_cast<int>(stream.size()),
                                 static_cast<int>(out.size())) == static_cast<int>(out.size());
    case BloscFormat::kZstd:
      return ZSTD_decompressDCtx(contexts.zstd(), out.data(), out.size(), stream.data(),
                                 stream.size()) == out.size();
    case BloscFormat::kZlib:
      return libdeflate_zlib_decompress(contexts.deflate(), stream.data(), stream.size(),
                                        out.data(), out.size(), nullptr) == LIBDEFLATE_SUCCESS;
    case BloscFormat::kBloscLz:
    case BloscFormat::kSnappy:
      break;
  }
  return false;
}

// Decodes single blocks and hands each over in the form in which it leaves the streams.
class BlockReader {
 public:
  BlockReader(const BloscContainer& container, std::uint32_t element_bytes, DecodeScratch& scratch,
              PieceSink& sink)
      : container_(container),
        element_bytes_(element_bytes),
        planar_(container.byte_shuffled() && container.type_bytes() > 1),
        scratch_(scratch),
        sink_(sink) {}

  // Whether blocks of this chunk can be handed over at all: whole elements, and a shuffle that a
  // Piece can say.
  bool can_read() const {
    if (!inflates(container_.format()) || container_.bit_shuffled()) return false;
    if (container_.block_bytes() % element_bytes_ != 0) return false;
    return !planar_ || (element_bytes_ == kPlanarBytes && container_.type_bytes() == kPlanarBytes);
  }

  void read(std::size_t block) {
    const BloscContainer::Streams streams = container_.streams_of(block);
    const std::size_t bytes = streams.count * streams.decoded_bytes;
    Piece piece{.first = block * container_.block_bytes() / element_bytes_,
                .count = bytes / element_bytes_,
                .planar = planar_};
    if (planar_ && streams.count == kPlanarBytes) {
      const std::span<std::byte> out = scratch_.block(bytes);
      for (std::size_t k = 0; k < kPlanarBytes; ++k) {
        piece.bytes[k] = stream_bytes(
            block, streams, k, out.subspan(k * streams.decoded_bytes, streams.decoded_bytes));
      }
    } else {
      const std::byte* const decoded = contiguous(block, streams);
      const std::size_t planes = planar_ ? kPlanarBytes : 1;
      for (std::size_t k = 0; k < planes; ++k) piece.bytes[k] = decoded + k * piece.count;
    }
    sink_.take(piece);
  }

 private:
  // A stream that is stored as it is needs no copy.
  const std::byte* stream_bytes(std::size_t block, const BloscContainer::Streams& streams,
                                std::size_t k, std::span<std::byte> out) {
    const std::span<const std::byte> stream = streams.encoded[k];
    if (stream.size() == streams.decoded_bytes) return stream.data();
    if (!inflate(container_.format(), stream, out, scratch_.contexts())) {
      throw decode_error(
          fmt::format("blosc: stream {} of block {} of {} does not decode to {} bytes", k, block,
                      container_.block_count(), out.size()));
    }
    return out.data();
  }

  const std::byte* contiguous(std::size_t block, const BloscContainer::Streams& streams) {
    const std::span<std::byte> out = scratch_.block(streams.count * streams.decoded_bytes);
    if (streams.count == 1) return stream_bytes(block, streams, 0, out);
    for (std::size_t k = 0; k < streams.count; ++k) {
      const auto part = out.subspan(k * streams.decoded_bytes, streams.decoded_bytes);
      const std::byte* const decoded = stream_bytes(block, streams, k, part);
      if (decoded != part.data()) std::memcpy(part.data(), decoded, part.size());
    }
    return out.data();
  }

  const BloscContainer& container_;
  std::uint32_t element_bytes_;
  bool planar_;
  DecodeScratch& scratch_;
  PieceSink& sink_;
};

class BloscCodec final : public Codec {
 public:
  explicit BloscCodec(std::string name) : name_(std::move(name)) {}

  const std::string& name() const override { return name_; }

  // Streams of at least 128 bytes cost at most 8 bytes each beside what they hold.
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return decoded_bytes + decoded_bytes / 8 + 4096;
  }
  std::uint64_t max_decoded_bytes() const override { return BLOSC_MAX_BUFFERSIZE; }

  void decode(std::span<const std::byte> encoded, std::span<std::byte> out,
              DecodeScratch& /*scratch*/) const override {
    const BloscContainer container(encoded, out.size());
    if (out.empty()) return;
    if (container.copied()) {
      std::memcpy(out.data(), container.copied_bytes().data(), out.size());
      return;
    }
    // The library trusts the lengths of streams more than it should, in some versions.
    for (std::size_t block = 0; block < container.block_count(); ++block) {
      static_cast<void>(container.streams_of(block));
    }
    const int got = blosc_decompress_ctx(encoded.data(), out.data(), out.size(), 1);
    if (got < 0 && container.format() == BloscFormat::kSnappy &&
        blosc_compname_to_compcode(BLOSC_SNAPPY_COMPNAME) < 0) {
      throw decode_error("blosc: got a chunk in snappy, which the Blosc library was built without");
    }
    if (got != static_cast<int>(out.size())) {
      throw decode_error(fmt::format("blosc: {} bytes do not decode to the expected {}: damaged",
                                     encoded.size(), out.size()));
    }
  }

  void decode_pieces(std::span<const std::byte> encoded, std::uint64_t chunk_bytes,
                     std::uint32_t element_bytes, std::span<const ElementRange> wanted,
                     DecodeScratch& scratch, PieceSink& sink) const override {
    const BloscContainer container(encoded, chunk_bytes);
    if (container.copied()) {
      for (const ElementRange& range : wanted) {
        sink.take({.first = range.begin,
                   .count = range.end - range.begin,
                   .bytes = {container.copied_bytes().data() + range.begin * element_bytes}});
      }
      return;
    }
    BlockReader reader(container, element_bytes, scratch, sink);
    if (!reader.can_read()) {
      Codec::decode_pieces(encoded, chunk_bytes, element_bytes, wanted, scratch, sink);
      return;
    }
    const std::uint64_t block_elements = container.block_bytes() / element_bytes;
    std::uint64_t next = 0;  // first block that has not been handed over
    for (const ElementRange& range : wanted) {
      const std::uint64_t end = (range.end - 1) / block_elements + 1;
      for (next = std::max(next, range.begin / block_elements); next < end; ++next)
        reader.read(next);
    }
  }

 private:
  std::string name_;
};

}  // namespace

std::shared_ptr<const Codec> make_blosc_codec(const std::string& inner_name) {
  for (const char* known : {BLOSC_BLOSCLZ_COMPNAME, BLOSC_LZ4_COMPNAME, BLOSC_LZ4HC_COMPNAME,
                            BLOSC_SNAPPY_COMPNAME, BLOSC_ZLIB_COMPNAME, BLOSC_ZSTD_COMPNAME}) {
    if (inner_name != known) continue;
    if (blosc_compname_to_compcode(known) < 0) {
      throw format_error(
          fmt::format("blosc cname: got \"{}\", which the Blosc library was built without", known));
    }
    return std::make_shared<BloscCodec>("blosc-" + inner_name);
  }
  throw format_error(fmt::format(
      "blosc cname: got \"{}\", expected one of blosclz, lz4, lz4hc, snappy, zlib and zstd",
      inner_name));
}

}  // namespace niskin::zarr
