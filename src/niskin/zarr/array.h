// An array of a store: its metadata, its chunks and how they decode. Metadata is parsed once.
//
// Immutable and safe to use from several threads. Errors name store, array and chunk key.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "niskin/base/error.h"
#include "niskin/zarr/chunk_grid.h"
#include "niskin/zarr/codec.h"
#include "niskin/zarr/metadata.h"
#include "niskin/zarr/store.h"

namespace niskin::zarr {

// All owners share one count, those of the bindings too: the last to let go may be a worker, which
// must not run code of another language.
class Array : public std::enable_shared_from_this<Array> {
 public:
  Array(std::shared_ptr<const Store> store, ArrayMeta meta);

  const ArrayMeta& meta() const noexcept { return meta_; }
  const ChunkGrid& grid() const noexcept { return grid_; }
  const Store& store() const noexcept { return *store_; }
  // "thetao_0/3.0.0" below the root of the store; the part after the array's name is the chunk key.
  std::string value_key(const Shape& chunk) const;
  Place place(const Shape& chunk) const;

  // The stored chunk, nullptr if it is absent. Its size has been checked: an uncompressed chunk is
  // exactly chunk_bytes long, an encoded one neither empty nor longer than any valid encoding.
  // Throws DecodeError for damage and StoreError.
  std::unique_ptr<Value> open_chunk(const Shape& chunk) const;
  // Decodes an encoded chunk (meta().codec is set). See Codec::decode_pieces. Throws DecodeError
  // with its place.
  void decode_pieces(const Shape& chunk, std::span<const std::byte> encoded,
                     std::span<const ElementRange> wanted, DecodeScratch& scratch,
                     PieceSink& sink) const;
  // If this array has no chunk under its own key form but values that look like chunks under the
  // other separator: a FormatError that names both. Lists the array's prefix, so ask only when a
  // chunk is absent.
  std::optional<Error> key_form_conflict() const;

  // The whole array as float64 in C order, whatever its type: coordinates, masks, statistics,
  // tests. Absent chunks are the fill value. Reads and decodes every chunk once.
  std::vector<double> read_all() const;

 private:
  std::shared_ptr<const Store> store_;
  ArrayMeta meta_;
  ChunkGrid grid_;
};

}  // namespace niskin::zarr
