// One function for each bind_*.cpp; module.cpp calls them in this order.
#pragma once

#include <nanobind/nanobind.h>

namespace niskin::bindings {

void bind_errors(nanobind::module_& m);
void bind_gil(nanobind::module_& m);
void bind_zarr(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_loader(nanobind::module_& m);

}  // namespace niskin::bindings
