# Builds with sanitizers need more than the compiler's flag: settings for the tests, and wrappers that tell TSan about
# abseil's locks. Every binary links maxsim_sanitizers, which is empty in other builds.
add_library(maxsim_sanitizers INTERFACE)

# Environment of every test. A sanitizer's report ends the test. Suppressions name libraries that are built without
# the sanitizer.
set(MAXSIM_TEST_ENVIRONMENT
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1"
    "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/sanitizers/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/sanitizers/tsan.supp:second_deadlock_stack=1")

if(MAXSIM_SANITIZE MATCHES "thread")
  # The name of abseil's inline namespace, which is part of every symbol: "debian3" or "lts_20220623".
  get_target_property(absl_include absl::synchronization INTERFACE_INCLUDE_DIRECTORIES)
  find_file(absl_options absl/base/options.h HINTS ${absl_include} REQUIRED)
  file(STRINGS ${absl_options} absl_namespace REGEX "^#define ABSL_OPTION_INLINE_NAMESPACE_NAME ")
  string(REGEX REPLACE "^.* " "" absl_namespace "${absl_namespace}")
  string(LENGTH "${absl_namespace}" length)

  add_library(maxsim_tsan_absl OBJECT ${CMAKE_CURRENT_LIST_DIR}/sanitizers/tsan_absl.cc)
  target_compile_definitions(maxsim_tsan_absl PRIVATE
    MAXSIM_ABSL="N4absl${length}${absl_namespace}" MAXSIM_ABSL_CONST="NK4absl${length}${absl_namespace}")
  target_link_libraries(maxsim_tsan_absl PRIVATE absl::synchronization)
  target_link_libraries(maxsim_sanitizers INTERFACE absl::synchronization)
  target_sources(maxsim_sanitizers INTERFACE $<TARGET_OBJECTS:maxsim_tsan_absl>)

  # Adds a --wrap option for each symbol that the source names.
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/sanitizers/tsan_absl.cc wrapped REGEX "IN_ABSL(_CONST)?\\(\"")
  foreach(line IN LISTS wrapped)
    string(REGEX MATCH "IN_ABSL(_CONST)?\\(\"([^\"]*)\"" found "${line}")
    if(CMAKE_MATCH_1)
      set(nested NK)
    else()
      set(nested N)
    endif()
    target_link_options(maxsim_sanitizers INTERFACE
      "LINKER:--wrap=_Z${nested}4absl${length}${absl_namespace}${CMAKE_MATCH_2}")
  endforeach()
endif()

# The presets of sanitizers do not optimise, which halves the compile time. Folders whose code would then compute for
# minutes call this: it optimises the libraries that are added after it in the folder and below.
macro(maxsim_optimize_when_sanitized)
  if(MAXSIM_SANITIZE)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-O2>)
  endif()
endmacro()

# Optimises code that fuzz targets call thousands of times per second, in builds of fuzz targets only. Tests do not
# need it, and without it the code compiles in a third of the time.
macro(maxsim_optimize_when_fuzzed)
  if(MAXSIM_FUZZ)
    maxsim_optimize_when_sanitized()
  endif()
endmacro()
