# Third-party libraries as imported targets. Each missing one is reported by name together, so that
# one reading of the message is enough.

find_package(Threads REQUIRED)
set(niskin_missing "")

function(niskin_find_library target header library)
  string(MAKE_C_IDENTIFIER "${target}" id)
  find_path(${id}_INCLUDE_DIR ${header})
  find_library(${id}_LIBRARY ${library})
  if(${id}_INCLUDE_DIR AND ${id}_LIBRARY)
    add_library(niskin::${target} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(niskin::${target} PROPERTIES
      IMPORTED_LOCATION "${${id}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${${id}_INCLUDE_DIR}")
  else()
    set(niskin_missing "${niskin_missing} ${target}" PARENT_SCOPE)
  endif()
endfunction()

niskin_find_library(blosc blosc.h blosc)
niskin_find_library(zstd zstd.h zstd)
niskin_find_library(lz4 lz4.h lz4)
niskin_find_library(deflate libdeflate.h deflate)

find_package(nlohmann_json CONFIG QUIET)
if(NOT nlohmann_json_FOUND)
  string(APPEND niskin_missing " nlohmann-json")
endif()
find_package(fmt CONFIG QUIET)
if(NOT fmt_FOUND)
  string(APPEND niskin_missing " fmt")
endif()
if(NISKIN_BUILD_TESTS)
  find_package(GTest CONFIG QUIET)
  if(NOT GTest_FOUND)
    string(APPEND niskin_missing " googletest")
  endif()
endif()
if(NISKIN_BUILD_BENCH)
  find_package(benchmark CONFIG QUIET)
  if(NOT benchmark_FOUND)
    string(APPEND niskin_missing " google-benchmark")
  endif()
endif()
if(niskin_missing)
  message(FATAL_ERROR
    "Niskin needs these libraries with their headers:${niskin_missing}\n"
    "  Debian/Ubuntu: apt-get install libblosc-dev libzstd-dev liblz4-dev libdeflate-dev "
    "nlohmann-json3-dev libfmt-dev libgtest-dev libgmock-dev libbenchmark-dev\n"
    "  conda:         conda install -c conda-forge blosc=1 zstd lz4-c libdeflate nlohmann_json fmt gtest "
    "benchmark")
endif()
