# niskin_module(<name> SOURCES ... [DEPENDS ...] [LIBRARIES ...] [TESTS ...])
#
# One static library per module of src/niskin, named niskin_<name>. DEPENDS lists the modules it may
# include (their headers become visible to nobody else), LIBRARIES the third-party targets, TESTS the
# *_test.cpp files that lie beside the sources and become one test program.

add_library(niskin_flags INTERFACE)
target_compile_options(niskin_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -ffp-contract=off -fno-fast-math)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(niskin_flags INTERFACE -Wthread-safety)
endif()
if(NISKIN_SANITIZE STREQUAL "address")
  target_compile_options(niskin_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(niskin_flags INTERFACE -fsanitize=address,undefined)
elseif(NISKIN_SANITIZE STREQUAL "thread")
  target_compile_options(niskin_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(niskin_flags INTERFACE -fsanitize=thread)
elseif(NOT NISKIN_SANITIZE STREQUAL "")
  message(FATAL_ERROR "NISKIN_SANITIZE must be address, thread or empty, got '${NISKIN_SANITIZE}'")
endif()

function(niskin_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES;TESTS;TEST_LIBRARIES" ${ARGN})
  add_library(niskin_${name} STATIC ${ARG_SOURCES})
  target_include_directories(niskin_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(niskin_${name} PUBLIC niskin_flags)
  foreach(module IN LISTS ARG_DEPENDS)
    target_link_libraries(niskin_${name} PUBLIC niskin_${module})
  endforeach()
  target_link_libraries(niskin_${name} PRIVATE ${ARG_LIBRARIES})
  if(NISKIN_BUILD_TESTS AND ARG_TESTS)
    add_executable(niskin_${name}_test ${ARG_TESTS})
    target_link_libraries(niskin_${name}_test PRIVATE
      niskin_${name} ${ARG_TEST_LIBRARIES} ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
    add_test(NAME ${name} COMMAND niskin_${name}_test)
    # Damaged bytes in a loop take minutes under ThreadSanitizer.
    if(NISKIN_SANITIZE STREQUAL "")
      set_tests_properties(${name} PROPERTIES TIMEOUT 300)
    else()
      set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
    endif()
  endif()
endfunction()
