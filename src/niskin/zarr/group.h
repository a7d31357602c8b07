// A group: the arrays of a store by name, from consolidated metadata where the store has it.
//
// Metadata is read once, at construction; arrays are parsed when they are asked for, so one that
// cannot be read does no harm to the others. Immutable and safe to share between threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "niskin/base/error.h"
#include "niskin/zarr/array.h"
#include "niskin/zarr/store.h"

namespace niskin::zarr {

class Group {
 public:
  // Throws StoreError if the store is no Zarr group, FormatError if its metadata cannot be parsed
  // or is of format 3.
  static std::shared_ptr<const Group> open(std::shared_ptr<const Store> store);

  const Store& store() const noexcept { return *store_; }
  // Sorted. Without consolidated metadata: what listing the root finds.
  const std::vector<std::string>& array_names() const noexcept { return names_; }
  // Throws StoreError naming near names if there is no such array, FormatError if it cannot be
  // read.
  std::shared_ptr<const Array> array(const std::string& name) const;

 private:
  struct Consolidated;  // the parsed `.zmetadata`
  Group(std::shared_ptr<const Store> store, std::shared_ptr<const Consolidated> consolidated,
        std::vector<std::string> names);
  Error missing(const std::string& name) const;

  std::shared_ptr<const Store> store_;
  std::shared_ptr<const Consolidated> consolidated_;  // nullptr: each array has its own documents
  std::vector<std::string> names_;
};

}  // namespace niskin::zarr
