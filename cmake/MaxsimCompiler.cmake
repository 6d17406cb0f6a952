# Language level, warnings and sanitizers of every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # With paths relative to the repository, clones share the files that ccache has compiled. For files that use a
  # precompiled header, ccache needs this sloppiness (see "Precompiled headers" in its manual) and the compiler
  # options in MaxsimPrecompiled.cmake. With CCACHE_DEPEND, ccache does not preprocess a file before it calls the
  # compiler.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

# On Arm, compilers differ from those for x86-64 in two ways. They fuse a multiplication with the addition that follows it,
# which changes the bits of results, and their `char` is unsigned.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off> $<$<COMPILE_LANGUAGE:CXX>:-fsigned-char>
                      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off,-fsigned-char>")
endif()

# Every target of this project links maxsim_warnings, except for generated code (protobuf).
add_library(maxsim_warnings INTERFACE)
target_compile_options(maxsim_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Checks the annotations of base/mutex.h.
  target_compile_options(maxsim_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # These two warnings have false positives: -Wrestrict for std::string's operator+ in GCC 12 (GCC bug 105651), and
  # -Wmaybe-uninitialized for instrumented code.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(maxsim_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
  if(MAXSIM_SANITIZE)
    target_compile_options(maxsim_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endif()

# Without these options, GCC spends a tenth of its time on collecting garbage. They cost 60 MB of memory. The debug
# build does without them, because clang-tidy reads its commands and does not know the options.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-expand=300 --param ggc-min-heapsize=2000000>")
endif()

if(MAXSIM_SANITIZE)
  # Every report of a sanitizer ends the program. UBSan's reports do so only with -fno-sanitize-recover.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MAXSIM_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  # AddressSanitizer finds null pointers and destroyed objects as well, and UBSan's checks for them take a quarter of
  # the compile time. So they are off.
  if(MAXSIM_SANITIZE MATCHES "undefined")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,vptr>)
  endif()
  add_link_options(-fsanitize=${MAXSIM_SANITIZE})
  # lld links in a fifth of the time.
  find_program(MAXSIM_LLD ld.lld)
  if(MAXSIM_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# maxsim_optimize_little(TARGET): compiles a target with -O1, which takes half the time. It is for command lines,
# benchmarks and support of tests: they consist mostly of templates of CLI11, JSON and Asio, and the libraries that
# they call determine their speed.
function(maxsim_optimize_little target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# maxsim_library(NAME SOURCES ... DEPENDS ...): adds a static library, usually one per folder. #include paths begin at
# the repository's root.
function(maxsim_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE} maxsim_warnings)
  if(MAXSIM_PRECOMPILED_LIBRARIES)
    maxsim_precompile(${name} library.h)
  endif()
endfunction()

# maxsim_binary(NAME SOURCES ... DEPENDS ...): a thin main.
function(maxsim_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} maxsim_warnings maxsim_sanitizers)
endfunction()
