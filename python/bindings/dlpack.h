// Memory of a slab as a DLPack capsule whose deleter is plain C++.
//
// The consumer's last view may die in any thread, without the GIL, after the loader or while the
// interpreter ends: the deleter only lets go of the slab.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <memory>

namespace niskin::bindings {

// A base of a finished batch: float32 (rows, channels, ny, nx), C-contiguous.
struct BaseMemory {
  std::shared_ptr<void> owner;
  float* data = nullptr;
  std::array<std::int64_t, 4> shape{};
};

// A new capsule named "dltensor" (DLPack 0.x, host memory).
nanobind::object dlpack_capsule(const BaseMemory& base);

}  // namespace niskin::bindings
