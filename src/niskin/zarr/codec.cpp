#include "niskin/zarr/codec.h"

#include <new>

#include "niskin/zarr/codecs/contexts.h"

namespace niskin::zarr {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

DecodeScratch::DecodeScratch() : contexts_(std::make_unique<Contexts>()) {}
DecodeScratch::~DecodeScratch() = default;

void DecodeScratch::Release::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kAlignment);
}

std::span<std::byte> DecodeScratch::Buffer::at_least(std::size_t wanted_bytes) {
  if (wanted_bytes > size_bytes) {
    memory.reset();  // first, so that old and new never exist together
    size_bytes = 0;
    memory.reset(static_cast<std::byte*>(::operator new(wanted_bytes, kAlignment)));
    size_bytes = wanted_bytes;
  }
  return {memory.get(), wanted_bytes};
}

std::span<std::byte> DecodeScratch::decoded(std::size_t size_bytes) {
  return decoded_.at_least(size_bytes);
}
std::span<std::byte> DecodeScratch::block(std::size_t size_bytes) {
  return block_.at_least(size_bytes);
}
std::size_t DecodeScratch::size_bytes() const noexcept {
  return decoded_.size_bytes + block_.size_bytes;
}

void Codec::decode_pieces(std::span<const std::byte> encoded, std::uint64_t chunk_bytes,
                          std::uint32_t element_bytes, std::span<const ElementRange> wanted,
                          DecodeScratch& scratch, PieceSink& sink) const {
  const std::span<std::byte> chunk = scratch.decoded(chunk_bytes);
  decode(encoded, chunk, scratch);
  for (const ElementRange& range : wanted) {
    sink.take({.first = range.begin,
               .count = range.end - range.begin,
               .bytes = {chunk.data() + range.begin * element_bytes}});
  }
}

}  // namespace niskin::zarr
