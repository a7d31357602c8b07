#include "niskin/zarr/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "niskin/zarr/json.h"
#include "niskin/zarr/metadata_v2.h"

namespace niskin::zarr {
namespace {

using nlohmann::json;

constexpr const char* kArraySuffix = "/.zarray";

std::optional<json> read_document(const Store& store, const std::string& key) {
  const std::optional<std::string> text = read_text(store, key);
  if (!text) return std::nullopt;
  try {
    return parse_json(*text);
  } catch (const Error& error) {
    throw format_error(fmt::format("{}: {}", key, error.what())).at({.store = store.name()});
  }
}

// Whether `name` below the root is an array, or a directory that cannot tell: asking for it says
// why.
bool looks_like_array(const Store& store, const std::string& name) {
  try {
    return store.open(name + kArraySuffix) != nullptr;
  } catch (const Error&) {
    // A stray file has nothing below it; a directory that refuses to answer may be an array.
    try {
      return !store.list(name).empty();
    } catch (const Error&) {
      return true;
    }
  }
}

std::vector<std::string> listed_arrays(const Store& store) {
  std::vector<std::string> names;
  for (const std::string& name : store.list("")) {
    if (!name.starts_with('.') && looks_like_array(store, name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Insertions, deletions and replacements that turn one name into the other.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string> near_names(const std::string& name,
                                    const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  const std::size_t limit = std::max<std::size_t>(2, name.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : names) {
    const std::size_t distance = edit_distance(name, candidate);
    // "thetao" where there are thetao_0, thetao_1, …
    const bool is_longer_form = !name.empty() && candidate.starts_with(name + "_");
    if (distance <= limit || is_longer_form) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  near.resize(std::min(near.size(), kMost));
  std::vector<std::string> nearest;
  for (auto& [distance, candidate] : near) nearest.push_back(std::move(candidate));
  return nearest;
}

}  // namespace

struct Group::Consolidated {
  json documents;  // an object: "thetao/.zarray" -> document

  const json* find(const std::string& key) const {
    const auto found = documents.find(key);
    return found == documents.end() ? nullptr : &*found;
  }
};

Group::Group(std::shared_ptr<const Store> store, std::shared_ptr<const Consolidated> consolidated,
             std::vector<std::string> names)
    : store_(std::move(store)), consolidated_(std::move(consolidated)), names_(std::move(names)) {}

std::shared_ptr<const Group> Group::open(std::shared_ptr<const Store> store) {
  const Place place{.store = store->name()};
  if (std::optional<json> metadata = read_document(*store, ".zmetadata")) {
    if (!metadata->is_object() || !metadata->contains("metadata") ||
        !(*metadata)["metadata"].is_object()) {
      throw format_error(".zmetadata: expected an object with an object \"metadata\"").at(place);
    }
    auto consolidated = std::make_shared<Consolidated>();
    consolidated->documents = std::move((*metadata)["metadata"]);
    if (consolidated->find(".zarray") != nullptr) {
      throw format_error("the root is an array, expected a group of arrays").at(place);
    }
    std::vector<std::string> names;
    for (const auto& item : consolidated->documents.items()) {
      const std::string& key = item.key();
      if (key.ends_with(kArraySuffix))
        names.push_back(key.substr(0, key.size() - std::string_view(kArraySuffix).size()));
    }
    std::sort(names.begin(), names.end());
    return std::shared_ptr<const Group>(
        new Group(std::move(store), std::move(consolidated), std::move(names)));
  }
  if (store->open(".zarray"))
    throw format_error("the root is an array, expected a group of arrays").at(place);
  const bool is_group = store->open(".zgroup") != nullptr;
  if (!is_group && store->open("zarr.json")) {
    throw format_error("got a store of Zarr format 3 (zarr.json), expected format 2").at(place);
  }
  std::vector<std::string> names = listed_arrays(*store);
  if (!is_group && names.empty()) {
    throw store_error("no Zarr group: got neither .zmetadata nor .zgroup nor arrays").at(place);
  }
  return std::shared_ptr<const Group>(new Group(std::move(store), nullptr, std::move(names)));
}

std::shared_ptr<const Array> Group::array(const std::string& name) const {
  try {
    if (consolidated_) {
      const json* const zarray = consolidated_->find(name + kArraySuffix);
      if (zarray == nullptr) throw missing(name);
      const json* const zattrs = consolidated_->find(name + "/.zattrs");
      return std::make_shared<Array>(
          store_, parse_array_v2(name, *zarray, zattrs == nullptr ? json() : *zattrs));
    }
    const std::optional<json> zarray =
        name.empty() ? std::nullopt : read_document(*store_, name + kArraySuffix);
    if (!zarray) throw missing(name);
    const std::optional<json> zattrs = read_document(*store_, name + "/.zattrs");
    return std::make_shared<Array>(store_, parse_array_v2(name, *zarray, zattrs.value_or(json())));
  } catch (const Error& error) {
    throw error.at({.store = store_->name(), .array = name});
  }
}

Error Group::missing(const std::string& name) const {
  const Place place{.store = store_->name(), .array = name};
  const std::string what = fmt::format("no such array among {}", names_.size());
  if (consolidated_ && !name.empty() && looks_like_array(*store_, name)) {
    return store_error(what + " of .zmetadata",
                       "the array is in the store: consolidate its metadata again")
        .at(place);
  }
  const std::vector<std::string> near = near_names(name, names_);
  if (near.empty()) return store_error(what).at(place);
  return store_error(what, fmt::format("did you mean {}?", fmt::join(near, ", "))).at(place);
}

}  // namespace niskin::zarr
