// For tests of what becomes of a chunk: small arrays, ways to store them, and one task after the
// other in this thread.
#pragma once

#include <blosc.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "niskin/base/error.h"
#include "niskin/loader/batch_job.h"
#include "niskin/loader/chunk_worker.h"
#include "niskin/plan/fields.h"
#include "niskin/zarr/stores/counting.h"
#include "niskin/zarr/stores/memory.h"

namespace niskin::loader::testing {

using Floats = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr const char* kBlosc = R"({"id": "blosc", "cname": "lz4"})";
constexpr const char* kZstd = R"({"id": "zstd", "level": 1})";

inline std::string raw(const Floats& values, bool big_endian = false) {
  std::string bytes;
  for (const float value : values) {
    char element[4];
    std::memcpy(element, &value, 4);
    if (big_endian == (std::endian::native == std::endian::little)) {
      std::reverse(element, element + 4);
    }
    bytes.append(element, 4);
  }
  return bytes;
}

// Blosc-lz4, with byte shuffle unless told.
inline std::string blosc(const std::string& bytes, std::size_t block_bytes = 0,
                         bool shuffle = true) {
  std::string encoded(bytes.size() + BLOSC_MAX_OVERHEAD, '\0');
  const int size = blosc_compress_ctx(5, shuffle ? 1 : 0, 4, bytes.size(), bytes.data(),
                                      encoded.data(), encoded.size(), "lz4", block_bytes, 1);
  EXPECT_GT(size, 0);
  encoded.resize(static_cast<std::size_t>(size));
  return encoded;
}

// Fields of the header of a Blosc chunk: 4 is the decoded size, 8 the size of a block, 16 + 4 b
// where block b starts.
inline std::uint32_t blosc_header(const std::string& encoded, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, encoded.data() + at, 4);
  return value;
}

inline std::string zstd(const std::string& bytes) {
  std::string encoded(ZSTD_compressBound(bytes.size()), '\0');
  encoded.resize(ZSTD_compress(encoded.data(), encoded.size(), bytes.data(), bytes.size(), 1));
  return encoded;
}

// Rank 3 is (time, lat, lon), rank 4 (time, lev, lat, lon).
struct Layout {
  std::string shape = "4, 2, 3";
  std::string chunks = "1, 2, 3";
  std::string dtype = "<f4";
  std::string order = "C";
  std::string compressor = "null";
  std::string fill = "\"NaN\"";
  std::string attributes = {};  // more of them, each with a comma before it
};

// Counts turns given back and taken again.
class CountedTurn final : public Turn {
 public:
  void release() override { ++releases; }
  void acquire() override { ++acquires; }
  int releases = 0, acquires = 0;
};

inline Floats arange(std::size_t count, float first = 0) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

class ChunkFixture : public ::testing::Test {
 protected:
  std::shared_ptr<const zarr::Array> array(const Layout& o = {}) const {
    const bool levels = std::count(o.shape.begin(), o.shape.end(), ',') == 3;
    const std::string zarray = R"({"zarr_format": 2, "filters": null, "compressor": )" +
                               o.compressor + R"(, "fill_value": )" + o.fill + R"(, "order": ")" +
                               o.order + R"(", "dtype": ")" + o.dtype + R"(", "shape": [)" +
                               o.shape + R"(], "chunks": [)" + o.chunks + "]}";
    const std::string zattrs = std::string(R"({"_ARRAY_DIMENSIONS": ["time", )") +
                               (levels ? R"("lev", )" : "") + R"("lat", "lon"])" + o.attributes +
                               "}";
    return std::make_shared<const zarr::Array>(store, zarr::parse_array_v2("t", zarray, zattrs));
  }

  // Channels over `array`: one for each level, all wet, mean 0, std 1 unless changed in `fields`.
  std::shared_ptr<const plan::FieldSet> channels(const std::shared_ptr<const zarr::Array>& array,
                                                 const std::vector<int>& levels = {-1}) {
    const auto shaped = plan::make_field_array(array);
    std::vector<plan::Field> fields;
    for (const int level : levels) {
      fields.push_back({.channel = "t_" + std::to_string(level),
                        .array = 0,
                        .level = level,
                        .mask = 0,
                        .mean = mean,
                        .std = std});
    }
    std::vector<std::uint8_t> cells = wet;
    cells.resize(static_cast<std::size_t>(shaped.ny * shaped.nx), wet.empty() ? 1 : 0);
    return std::make_shared<const plan::FieldSet>(
        std::vector<plan::FieldArray>{shaped}, std::move(fields),
        std::vector<plan::Mask>{{shaped.ny, shaped.nx, cells}}, policy);
  }

  // Prepares the rows of each base; their values, one base after the other.
  Floats run(const std::vector<plan::BaseRequest>& bases) {
    report = {};
    BatchJob job(bases);
    job.take_slab(*slabs);
    job.fill_dry();
    for (const plan::ChunkTask& task : job.plan().tasks) {
      TaskReport one;
      run_chunk_task(job, task, worker, turn, one);
      report.work += one.work;
      report.bad.insert(report.bad.end(), one.bad.begin(), one.bad.end());
      report.missing.insert(report.missing.end(), one.missing.begin(), one.missing.end());
    }
    Floats values;
    for (std::size_t b = 0; b < bases.size(); ++b) {
      const plan::FieldSet& set = *bases[b].fields;
      const auto cells = static_cast<std::size_t>(set.plane_cells());
      const float* data = job.base_data(b);
      values.insert(values.end(), data, data + bases[b].rows.size() * set.fields().size() * cells);
    }
    return values;
  }
  Floats run(const std::shared_ptr<const plan::FieldSet>& fields, std::vector<std::int64_t> rows) {
    return run({{fields, std::move(rows)}});
  }

  Error error_of(const std::vector<plan::BaseRequest>& bases) {
    try {
      run(bases);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "got values, expected an error";
    return usage_error("none");
  }
  Error error_of(const std::shared_ptr<const plan::FieldSet>& fields,
                 std::vector<std::int64_t> rows) {
    return error_of({{fields, std::move(rows)}});
  }

  std::shared_ptr<zarr::MemoryStore> memory = std::make_shared<zarr::MemoryStore>("chunks.zarr");
  std::shared_ptr<zarr::CountingStore> store = std::make_shared<zarr::CountingStore>(memory);
  float mean = 0;
  float std = 1;
  std::vector<std::uint8_t> wet;  // empty: everywhere
  plan::Policy policy;

  std::shared_ptr<SlabPool> slabs = std::make_shared<SlabPool>(std::uint64_t{1} << 30);
  WorkerMemory worker;
  CountedTurn turn;
  TaskReport report;  // of the last run
};

}  // namespace niskin::loader::testing
