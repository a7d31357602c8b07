#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "bindings.h"
#include "gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace niskin::bindings {
namespace {

std::atomic<int> without_gil{0};  // threads inside a GilRelease
std::atomic<bool> ending{false};
std::atomic<unsigned long> ending_thread{0};

// True if every thread has its GIL back in time.
bool end_releases(double deadline_s) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(deadline_s));
  ending_thread = PyThread_get_thread_ident();
  ending = true;
  const nb::gil_scoped_release release;
  while (without_gil > 0 && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return without_gil == 0;
}

}  // namespace

GilRelease::GilRelease() {
  if (ending) return;
  ++without_gil;
  state_ = PyEval_SaveThread();
}

GilRelease::~GilRelease() {
  if (state_ == nullptr) return;
  PyEval_RestoreThread(state_);
  --without_gil;
}

void leave_if_ending() {
  if (!ending || ending_thread == PyThread_get_thread_ident()) return;
  PyErr_SetNone(PyExc_SystemExit);
  throw nb::python_error();
}

void bind_gil(nb::module_& m) {
  // A forked child has none of the threads that were counted.
  pthread_atfork(nullptr, nullptr, [] { without_gil = 0; });
  m.def("interpreter_is_ending", &end_releases, "deadline_s"_a,
        "Call at exit: then no thread lets go of the GIL here. False if one still waits.");
}

}  // namespace niskin::bindings
