// Decompression contexts of one worker thread, made when first used. Private to the codecs.
#pragma once

#include <libdeflate.h>
#include <zstd.h>

#include <memory>
#include <new>

#include "niskin/zarr/codec.h"

namespace niskin::zarr {

struct DecodeScratch::Contexts {
  ZSTD_DCtx* zstd() {
    if (!zstd_) zstd_.reset(ZSTD_createDCtx());
    if (!zstd_) throw std::bad_alloc();
    return zstd_.get();
  }
  libdeflate_decompressor* deflate() {
    if (!deflate_) deflate_.reset(libdeflate_alloc_decompressor());
    if (!deflate_) throw std::bad_alloc();
    return deflate_.get();
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
    void operator()(libdeflate_decompressor* context) const noexcept {
      libdeflate_free_decompressor(context);
    }
  };
  std::unique_ptr<ZSTD_DCtx, Free> zstd_;
  std::unique_ptr<libdeflate_decompressor, Free> deflate_;
};

}  // namespace niskin::zarr
