#include "niskin/zarr/store.h"

#include <fmt/format.h>

#include "niskin/base/error.h"

namespace niskin::zarr {

void Value::prefetch(std::uint64_t /*offset_bytes*/, std::uint64_t /*size_bytes*/) {}

std::optional<std::string> read_text(const Store& store, const std::string& key,
                                     std::uint64_t limit_bytes) {
  const auto value = store.open(key);
  if (!value) return std::nullopt;
  const std::uint64_t size_bytes = value->size_bytes();
  if (size_bytes > limit_bytes) {
    throw store_error(
        fmt::format("{}: got {} bytes, expected at most {}", key, size_bytes, limit_bytes))
        .at({.store = store.name()});
  }
  std::string text(size_bytes, '\0');
  const std::size_t got_bytes =
      value->read(0, std::as_writable_bytes(std::span(text.data(), text.size())), ReadMode::kWait);
  if (got_bytes != size_bytes) {
    throw store_error(fmt::format("{}: got {} bytes, expected {}", key, got_bytes, size_bytes),
                      "the value became shorter while it was read")
        .at({.store = store.name()});
  }
  return text;
}

}  // namespace niskin::zarr
