// Errors of the core become the classes of niskin.errors.
#include "bindings.h"
#include "niskin/base/error.h"

namespace nb = nanobind;

namespace niskin::bindings {
namespace {

const char* class_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kStore:
      return "StoreError";
    case ErrorKind::kFormat:
      return "FormatError";
    case ErrorKind::kUsage:
      return "UsageError";
    case ErrorKind::kDecode:
      return "DecodeError";
  }
  return "UsageError";
}

void translate(const std::exception_ptr& pointer, void* /*unused*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const nb::object type = nb::module_::import_("niskin.errors").attr(class_name(error.kind()));
    PyErr_SetString(type.ptr(), error.what());
  }
}

}  // namespace

void bind_errors(nb::module_& /*m*/) { nb::register_exception_translator(translate); }

}  // namespace niskin::bindings
