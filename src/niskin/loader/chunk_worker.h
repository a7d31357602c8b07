// What a worker does with one chunk: read, decode, prepare every plane that the batch wants.
//
// Uncompressed and blosc chunks pass through in pieces that stay in the core's cache; no decoded
// chunk is written to memory. Reads go to buffers of the worker, never to the batch, so that a read
// that hangs can be left behind. One ChunkWorker belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "niskin/loader/batch_job.h"
#include "niskin/zarr/codec.h"

namespace niskin::loader {

// A read of an uncompressed chunk, and so the buffer of its task: fits the core's second-level
// cache beside what it becomes.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{256} << 10;

// Memory that a task uses while it runs; grows, never shrinks.
struct WorkerMemory {
  std::vector<std::byte> encoded;
  zarr::DecodeScratch scratch;
  std::vector<float> chunk;  // decoded, of arrays whose planes are not contiguous
  std::vector<float> row;    // of a tile

  std::uint64_t size_bytes() const {
    return encoded.capacity() + scratch.size_bytes() +
           (chunk.capacity() + row.capacity()) * sizeof(float);
  }
};

// The right to use a core. Held when a task starts and ends; a task gives it back around a read
// that has to wait. `token_wait_s` collects the time in `acquire`.
class Turn {
 public:
  virtual ~Turn() = default;
  virtual void release() = 0;
  virtual void acquire() = 0;
};

// What a task reports; merged into the job under the pool's mutex.
struct TaskReport {
  WorkCounts work;
  std::vector<BadValue> bad;
  std::vector<MissingChunk> missing;
};

// Runs one task of `job`. Throws the error of the chunk, with its place.
void run_chunk_task(const BatchJob& job, const plan::ChunkTask& task, WorkerMemory& memory,
                    Turn& turn, TaskReport& report);

}  // namespace niskin::loader
