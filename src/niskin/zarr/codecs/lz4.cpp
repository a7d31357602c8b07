#include <fmt/format.h>
#include <lz4.h>

#include "niskin/base/error.h"
#include "niskin/zarr/codecs/codecs.h"
#include "niskin/zarr/codecs/little_endian.h"

namespace niskin::zarr {
namespace {

constexpr std::size_t kPrefixBytes = 4;

class Lz4Codec final : public Codec {
 public:
  const std::string& name() const override { return name_; }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return kPrefixBytes + decoded_bytes + decoded_bytes / 255 + 16;
  }
  std::uint64_t max_decoded_bytes() const override { return LZ4_MAX_INPUT_SIZE; }

  void decode(std::span<const std::byte> encoded, std::span<std::byte> out,
              DecodeScratch& /*scratch*/) const override {
    if (encoded.size() < kPrefixBytes) {
      throw decode_error(fmt::format("lz4: got {} bytes, expected at least the size prefix of {}",
                                     encoded.size(), kPrefixBytes));
    }
    const std::uint32_t claimed_bytes = load_le32(encoded.data());
    if (claimed_bytes != out.size()) {
      throw decode_error(fmt::format("lz4: the size prefix says {} bytes, expected {}",
                                     claimed_bytes, out.size()));
    }
    if (out.size() > max_decoded_bytes() || encoded.size() > max_encoded_bytes(out.size())) {
      throw decode_error(fmt::format("lz4: got {} bytes, more than any block of {} bytes",
                                     encoded.size(), out.size()));
    }
    const auto block = encoded.subspan(kPrefixBytes);
    const int got = LZ4_decompress_safe(
        reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(out.data()),
        static_cast<int>(block.size()), static_cast<int>(out.size()));
    if (got < 0) {
      throw decode_error(
          fmt::format("lz4: {} bytes do not decode to the expected {}: truncated or damaged",
                      encoded.size(), out.size()));
    }
    if (static_cast<std::size_t>(got) != out.size()) {
      throw decode_error(fmt::format("lz4: decoded {} bytes, expected {}", got, out.size()));
    }
  }

 private:
  std::string name_ = "lz4";
};

}  // namespace

std::shared_ptr<const Codec> make_lz4_codec() { return std::make_shared<Lz4Codec>(); }

}  // namespace niskin::zarr
