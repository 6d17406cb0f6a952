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
  # ccache hashes paths relative to the repository, so that clones share compiled files. To cache files that use a
  # precompiled header, it needs this sloppiness (its manual, "Precompiled headers") and the compiler options in
  # MaxsimPrecompiled.cmake. With CCACHE_DEPEND it does not preprocess a file by itself before the compiler does.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

# Linked by every target of ours; generated code (protobuf) is built without it.
add_library(maxsim_warnings INTERFACE)
target_compile_options(maxsim_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Checks the annotations of base/mutex.h.
  target_compile_options(maxsim_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives: std::string's operator+ in GCC 12 (GCC bug 105651), and flow analysis of instrumented code.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(maxsim_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
  if(MAXSIM_SANITIZE)
    target_compile_options(maxsim_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endif()

# A tenth of GCC's time is collecting garbage otherwise, for 60 MB of memory. Not in the debug build, whose commands
# clang-tidy reads: it does not know these options.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-expand=300 --param ggc-min-heapsize=2000000>")
endif()

if(MAXSIM_SANITIZE)
  # A report ends the program: with the flag below UBSan's do too.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MAXSIM_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  # AddressSanitizer finds null pointers and destroyed objects too. UBSan's checks of them take a quarter of the
  # compiler's time.
  if(MAXSIM_SANITIZE MATCHES "undefined")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,vptr>)
  endif()
  add_link_options(-fsanitize=${MAXSIM_SANITIZE})
  # It links in a fifth of the time.
  find_program(MAXSIM_LLD ld.lld)
  if(MAXSIM_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# maxsim_optimize_little(TARGET): for command lines, benchmarks and support of tests, most of whose compiling is the
# templates of CLI11, JSON and Asio, and whose speed is that of the libraries they call: half the time at -O1.
function(maxsim_optimize_little target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# maxsim_library(NAME SOURCES ... DEPENDS ...): one static library a folder. Includes are written from the top folder.
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
