// The codecs there are. Immutable, shared by all arrays and threads.
#pragma once

#include <memory>
#include <string>

#include "niskin/zarr/codec.h"

namespace niskin::zarr {

// The Blosc 1 container. `inner_name` names the codec for messages; the header of each chunk
// decides how it is decoded. Throws FormatError if `inner_name` is unknown or the Blosc library was
// built without it.
std::shared_ptr<const Codec> make_blosc_codec(const std::string& inner_name);
// Zstandard frames (RFC 8878), one or several, with or without a content size; checksums are
// verified.
std::shared_ptr<const Codec> make_zstd_codec();
// One zlib stream (RFC 1950); its Adler-32 is verified.
std::shared_ptr<const Codec> make_zlib_codec();
// gzip members (RFC 1952), joined; each CRC-32 is verified.
std::shared_ptr<const Codec> make_gzip_codec();
// The decoded size as little-endian uint32, then one LZ4 block.
std::shared_ptr<const Codec> make_lz4_codec();

}  // namespace niskin::zarr
