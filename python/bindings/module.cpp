#include "bindings.h"

NB_MODULE(_core, m) {
  // A daemon thread or a global may hold a loader when the interpreter ends: no fault, no message.
  nanobind::set_leak_warnings(false);
  m.doc() = "The C++ core of Niskin: stores, read plans, kernels, worker pool.";
  niskin::bindings::bind_errors(m);
  niskin::bindings::bind_gil(m);
  niskin::bindings::bind_zarr(m);
  niskin::bindings::bind_plan(m);
  niskin::bindings::bind_loader(m);
}
