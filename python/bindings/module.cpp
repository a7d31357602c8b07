#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Niskin: stores, read plans, kernels, worker pool.";
  niskin::bindings::bind_errors(m);
  niskin::bindings::bind_zarr(m);
  niskin::bindings::bind_plan(m);
  niskin::bindings::bind_loader(m);
}
