// The one fused pass: bytes of a chunk to finished numbers of a batch.
//
//   x finite rule    y = (x - mean) / std in float32, true division; NaN -> 0, +-inf -> +-largest
//   float32 mask after       dry cells are `fill` mask first       dry cells are `fill` before the
//   rule instead
//
// `prepare_scalar` is the truth; every variant gives the same bits. Short, contiguous, noexcept;
// allocates nothing. The caller sees to the floating-point mode (no flush-to-zero).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace niskin::kernels {

enum class Form : std::uint8_t {
  kNative,   // bytes[0]: float32 of this machine, any alignment
  kSwapped,  // bytes[0]: float32 of the other byte order
  kPlanar,   // bytes[k]: byte k of every element, least significant first
};

struct Source {
  Form form = Form::kNative;
  std::array<const std::byte*, 4> bytes{};

  // The same source from element `count` on.
  Source skip(std::size_t count) const noexcept;
};

struct Transform {
  float mean = 0;
  float std = 1;
  float fill = 0;
  bool mask_first = false;
};

struct Wet {
  const std::uint8_t* bits = nullptr;  // eight readable bytes after the last bit
  std::size_t first_bit = 0;           // of the first cell
};

// Where the same cells go: never empty. The numbers are computed once, whatever the number of
// slots.
using Slots = std::span<float* const>;

// Writes `count` cells to each of `outs`; returns how many wet cells of the source were NaN or
// infinite. `stream` bypasses the cache where the variant can: finish with `fence` before another
// thread reads them.
using Prepare = std::size_t (*)(const Source& source, const Transform& transform, Wet wet,
                                Slots outs, std::size_t count, bool stream) noexcept;

std::size_t prepare_scalar(const Source& source, const Transform& transform, Wet wet, Slots outs,
                           std::size_t count, bool stream) noexcept;

struct Variant {
  const char* name;
  Prepare prepare;
};
// Those this processor can run, the scalar truth first and the fastest last.
std::span<const Variant> variants();
// The fastest; decided once.
Prepare prepare();
// Makes streamed stores visible to threads that synchronise with this one afterwards.
void fence() noexcept;
// Round to nearest, subnormals kept, whatever the starting thread had set.
void set_exact_floating_point() noexcept;

// Element `index` of `source`.
float element(const Source& source, std::size_t index) noexcept;

}  // namespace niskin::kernels
