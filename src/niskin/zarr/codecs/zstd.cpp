#include <fmt/format.h>
#include <zstd.h>

#include "niskin/base/error.h"
#include "niskin/zarr/codecs/codecs.h"
#include "niskin/zarr/codecs/contexts.h"

namespace niskin::zarr {
namespace {

class ZstdCodec final : public Codec {
 public:
  const std::string& name() const override { return name_; }

  // Several frames, skippable ones included, have no limit of their own: this is beyond any sane
  // writer.
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return 2 * decoded_bytes + (std::uint64_t{1} << 20);
  }

  void decode(std::span<const std::byte> encoded, std::span<std::byte> out,
              DecodeScratch& scratch) const override {
    if (encoded.empty()) throw decode_error("zstd: got 0 bytes, expected a frame");
    const std::size_t got = ZSTD_decompressDCtx(scratch.contexts().zstd(), out.data(), out.size(),
                                                encoded.data(), encoded.size());
    if (ZSTD_isError(got)) {
      throw decode_error(fmt::format("zstd: {} bytes do not decode to the expected {}: {}",
                                     encoded.size(), out.size(), ZSTD_getErrorName(got)));
    }
    if (got != out.size()) {
      throw decode_error(fmt::format("zstd: decoded {} bytes, expected {}", got, out.size()));
    }
  }

 private:
  std::string name_ = "zstd";
};

}  // namespace

std::shared_ptr<const Codec> make_zstd_codec() { return std::make_shared<ZstdCodec>(); }

}  // namespace niskin::zarr
