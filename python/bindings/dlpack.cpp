#include "dlpack.h"

namespace nb = nanobind;

namespace niskin::bindings {
namespace {

// The layout that DLPack 0.8 fixes for its managed tensors.
struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

constexpr std::int32_t kCpu = 1;
constexpr std::uint8_t kFloatCode = 2;

struct Managed {
  DLManagedTensor tensor{};
  BaseMemory base;
  std::array<std::int64_t, 4> strides{};
};

void release(DLManagedTensor* tensor) noexcept {
  delete static_cast<Managed*>(tensor->manager_ctx);
}

// Runs with the GIL, and only for a capsule that nobody has consumed.
void destroy_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;
  release(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor")));
}

}  // namespace

nb::object dlpack_capsule(const BaseMemory& base) {
  auto managed = std::make_unique<Managed>();
  managed->base = base;
  auto& shape = managed->base.shape;
  managed->strides = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  managed->tensor = {.dl_tensor = {.data = base.data,
                                   .device = {kCpu, 0},
                                   .ndim = 4,
                                   .dtype = {kFloatCode, 32, 1},
                                   .shape = shape.data(),
                                   .strides = managed->strides.data(),
                                   .byte_offset = 0},
                     .manager_ctx = managed.get(),
                     .deleter = release};
  PyObject* capsule = PyCapsule_New(&managed->tensor, "dltensor", destroy_capsule);
  if (capsule == nullptr) throw nb::python_error();
  [[maybe_unused]] const Managed* owned_by_the_capsule = managed.release();
  return nb::steal(capsule);
}

}  // namespace niskin::bindings
