#include "niskin/zarr/codecs/blosc_container.h"

#include <blosc.h>
#include <fmt/format.h>

#include "niskin/base/error.h"
#include "niskin/zarr/codecs/little_endian.h"

namespace niskin::zarr {
namespace {

// Byte 2 of the header. Bits 5 to 7 are the format.
constexpr unsigned kByteShuffle = 0x01;
constexpr unsigned kCopied = 0x02;
constexpr unsigned kBitShuffle = 0x04;
constexpr unsigned kReserved = 0x08;
constexpr unsigned kDontSplit = 0x10;
constexpr unsigned kFormatShift = 5;

constexpr unsigned kContainerVersion = 2;
constexpr unsigned kStreamVersion = 1;  // of every format so far
// A block of fewer elements than this is never split.
constexpr std::size_t kMinSplitElements = 128;
constexpr std::size_t kLengthBytes = 4;

}  // namespace

BloscContainer::BloscContainer(std::span<const std::byte> encoded, std::uint64_t decoded_bytes)
    : encoded_(encoded) {
  read_header(decoded_bytes);
  if (copied_) {
    if (encoded_.size() != kHeaderBytes + decoded_bytes_) {
      throw decode_error(fmt::format("blosc: stored without compression in {} bytes, expected {}",
                                     encoded_.size(), kHeaderBytes + decoded_bytes_));
    }
    return;
  }
  if (block_count_ > (encoded_.size() - kHeaderBytes) / kLengthBytes) {
    throw decode_error(fmt::format("blosc: got {} bytes, too few for a table of {} blocks",
                                   encoded_.size(), block_count_));
  }
}

void BloscContainer::read_header(std::uint64_t decoded_bytes) {
  if (encoded_.size() < kHeaderBytes) {
    throw decode_error(fmt::format("blosc: got {} bytes, expected at least the header of {}",
                                   encoded_.size(), kHeaderBytes));
  }
  const auto version = std::to_integer<unsigned>(encoded_[0]);
  const auto stream_version = std::to_integer<unsigned>(encoded_[1]);
  const auto flags = std::to_integer<unsigned>(encoded_[2]);
  type_bytes_ = std::to_integer<std::uint32_t>(encoded_[3]);
  const std::uint32_t claimed_decoded = load_le32(encoded_.data() + 4);
  const std::uint32_t claimed_block = load_le32(encoded_.data() + 8);
  const std::uint32_t claimed_encoded = load_le32(encoded_.data() + 12);

  if (version != kContainerVersion) {
    throw decode_error(
        fmt::format("blosc: got container version {}, expected {}", version, kContainerVersion));
  }
  if (claimed_encoded > encoded_.size()) {
    throw decode_error(
        fmt::format("blosc: truncated: {} of {} bytes", encoded_.size(), claimed_encoded));
  }
  if (claimed_encoded < encoded_.size()) {
    throw decode_error(fmt::format("blosc: got {} bytes, expected {} as its header says",
                                   encoded_.size(), claimed_encoded));
  }
  if (claimed_decoded != decoded_bytes) {
    throw decode_error(
        fmt::format("blosc: holds {} bytes decoded, expected {}", claimed_decoded, decoded_bytes));
  }
  if (claimed_decoded > BLOSC_MAX_BUFFERSIZE) {
    throw decode_error(fmt::format("blosc: holds {} bytes decoded, expected at most {}",
                                   claimed_decoded, BLOSC_MAX_BUFFERSIZE));
  }
  if (type_bytes_ == 0) throw decode_error("blosc: got a type size of 0");
  copied_ = (flags & kCopied) != 0;
  byte_shuffled_ = (flags & kByteShuffle) != 0;
  bit_shuffled_ = (flags & kBitShuffle) != 0;
  split_ = (flags & kDontSplit) == 0;
  const unsigned format = flags >> kFormatShift;
  if ((flags & kReserved) != 0 || format > static_cast<unsigned>(BloscFormat::kZstd)) {
    throw decode_error(
        fmt::format("blosc: got header flags {:#04x}, which no known format has", flags));
  }
  format_ = static_cast<BloscFormat>(format);
  if (!copied_ && stream_version != kStreamVersion) {
    throw decode_error(
        fmt::format("blosc: got stream version {}, expected {}", stream_version, kStreamVersion));
  }
  decoded_bytes_ = claimed_decoded;
  if (decoded_bytes_ == 0) return;
  if (claimed_block == 0 || claimed_block > claimed_decoded ||
      claimed_block > BLOSC_MAX_BLOCKSIZE) {
    throw decode_error(fmt::format("blosc: got blocks of {} bytes for {} decoded bytes",
                                   claimed_block, claimed_decoded));
  }
  block_bytes_ = claimed_block;
  block_count_ = (decoded_bytes_ + block_bytes_ - 1) / block_bytes_;
}

std::size_t BloscContainer::decoded_bytes_of(std::size_t block) const noexcept {
  const std::size_t begin = block * block_bytes_;
  return decoded_bytes_ - begin < block_bytes_ ? decoded_bytes_ - begin : block_bytes_;
}

BloscContainer::Streams BloscContainer::streams_of(std::size_t block) const {
  Streams streams;
  const std::size_t bytes = decoded_bytes_of(block);
  const bool split = split_ && bytes == block_bytes_ && type_bytes_ <= kMaxStreams &&
                     bytes / type_bytes_ >= kMinSplitElements;
  streams.count = split ? type_bytes_ : 1;
  streams.decoded_bytes = bytes / streams.count;
  if (streams.decoded_bytes * streams.count != bytes) {
    throw decode_error(fmt::format(
        "blosc: got blocks of {} bytes that do not split into {} streams", bytes, streams.count));
  }
  std::size_t at = load_le32(encoded_.data() + kHeaderBytes + block * kLengthBytes);
  if (at < kHeaderBytes + block_count_ * kLengthBytes) {
    throw decode_error(fmt::format("blosc: block {} of {} starts at byte {}, inside the header",
                                   block, block_count_, at));
  }
  for (std::size_t k = 0; k < streams.count; ++k) {
    const auto outside = [&] {
      return decode_error(
          fmt::format("blosc: stream {} of block {} of {} leaves the chunk of {} bytes", k, block,
                      block_count_, encoded_.size()));
    };
    if (at > encoded_.size() || encoded_.size() - at < kLengthBytes) throw outside();
    const std::size_t length = load_le32(encoded_.data() + at);
    at += kLengthBytes;
    if (length == 0 || length > encoded_.size() - at) throw outside();
    streams.encoded[k] = encoded_.subspan(at, length);
    at += length;
  }
  return streams;
}

}  // namespace niskin::zarr
