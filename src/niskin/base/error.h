// Errors that carry an address.
//
// Four kinds, as in the Python package: StoreError (the operating system or a missing key),
// FormatError (metadata that cannot be read as asked), UsageError (a call that makes no sense),
// DecodeError (bytes of a chunk that are not what the metadata promises). Raise one where the fact
// is known, with a message "what: got, expected"; add the place with `at` where the place is known.
// Values, safe to copy between threads.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace niskin {

enum class ErrorKind { kStore, kFormat, kUsage, kDecode };

// Where an error happened. Empty parts are left out of the message.
struct Place {
  std::string store{};
  std::string array{};
  std::string chunk_key{};
  std::optional<std::pair<std::uint64_t, std::uint64_t>> bytes{};  // half-open range in the value
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string what, std::string hint = {}, Place place = {});

  ErrorKind kind() const noexcept { return kind_; }
  const Place& place() const noexcept { return place_; }
  // The same error with the empty parts of its place filled from `place`.
  [[nodiscard]] Error at(const Place& place) const;
  [[nodiscard]] Error with_hint(std::string hint) const;

 private:
  ErrorKind kind_;
  std::string what_;
  std::string hint_;
  Place place_;
};

// "array chunk key: what", then "  store: …", "  bytes: …" and "  hint:  …" where known.
[[nodiscard]] inline Error store_error(std::string what, std::string hint = {}) {
  return {ErrorKind::kStore, std::move(what), std::move(hint)};
}
[[nodiscard]] inline Error format_error(std::string what, std::string hint = {}) {
  return {ErrorKind::kFormat, std::move(what), std::move(hint)};
}
[[nodiscard]] inline Error usage_error(std::string what, std::string hint = {}) {
  return {ErrorKind::kUsage, std::move(what), std::move(hint)};
}
[[nodiscard]] inline Error decode_error(std::string what, std::string hint = {}) {
  return {ErrorKind::kDecode, std::move(what), std::move(hint)};
}

}  // namespace niskin
