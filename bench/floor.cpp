// niskin_floor JOB.json: the least that any loader of these batches must do.
//
// Each unique chunk of a batch: open, pread, c-blosc, then one fused normalize-mask-store pass into
// every slot of a reused window tensor. A few threads share the chunks of a batch; a barrier ends
// it; nothing is read ahead. No metadata, no planning, no checks beyond those of the libraries: the
// job (written by floor.py) says which bytes go where. Chunks of several levels are decoded as far
// as the batch needs them. Prints one JSON object: seconds of each timed batch, processor seconds,
// checksums.
#include <blosc.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "floor_pass.h"

namespace niskin::bench {
namespace {

using Json = nlohmann::json;

struct Field {
  float mean = 0, std = 1;
  std::size_t mask = 0;
};

// A plane of a chunk and the slots it goes to: [first_slot, end_slot) of the batch.
struct Plane {
  std::uint32_t in_chunk = 0, field = 0, first_slot = 0, end_slot = 0;
};

// A chunk and the planes it gives: [first_plane, end_plane) of the batch, by place in the chunk.
struct Task {
  std::uint32_t key = 0, first_plane = 0, end_plane = 0;
};

struct Batch {
  std::vector<Task> tasks;
  std::vector<Plane> planes;
  std::vector<float*> slots;
  std::vector<std::uint32_t> dry;  // slots of channels without a wet cell
};

template <typename T>
T* new_memory(std::size_t count) {
  void* const memory =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, count * sizeof(T), MADV_HUGEPAGE);
  std::memset(memory, 0, count * sizeof(T));  // nothing is touched for the first time while timed
  return static_cast<T*>(memory);
}

class Floor {
 public:
  explicit Floor(const Json& job)
      : cells_(job.at("plane_cells")),
        chunk_planes_(job.at("chunk_planes")),
        compressed_(job.at("compressed")),
        store_(open(job.at("store").get<std::string>().c_str(), O_RDONLY | O_DIRECTORY)),
        keys_(job.at("keys").get<std::vector<std::string>>()),
        slots_(job.at("slots")) {
    if (store_ < 0) throw std::runtime_error("cannot open the store");
    if (cells_ % kLine != 0) throw std::runtime_error("planes are not whole cache lines");
    for (const Json& field : job.at("fields")) fields_.push_back({field[0], field[1], field[2]});
    read_masks(job.at("masks"));
    window_ = new_memory<float>(slots_ * cells_);
    for (const Json& batch : job.at("batches")) batches_.push_back(read_batch(batch));
  }

  std::size_t batch_count() const { return batches_.size(); }

  // Chunks until none of the batch is left; called by every thread with memory of its own.
  void work(std::size_t number, std::byte* encoded, float* decoded) {
    const Batch& batch = batches_[number];
    for (;;) {
      const std::size_t at = next_.fetch_add(1, std::memory_order_relaxed);
      if (at >= batch.tasks.size()) break;
      if (compressed_) {
        from_compressed(batch, batch.tasks[at], encoded, decoded);
      } else {
        from_raw(batch, batch.tasks[at], decoded);
      }
    }
    fence();
  }

  void begin(std::size_t number) {
    next_ = 0;
    for (const std::uint32_t slot : batches_[number].dry) {
      std::memset(window_ + slot * cells_, 0, plane_bytes());
    }
  }

  // Of the window, as checksum.py defines it.
  std::uint64_t checksum(std::size_t number_of_slots) const {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < number_of_slots * cells_; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, window_ + i, sizeof bits);
      total += bits * (2 * std::uint64_t{i} + 1);
    }
    return total;
  }
  std::size_t slots() const { return slots_; }
  float first_value() const { return *static_cast<volatile float*>(window_); }
  std::size_t chunk_bytes() const { return chunk_planes_ * plane_bytes(); }
  std::size_t plane_bytes() const { return cells_ * sizeof(float); }

 private:
  void read_masks(const Json& files) {
    for (const Json& file : files) {
      std::ifstream in(file.get<std::string>(), std::ios::binary);
      std::vector<std::uint16_t> bits(cells_ / kLine);
      in.read(reinterpret_cast<char*>(bits.data()),
              static_cast<std::streamsize>(bits.size() * sizeof bits[0]));
      if (!in) throw std::runtime_error("cannot read a mask");
      masks_.push_back(std::move(bits));
    }
  }

  // [[key, [[plane in chunk, field, [slot, ...]], ...]], ...]
  Batch read_batch(const Json& json) {
    Batch batch;
    for (const Json& task : json.at("tasks")) {
      const auto first = static_cast<std::uint32_t>(batch.planes.size());
      for (const Json& plane : task[1]) {
        const auto slot = static_cast<std::uint32_t>(batch.slots.size());
        for (const std::size_t at : plane[2]) batch.slots.push_back(window_ + at * cells_);
        batch.planes.push_back(
            {plane[0], plane[1], slot, static_cast<std::uint32_t>(batch.slots.size())});
      }
      batch.tasks.push_back({task[0], first, static_cast<std::uint32_t>(batch.planes.size())});
    }
    batch.dry = json.at("dry").get<std::vector<std::uint32_t>>();
    return batch;
  }

  int open_chunk(const Task& task) const {
    const int file = openat(store_, keys_[task.key].c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::runtime_error("cannot open " + keys_[task.key]);
    return file;
  }

  void place(const Batch& batch, const Plane& plane, const float* in) const {
    const Field& field = fields_[plane.field];
    fused_pass(in, cells_, field.mean, field.std, masks_[field.mask].data(),
               std::span(batch.slots).subspan(plane.first_slot, plane.end_slot - plane.first_slot));
  }

  void from_raw(const Batch& batch, const Task& task, float* decoded) const {
    const int file = open_chunk(task);
    for (std::uint32_t k = task.first_plane; k < task.end_plane; ++k) {
      const Plane& plane = batch.planes[k];
      const ssize_t got = pread(file, decoded, plane_bytes(), plane.in_chunk * plane_bytes());
      if (got != static_cast<ssize_t>(plane_bytes())) throw std::runtime_error("short chunk");
      place(batch, plane, decoded);
    }
    close(file);
  }

  void from_compressed(const Batch& batch, const Task& task, std::byte* encoded,
                       float* decoded) const {
    const int file = open_chunk(task);
    const ssize_t got = pread(file, encoded, chunk_bytes() + BLOSC_MAX_OVERHEAD, 0);
    close(file);
    if (got < BLOSC_MIN_HEADER_LENGTH) throw std::runtime_error("short chunk");
    const std::uint32_t planes = task.end_plane - task.first_plane;
    if (planes == chunk_planes_) {
      if (blosc_decompress_ctx(encoded, decoded, chunk_bytes(), 1) !=
          static_cast<int>(chunk_bytes())) {
        throw std::runtime_error("c-blosc failed");
      }
      for (std::uint32_t k = task.first_plane; k < task.end_plane; ++k) {
        place(batch, batch.planes[k], decoded + batch.planes[k].in_chunk * cells_);
      }
      return;
    }
    // Runs of neighbouring planes, so that no block is decoded twice.
    for (std::uint32_t k = task.first_plane; k < task.end_plane;) {
      std::uint32_t end = k + 1;
      while (end < task.end_plane &&
             batch.planes[end].in_chunk == batch.planes[end - 1].in_chunk + 1) {
        ++end;
      }
      const std::size_t first = batch.planes[k].in_chunk * cells_;
      const std::size_t count = (end - k) * cells_;
      if (blosc_getitem(encoded, static_cast<int>(first), static_cast<int>(count), decoded) !=
          static_cast<int>(count * sizeof(float))) {
        throw std::runtime_error("c-blosc failed");
      }
      for (std::uint32_t j = k; j < end; ++j) {
        place(batch, batch.planes[j], decoded + (j - k) * cells_);
      }
      k = end;
    }
  }

  std::size_t cells_, chunk_planes_;
  bool compressed_;
  int store_;
  std::vector<std::string> keys_;
  std::size_t slots_;
  std::vector<Field> fields_;
  std::vector<std::vector<std::uint16_t>> masks_;
  std::vector<Batch> batches_;
  float* window_ = nullptr;
  std::atomic<std::size_t> next_ = 0;
};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int run(const char* path) {
  const Json job = Json::parse(std::ifstream(path));
  const std::size_t warm = job.at("warm"), threads = job.at("threads");
  const bool check = job.at("check");
  Floor floor(job);
  const std::size_t count = floor.batch_count();
  std::barrier gate(static_cast<std::ptrdiff_t>(threads));
  const auto loop = [&](const std::function<void(std::size_t)>& before,
                        const std::function<void(std::size_t)>& after) {
    auto* const encoded = new_memory<std::byte>(floor.chunk_bytes() + BLOSC_MAX_OVERHEAD);
    auto* const decoded = new_memory<float>(floor.chunk_bytes() / sizeof(float));
    for (std::size_t number = 0; number < count; ++number) {
      before(number);
      gate.arrive_and_wait();
      floor.work(number, encoded, decoded);
      gate.arrive_and_wait();
      after(number);
    }
  };
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  std::vector<std::uint64_t> checksums;
  double processor_s = 0;
  Clock::time_point start;
  const auto before = [&](std::size_t number) {
    if (number == warm) processor_s = processor_seconds();
    start = Clock::now();
    floor.begin(number);
  };
  const auto after = [&](std::size_t number) {
    static_cast<void>(floor.first_value());
    if (number >= warm) {
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    if (check) checksums.push_back(floor.checksum(floor.slots()));
  };
  const auto nothing = [](std::size_t) {};
  std::vector<std::thread> others;
  for (std::size_t k = 1; k < threads; ++k) others.emplace_back(loop, nothing, nothing);
  loop(before, after);
  processor_s = processor_seconds() - processor_s;
  for (std::thread& other : others) other.join();
  const Json result = {
      {"seconds", seconds}, {"processor_s", processor_s}, {"checksums", checksums}};
  std::printf("%s\n", result.dump().c_str());
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace niskin::bench

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: niskin_floor JOB.json\n");
    return 2;
  }
  try {
    return niskin::bench::run(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "niskin_floor: %s\n", error.what());
    std::_Exit(EXIT_FAILURE);
  }
}
