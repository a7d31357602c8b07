// Letting go of the GIL in a way that a daemon thread survives the end of the interpreter.
//
// A thread that asks for the GIL while the interpreter ends is unwound by Python, and no C++ frame
// between survives that: the process aborts. So the package says when the end begins, while Python
// still works, and from then on no thread lets go of the GIL here.
#pragma once

#include <nanobind/nanobind.h>

namespace niskin::bindings {

// Lets other Python threads run while it lives; does nothing once the interpreter is ending.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

// Raises SystemExit, which ends a thread quietly, once the interpreter is ending; not in the thread
// that ends it.
void leave_if_ending();

}  // namespace niskin::bindings
