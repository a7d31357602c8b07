#include "niskin/loader/chunk_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "niskin/kernels/prepare.h"

namespace niskin::loader {
namespace {

using Clock = std::chrono::steady_clock;

// Slabs beyond this leave the cache anyway: store past it.
constexpr std::size_t kStreamBytes = std::size_t{8} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The part of a plane that the chunk holds, and its place in both.
struct Tile {
  std::int64_t y0, y1, x0, x1;  // in the plane
  std::int64_t rows() const { return y1 - y0; }
  std::int64_t columns() const { return x1 - x0; }
};

// The slots of one channel of a base that want the same plane: prepared once, stored in each.
using Uses = std::span<const plan::Placement>;

class ChunkRun final : public zarr::PieceSink {
 public:
  ChunkRun(const BatchJob& job, const plan::ChunkTask& task, WorkerMemory& memory, Turn& turn,
           TaskReport& report)
      : job_(job),
        memory_(memory),
        turn_(turn),
        report_(report),
        array_(job.fields(task.base).arrays()[task.array]),
        index_(array_.chunk_index(task.row_chunk, task.level_chunk, task.y_chunk, task.x_chunk)),
        prepare_(kernels::prepare()),
        stream_(job.slab()->size_bytes() >= kStreamBytes) {
    const std::int64_t y0 = task.y_chunk * array_.chunk_ny;
    const std::int64_t x0 = task.x_chunk * array_.chunk_nx;
    const auto placements = job.plan().placements_of(task);
    for (std::size_t begin = 0, end = 0; begin < placements.size(); begin = end) {
      for (end = begin + 1; end < placements.size() && !placements[end].first_use; ++end) {
      }
      uses_.push_back(placements.subspan(begin, end - begin));
    }
    tile_ = {y0, std::min(y0 + array_.chunk_ny, array_.ny), x0,
             std::min(x0 + array_.chunk_nx, array_.nx)};
  }

  void run() {
    ++report_.work.chunks;
    auto start = Clock::now();
    const auto value = array_.array->open_chunk(index_);
    report_.work.read_s += seconds_since(start);
    if (!value) {
      absent();
    } else if (!array_.planes_are_contiguous()) {
      read_strided(*value);
    } else if (meta().codec) {
      read_encoded(*value);
      start = Clock::now();
      array_.array->decode_pieces(index_, encoded(*value), wanted_ranges(), memory_.scratch, *this);
      ++report_.work.decodes;
      report_.work.decode_s += seconds_since(start);
    } else {
      read_in_pieces(*value);
    }
    if (stream_) kernels::fence();
  }

  void take(const zarr::Piece& piece) override {
    const kernels::Source source = as_source(piece);
    for (const Uses uses : uses_) {
      const std::uint64_t begin = plane_begin(uses);
      const std::uint64_t end = begin + plane_span();
      if (begin >= piece.first + piece.count || end <= piece.first) continue;
      place_part(uses, source, piece, begin);
    }
  }

 private:
  const zarr::ArrayMeta& meta() const { return array_.array->meta(); }

  std::uint64_t plane_begin(Uses uses) const {
    return static_cast<std::uint64_t>(uses.front().row_in_chunk * array_.row_stride +
                                      uses.front().level_in_chunk * array_.level_stride);
  }
  // Elements from the first to the last wanted one of a plane (contiguous planes).
  std::uint64_t plane_span() const {
    return static_cast<std::uint64_t>((tile_.rows() - 1) * array_.y_stride + tile_.columns());
  }

  std::vector<zarr::ElementRange> wanted_ranges() const {
    std::vector<zarr::ElementRange> ranges;
    for (const Uses uses : uses_) {
      ranges.push_back({plane_begin(uses), plane_begin(uses) + plane_span()});
    }
    std::sort(ranges.begin(), ranges.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const auto& range : ranges) {
      if (kept > 0 && range.begin <= ranges[kept - 1].end) {
        ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
      } else {
        ranges[kept++] = range;
      }
    }
    ranges.resize(kept);
    return ranges;
  }

  kernels::Source as_source(const zarr::Piece& piece) const {
    const bool swapped = meta().dtype.big_endian == (std::endian::native == std::endian::little);
    if (!piece.planar) {
      return {swapped ? kernels::Form::kSwapped : kernels::Form::kNative, piece.bytes};
    }
    auto planes = piece.bytes;
    if (meta().dtype.big_endian) std::reverse(planes.begin(), planes.end());
    return {kernels::Form::kPlanar, planes};
  }

  // The cells of one plane that lie in `piece`, as runs that are contiguous on both sides.
  void place_part(Uses uses, const kernels::Source& source, const zarr::Piece& piece,
                  std::uint64_t plane_first) {
    const bool whole_rows = array_.chunk_nx == array_.nx;
    const std::int64_t run_rows = whole_rows ? tile_.rows() : 1;
    for (std::int64_t y = tile_.y0; y < tile_.y1; y += run_rows) {
      const std::uint64_t run_begin =
          plane_first + static_cast<std::uint64_t>((y - tile_.y0) * array_.y_stride);
      const std::uint64_t run_end =
          run_begin + static_cast<std::uint64_t>(run_rows * tile_.columns());
      const std::uint64_t begin = std::max(run_begin, piece.first);
      const std::uint64_t end = std::min(run_end, piece.first + piece.count);
      if (begin >= end) continue;
      const std::int64_t cell =
          y * array_.nx + tile_.x0 + static_cast<std::int64_t>(begin - run_begin);
      put(uses, source.skip(begin - piece.first), cell, end - begin);
    }
  }

  // Prepares `count` cells from `cell` on of a plane.
  void put(Uses uses, const kernels::Source& source, std::int64_t cell, std::uint64_t count) {
    if (!meta().missing_markers.empty()) {
      put_with_markers(uses, source, cell, count);
    } else {
      put_plain(uses, source, cell, count);
    }
  }

  void put_plain(Uses uses, const kernels::Source& source, std::int64_t cell, std::uint64_t count) {
    const plan::FieldSet& set = job_.fields(uses.front().base);
    const plan::Field& field = set.fields()[uses.front().channel];
    const plan::Mask& mask = set.mask_of(uses.front().channel);
    const kernels::Transform transform{.mean = field.mean,
                                       .std = field.std,
                                       .fill = set.policy().masked_fill_value,
                                       .mask_first = !set.policy().normalize_before_mask};
    slots_.clear();
    for (const plan::Placement& use : uses)
      slots_.push_back(job_.slot(use.base, use.row, use.channel) + cell);
    const std::size_t bad = prepare_(
        source, transform, {mask.bits(), static_cast<std::size_t>(cell)}, slots_, count, stream_);
    if (bad > 0 && set.policy().bad_values != plan::BadValues::kIgnore) {
      note_bad(uses, source, mask, cell, count, bad);
    }
  }

  // Missing markers become NaN first, in runs that stay in the first-level cache.
  void put_with_markers(Uses uses, const kernels::Source& source, std::int64_t cell,
                        std::uint64_t count) {
    constexpr std::uint64_t kRun = 2048;
    std::array<float, kRun> run;
    const auto& markers = meta().missing_markers;
    for (std::uint64_t begin = 0; begin < count; begin += kRun) {
      const std::uint64_t n = std::min(kRun, count - begin);
      for (std::uint64_t i = 0; i < n; ++i) {
        const float x = kernels::element(source, begin + i);
        run[i] = std::find(markers.begin(), markers.end(), x) == markers.end()
                     ? x
                     : std::numeric_limits<float>::quiet_NaN();
      }
      put_plain(uses, {kernels::Form::kNative, {reinterpret_cast<const std::byte*>(run.data())}},
                cell + static_cast<std::int64_t>(begin), n);
    }
  }

  void note_bad(Uses uses, const kernels::Source& source, const plan::Mask& mask, std::int64_t cell,
                std::uint64_t count, std::size_t bad) {
    if (counted_for_another_base(uses)) return;
    std::uint64_t i = 0;
    while (i < count && !(mask.wet(cell + static_cast<std::int64_t>(i)) &&
                          !std::isfinite(kernels::element(source, i)))) {
      ++i;
    }
    const plan::Placement& use = uses.front();
    report_.bad.push_back({.base = use.base,
                           .channel = use.channel,
                           .count = bad,
                           .first_row = job_.base(use.base).rows[use.row],
                           .first_row_count = bad,
                           .first_cell = cell + static_cast<std::int64_t>(i)});
  }

  // Whether an earlier base of the same fields holds this plane too.
  bool counted_for_another_base(Uses uses) const {
    const plan::Placement& use = uses.front();
    return std::any_of(uses_.begin(), uses_.end(), [&](Uses others) {
      const plan::Placement& other = others.front();
      return other.base < use.base && other.channel == use.channel &&
             other.row_in_chunk == use.row_in_chunk &&
             &job_.fields(other.base) == &job_.fields(use.base);
    });
  }

  void absent() {
    ++report_.work.absent_chunks;
    bool needed = false;
    for (const Uses uses : uses_) {
      const plan::FieldSet& set = job_.fields(uses.front().base);
      if (!set.mask_of(uses.front().channel).any_wet_in(tile_.y0, tile_.y1, tile_.x0, tile_.x1))
        continue;
      if (!needed) check_key_form();
      needed = true;
      note_missing(set, uses);
    }
    memory_.row.assign(static_cast<std::size_t>(tile_.columns()),
                       static_cast<float>(meta().fill_value));
    for (const Uses uses : uses_) {
      for (std::int64_t y = tile_.y0; y < tile_.y1; ++y) put_row(uses, y);
    }
  }

  void check_key_form() const {
    if (const auto conflict = array_.array->key_form_conflict()) throw Error(*conflict);
  }

  // A wet cell needs a chunk that is not there. Bases may differ in what they make of it.
  void note_missing(const plan::FieldSet& set, Uses uses) {
    const Place place = array_.array->place(index_);
    switch (set.policy().missing_chunks) {
      case plan::MissingChunks::kFill:
        return;
      case plan::MissingChunks::kWarn:
        if (!report_.missing.empty()) return;
        report_.missing.push_back(
            {.store = place.store, .array = meta().name, .first_key = place.chunk_key, .count = 1});
        return;
      case plan::MissingChunks::kError:
        throw store_error(
            fmt::format("{}: chunk {} is absent: got no such key, expected a stored chunk, since "
                        "wet cells of "
                        "channel {} need it",
                        meta().name, place.chunk_key, set.fields()[uses.front().channel].channel),
            "was the store copied whole? missing_chunks=\"warn\" or \"fill\" reads it as the fill "
            "value")
            .at({.store = place.store});
    }
  }

  std::span<const std::byte> encoded(const zarr::Value& value) const {
    return {memory_.encoded.data(), value.size_bytes()};
  }

  void read_encoded(zarr::Value& value) {
    const std::uint64_t size = value.size_bytes();
    if (memory_.encoded.size() < size) memory_.encoded.resize(size);
    read(value, 0, {memory_.encoded.data(), size});
  }

  // Fills `out`; gives the turn back only if the bytes are not in memory yet.
  void read(zarr::Value& value, std::uint64_t offset, std::span<std::byte> out) {
    auto start = Clock::now();
    std::size_t got = read_with_place(value, offset, out, zarr::ReadMode::kNoWait);
    if (got < out.size()) {
      turn_.release();
      try {
        got += read_with_place(value, offset + got, out.subspan(got), zarr::ReadMode::kWait);
      } catch (...) {
        turn_.acquire();
        throw;
      }
      report_.work.read_s += seconds_since(start);
      start = Clock::now();
      turn_.acquire();
      report_.work.token_wait_s += seconds_since(start);
    } else {
      report_.work.read_s += seconds_since(start);
    }
    ++report_.work.reads;
    report_.work.bytes_read += got;
    if (got < out.size()) {
      Place place = array_.array->place(index_);
      place.bytes = {offset, offset + out.size()};
      throw decode_error(
          fmt::format("the chunk became shorter while it was read: got {} of {} bytes", got,
                      out.size()),
          "is another program writing this store?")
          .at(place);
    }
  }

  std::size_t read_with_place(zarr::Value& value, std::uint64_t offset, std::span<std::byte> out,
                              zarr::ReadMode mode) const {
    try {
      return value.read(offset, out, mode);
    } catch (const Error& error) {
      throw error.at(array_.array->place(index_));
    }
  }

  void read_in_pieces(zarr::Value& value) {
    const auto ranges = wanted_ranges();
    memory_.encoded.resize(std::max<std::size_t>(memory_.encoded.size(), kPieceBytes));
    for (const auto& range : ranges) {
      for (std::uint64_t first = range.begin; first < range.end;
           first += kPieceBytes / sizeof(float)) {
        const std::uint64_t count = std::min(kPieceBytes / sizeof(float), range.end - first);
        read(value, first * sizeof(float), {memory_.encoded.data(), count * sizeof(float)});
        const auto start = Clock::now();
        take({.first = first, .count = count, .planar = false, .bytes = {memory_.encoded.data()}});
        report_.work.decode_s += seconds_since(start);
      }
    }
  }

  // Any memory order: the whole chunk is decoded, then each plane is gathered.
  void read_strided(zarr::Value& value) {
    read_encoded(value);
    const auto start = Clock::now();
    kernels::Source chunk = as_source({.bytes = {memory_.encoded.data()}});
    if (meta().codec) {
      const zarr::ElementRange all{0, static_cast<std::uint64_t>(meta().chunk_elements())};
      memory_.chunk.resize(all.end);
      NativeCopy copy(*this, memory_.chunk.data());
      array_.array->decode_pieces(index_, encoded(value), {&all, 1}, memory_.scratch, copy);
      ++report_.work.decodes;
      chunk = {kernels::Form::kNative, {reinterpret_cast<const std::byte*>(memory_.chunk.data())}};
    }
    for (const Uses uses : uses_) gather(uses, chunk);
    report_.work.decode_s += seconds_since(start);
  }

  // Pieces one after the other as floats of this machine.
  class NativeCopy final : public zarr::PieceSink {
   public:
    NativeCopy(const ChunkRun& run, float* out) : run_(run), out_(out) {}
    void take(const zarr::Piece& piece) override {
      const kernels::Source source = run_.as_source(piece);
      for (std::uint64_t i = 0; i < piece.count; ++i)
        out_[piece.first + i] = kernels::element(source, i);
    }

   private:
    const ChunkRun& run_;
    float* out_;
  };

  void gather(Uses uses, const kernels::Source& chunk) {
    auto& row = memory_.row;
    row.resize(static_cast<std::size_t>(tile_.columns()));
    for (std::int64_t y = tile_.y0; y < tile_.y1; ++y) {
      const std::uint64_t begin =
          plane_begin(uses) + static_cast<std::uint64_t>((y - tile_.y0) * array_.y_stride);
      for (std::size_t x = 0; x < row.size(); ++x) {
        row[x] = kernels::element(chunk, begin + x * static_cast<std::uint64_t>(array_.x_stride));
      }
      put_row(uses, y);
    }
  }

  // One row of the tile from `memory_.row`.
  void put_row(Uses uses, std::int64_t y) {
    put(uses, {kernels::Form::kNative, {reinterpret_cast<const std::byte*>(memory_.row.data())}},
        y * array_.nx + tile_.x0, memory_.row.size());
  }

  const BatchJob& job_;
  WorkerMemory& memory_;
  Turn& turn_;
  TaskReport& report_;
  const plan::FieldArray& array_;
  const Shape index_;
  std::vector<Uses> uses_;
  std::vector<float*> slots_;  // of the uses at hand
  const kernels::Prepare prepare_;
  const bool stream_;
  Tile tile_{};
};

}  // namespace

void run_chunk_task(const BatchJob& job, const plan::ChunkTask& task, WorkerMemory& memory,
                    Turn& turn, TaskReport& report) {
  ChunkRun(job, task, memory, turn, report).run();
}

}  // namespace niskin::loader
