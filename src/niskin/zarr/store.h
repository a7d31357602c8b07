// A store: keys and the bytes behind them, read only.
//
// Absent means "there is no such key" and nothing else: every other failure (a directory or FIFO
// where a value should be, a dangling link, EACCES, EIO) throws StoreError with the operating
// system's text. Stores and open values are safe to use from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace niskin::zarr {

enum class ReadMode {
  kWait,    // wait until all bytes are there
  kNoWait,  // only what is in memory already (page cache); never touches the disk
};

// An open value: one chunk or one metadata document. It stays readable, with the size and content
// it had when it was opened as far as the file system grants that, until it is destroyed.
class Value {
 public:
  virtual ~Value() = default;
  virtual std::uint64_t size_bytes() const = 0;
  // Reads out.size() bytes from `offset_bytes`; returns how many were read. kWait returns fewer
  // only at the end of the value; kNoWait also where the rest would have to be waited for or where
  // the file system cannot tell. Throws StoreError.
  virtual std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> out, ReadMode mode) = 0;
  // Asks for a range to be fetched in the background. A hint, never an error.
  virtual void prefetch(std::uint64_t offset_bytes, std::uint64_t size_bytes);
};

class Store {
 public:
  virtual ~Store() = default;
  // What a message calls the store: for a directory its path as given.
  virtual const std::string& name() const = 0;
  // The value at `key`, nullptr if it is absent.
  virtual std::unique_ptr<Value> open(const std::string& key) const = 0;
  // Names directly below `prefix` ("" is the root), unordered; empty if there is no such prefix.
  virtual std::vector<std::string> list(const std::string& prefix) const = 0;
};

// The whole value as text, nullopt if it is absent. Throws StoreError above `limit_bytes`.
std::optional<std::string> read_text(const Store& store, const std::string& key,
                                     std::uint64_t limit_bytes = std::uint64_t{1} << 30);

// A directory of the local file system. Throws StoreError if it is missing or not a directory.
std::shared_ptr<Store> open_local_store(const std::string& path);

}  // namespace niskin::zarr
