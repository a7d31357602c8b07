#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "dlpack.h"
#include "gil.h"
#include "niskin/loader/batch_stream.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace niskin::bindings {
namespace {

using loader::BatchStream;
using loader::FinishedBatch;
using loader::Pool;
using Seconds = std::chrono::duration<double>;
using Rows = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Request = std::pair<std::shared_ptr<plan::FieldSet>, Rows>;

using Counts = nb::typed<nb::dict, nb::str, nb::any>;
using Bases = nb::typed<nb::list, BaseMemory>;
using BadValues = nb::typed<nb::list, nb::typed<nb::tuple, int, int, int, int, int, int>>;
using Missing = nb::typed<nb::list, nb::typed<nb::tuple, nb::str, nb::str, nb::str, int>>;
using Shape4 = nb::typed<nb::tuple, int, int, int, int>;

// Ctrl-C is seen this often while a batch is awaited.
constexpr Seconds kSignalPeriod(0.1);

std::vector<plan::BaseRequest> requests(const std::vector<Request>& given) {
  std::vector<plan::BaseRequest> bases;
  bases.reserve(given.size());
  for (const auto& [fields, rows] : given) {
    bases.push_back({fields, std::vector<std::int64_t>(rows.data(), rows.data() + rows.size())});
  }
  return bases;
}

Counts as_dict(const loader::WorkCounts& work) {
  Counts d;
  d["reads"] = work.reads;
  d["bytes_read"] = work.bytes_read;
  d["decodes"] = work.decodes;
  d["chunks"] = work.chunks;
  d["absent_chunks"] = work.absent_chunks;
  d["read_s"] = work.read_s;
  d["decode_s"] = work.decode_s;
  d["token_wait_s"] = work.token_wait_s;
  return d;
}

Counts as_dict(const loader::PoolCounts& counts) {
  Counts d = as_dict(counts.work);
  d["slab_bytes_live"] = counts.slabs.live_bytes;
  d["slab_bytes_delivered"] = counts.slabs.delivered_bytes;
  d["slab_bytes_idle"] = counts.slabs.idle_bytes;
  d["slab_bytes_peak"] = counts.slabs.peak_bytes;
  d["slab_allocations"] = counts.slabs.allocations;
  d["reserved_bytes"] = counts.reserved_bytes;
  d["worker_bytes"] = counts.worker_bytes;
  d["worker_bytes_peak"] = counts.peak_worker_bytes;
  d["threads"] = counts.threads;
  return d;
}

Bases bases_of(const FinishedBatch& batch) {
  Bases bases;
  for (std::size_t k = 0; k < batch.job->base_count(); ++k) {
    const auto& base = batch.job->base(k);
    const plan::FieldSet& fields = *base.fields;
    bases.append(
        BaseMemory{batch.job->slab(),
                   batch.job->base_data(k),
                   {static_cast<std::int64_t>(base.rows.size()),
                    static_cast<std::int64_t>(fields.fields().size()), fields.ny(), fields.nx()}});
  }
  return bases;
}

BadValues bad_of(const FinishedBatch& batch) {
  BadValues found;
  for (const auto& [key, bad] : batch.job->state.bad) {
    found.append(nb::make_tuple(bad.base, bad.channel, bad.count, bad.first_row,
                                bad.first_row_count, bad.first_cell));
  }
  return found;
}

Missing missing_of(const FinishedBatch& batch) {
  Missing found;
  for (const auto& [key, missing] : batch.job->state.missing) {
    found.append(nb::make_tuple(missing.store, missing.array, missing.first_key, missing.count));
  }
  return found;
}

FinishedBatch next_batch(BatchStream& stream) {
  for (bool ready = false; !ready;) {
    leave_if_ending();
    {
      GilRelease release;
      ready = stream.wait(kSignalPeriod);
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  GilRelease release;
  return stream.take();
}

}  // namespace

void bind_loader(nb::module_& m) {
  nb::class_<Pool>(m, "Pool", "Worker threads and memory, shared by batch streams.")
      .def(
          "__init__",
          [](Pool* self, int max_concurrent_reads, int decode_threads, std::uint64_t memory_limit) {
            new (self) Pool({max_concurrent_reads, decode_threads, memory_limit});
          },
          nb::kw_only(), "max_concurrent_reads"_a, "decode_threads"_a, "memory_limit"_a,
          "memory_limit in bytes.")
      .def(
          "close", [](Pool& pool, double deadline_s) { return pool.close(Seconds(deadline_s)); },
          "deadline_s"_a, nb::call_guard<GilRelease>(),
          "End the threads; returns how many hung and were left.")
      .def(
          "counts", [](const Pool& pool) { return as_dict(pool.counts()); },
          "Work done and memory held.")
      .def_prop_ro("memory_limit", &Pool::memory_limit_bytes)
      .def("raise_memory_limit", &Pool::raise_memory_limit, "at_least_bytes"_a,
           "Never lowers the limit.")
      .def_prop_ro("read_buffer_bytes", &Pool::read_buffer_bytes);

  nb::class_<BaseMemory>(m, "BaseMemory",
                         "A base of a batch: float32 (rows, channels, ny, nx) in host memory.")
      .def_prop_ro("shape",
                   [](const BaseMemory& base) {
                     return Shape4(nb::make_tuple(base.shape[0], base.shape[1], base.shape[2],
                                                  base.shape[3]));
                   })
      .def(
          "writable_array",
          [](nb::handle self) {
            const auto& base = nb::cast<const BaseMemory&>(self);
            const auto& shape = base.shape;
            return nb::ndarray<nb::numpy, float, nb::ndim<4>>(
                base.data,
                {static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]),
                 static_cast<std::size_t>(shape[2]), static_cast<std::size_t>(shape[3])},
                self);
          },
          "The same memory for NumPy, which takes what comes by DLPack for read-only.")
      .def(
          "__dlpack__",
          [](const BaseMemory& base, const nb::kwargs& /*options*/) {
            return dlpack_capsule(base);
          },
          nb::sig("def __dlpack__(self, **options: typing.Any) -> typing_extensions.CapsuleType"),
          "A capsule whose memory lives until its last view dies.")
      .def("__dlpack_device__",
           [](const BaseMemory&) { return nb::typed<nb::tuple, int, int>(nb::make_tuple(1, 0)); });

  nb::class_<FinishedBatch>(m, "FinishedBatch", "The bases of a batch and what they cost.")
      .def_prop_ro("bases", &bases_of)
      .def_prop_ro("work",
                   [](const FinishedBatch& batch) { return as_dict(batch.job->state.work); })
      .def_prop_ro(
          "bad_values", &bad_of,
          "(base, channel, count, first row of the store, count in that row, first cell in it) "
          "each.")
      .def_prop_ro("missing_chunks", &missing_of, "(store, array, first key, count) each.")
      .def_ro("wait_s", &FinishedBatch::wait_s);

  nb::class_<BatchStream>(m, "BatchStream", "Batches in the order in which they were submitted.")
      .def(nb::init<std::shared_ptr<Pool>, int>(), "pool"_a, "prefetch_batches"_a)
      .def(
          "submit",
          [](BatchStream& stream, const std::vector<Request>& bases) {
            leave_if_ending();
            auto needs = requests(bases);
            GilRelease release;
            if (!stream.admits(needs)) return false;
            stream.submit(std::move(needs));
            return true;
          },
          "bases"_a,
          "Plan and start a batch: (fields, int64 rows of the store) for each base. False, and "
          "nothing done, if ring or memory have no room for it.")
      .def("next", &next_batch,
           "Wait for the oldest batch; raises the error of its earliest failing chunk.")
      .def_prop_ro("pending", &BatchStream::pending)
      .def(
          "close",
          [](BatchStream& stream, double deadline_s) { stream.close(Seconds(deadline_s)); },
          "deadline_s"_a, nb::call_guard<GilRelease>(), "Drop what is pending.");
}

}  // namespace niskin::bindings
