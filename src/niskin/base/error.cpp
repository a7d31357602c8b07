#include "niskin/base/error.h"

#include <fmt/format.h>

namespace niskin {
namespace {

std::string message(const std::string& what, const std::string& hint, const Place& place) {
  std::string text = place.array;
  if (!place.chunk_key.empty()) {
    text += text.empty() ? "chunk " : " chunk ";
    text += place.chunk_key;
  }
  if (!text.empty()) text += ": ";
  text += what;
  if (!place.store.empty()) text += "\n  store: " + place.store;
  if (place.bytes)
    text += fmt::format("\n  bytes: {}..{}", place.bytes->first, place.bytes->second);
  if (!hint.empty()) text += "\n  hint:  " + hint;
  return text;
}

}  // namespace

Error::Error(ErrorKind kind, std::string what, std::string hint, Place place)
    : std::runtime_error(message(what, hint, place)),
      kind_(kind),
      what_(std::move(what)),
      hint_(std::move(hint)),
      place_(std::move(place)) {}

Error Error::at(const Place& place) const {
  Place merged = place_;
  if (merged.store.empty()) merged.store = place.store;
  if (merged.array.empty()) merged.array = place.array;
  if (merged.chunk_key.empty()) merged.chunk_key = place.chunk_key;
  if (!merged.bytes) merged.bytes = place.bytes;
  return {kind_, what_, hint_, std::move(merged)};
}

Error Error::with_hint(std::string hint) const { return {kind_, what_, std::move(hint), place_}; }

}  // namespace niskin
