#include <fmt/format.h>
#include <libdeflate.h>

#include "niskin/base/error.h"
#include "niskin/zarr/codecs/codecs.h"
#include "niskin/zarr/codecs/contexts.h"

namespace niskin::zarr {
namespace {

// Decodes one member at the front of `encoded` into the front of `out`.
using DecodeMember = libdeflate_result (*)(libdeflate_decompressor*, const void* in,
                                           std::size_t in_bytes, void* out, std::size_t out_bytes,
                                           std::size_t* used_bytes, std::size_t* made_bytes);

class DeflateCodec final : public Codec {
 public:
  DeflateCodec(std::string name, DecodeMember decode_member, bool several_members)
      : name_(std::move(name)), decode_member_(decode_member), several_members_(several_members) {}

  const std::string& name() const override { return name_; }

  // A member may flush after every few bytes, so there is no exact limit: this is beyond any sane
  // writer.
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return 2 * decoded_bytes + (std::uint64_t{1} << 20);
  }

  void decode(std::span<const std::byte> encoded, std::span<std::byte> out,
              DecodeScratch& scratch) const override {
    std::size_t used = 0;
    std::size_t made = 0;
    do {
      std::size_t used_now = 0;
      std::size_t made_now = 0;
      const libdeflate_result result =
          decode_member_(scratch.contexts().deflate(), encoded.data() + used, encoded.size() - used,
                         out.data() + made, out.size() - made, &used_now, &made_now);
      if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
        throw decode_error(
            fmt::format("{}: decodes to more than the expected {} bytes", name_, out.size()));
      }
      if (result != LIBDEFLATE_SUCCESS) {
        throw decode_error(fmt::format(
            "{}: bytes from {} of {} are no valid stream (truncated, damaged or a wrong "
            "checksum)",
            name_, used, encoded.size()));
      }
      used += used_now;
      made += made_now;
    } while (several_members_ && used < encoded.size());
    if (made != out.size()) {
      throw decode_error(fmt::format("{}: decoded {} bytes, expected {}", name_, made, out.size()));
    }
    if (used != encoded.size()) {
      throw decode_error(
          fmt::format("{}: the stream ends after {} bytes, got {}", name_, used, encoded.size()));
    }
  }

 private:
  std::string name_;
  DecodeMember decode_member_;
  bool several_members_;
};

}  // namespace

std::shared_ptr<const Codec> make_zlib_codec() {
  return std::make_shared<DeflateCodec>("zlib", &libdeflate_zlib_decompress_ex, false);
}

std::shared_ptr<const Codec> make_gzip_codec() {
  return std::make_shared<DeflateCodec>("gzip", &libdeflate_gzip_decompress_ex, true);
}

}  // namespace niskin::zarr
