#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "gil.h"
#include "niskin/zarr/group.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace niskin::bindings {

using zarr::Array;
using zarr::Group;

namespace {

using Integers = nb::typed<nb::tuple, int, nb::ellipsis>;

Integers integers(const Shape& shape) { return Integers(nb::tuple(nb::cast(shape))); }

}  // namespace

void bind_zarr(nb::module_& m) {
  nb::class_<Array>(m, "Array", "An array of a store; metadata only until a batch needs a chunk.")
      .def_prop_ro("name", [](const Array& a) { return a.meta().name; })
      .def_prop_ro("shape", [](const Array& a) { return integers(a.meta().shape); })
      .def_prop_ro("chunk_shape", [](const Array& a) { return integers(a.meta().chunk_shape); })
      .def_prop_ro("dtype", [](const Array& a) { return a.meta().dtype.name(); })
      .def_prop_ro("codec",
                   [](const Array& a) {
                     return a.meta().codec ? a.meta().codec->name() : std::string("none");
                   })
      .def_prop_ro("dimension_names", [](const Array& a) { return a.meta().dimension_names; });
  nb::class_<Group>(m, "Group", "The arrays of an open store, by name.")
      .def_static(
          "open", [](const std::string& path) { return Group::open(zarr::open_local_store(path)); },
          "path"_a, nb::call_guard<GilRelease>(), "Open a directory; metadata is read once.")
      .def("array", &Group::array, "name"_a, "The array of that name; StoreError names near ones.")
      .def_prop_ro("array_names", &Group::array_names);
}

}  // namespace niskin::bindings
