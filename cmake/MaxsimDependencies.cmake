# Libraries from the distribution's packages (deploy/apt-packages.txt). Debian 12 has pkg-config files for all of
# gRPC, protobuf and abseil, but CMake configurations only for some of them. So gRPC is found through pkg-config.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
# pkg_check_modules would call pkg-config a dozen times, and each call takes two seconds for gRPC and all that it
# requires.
if(NOT DEFINED GRPCPP_FLAGS)
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --cflags --libs grpc++
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(GRPCPP_FLAGS "${flags}" CACHE INTERNAL "What pkg-config says of grpc++")
endif()
add_library(maxsim_grpc INTERFACE)
set(GRPCPP_CFLAGS_OTHER ${GRPCPP_FLAGS})
list(FILTER GRPCPP_CFLAGS_OTHER INCLUDE REGEX "^-[DU]")
set(libraries)
set(directories ${GRPCPP_FLAGS})
list(FILTER directories INCLUDE REGEX "^-L")
list(TRANSFORM directories REPLACE "^-L" "")
foreach(flag IN LISTS GRPCPP_FLAGS)
  if(flag MATCHES "^-I(.*)")
    target_include_directories(maxsim_grpc SYSTEM INTERFACE ${CMAKE_MATCH_1})
  elseif(flag MATCHES "^-l(.*)")
    # Links a library by its path, so that programs find it at run time. The compiler finds its own libraries, such as
    # libatomic, by name.
    set(name ${CMAKE_MATCH_1})
    find_library(GRPCPP_LIBRARY_${name} ${name} HINTS ${directories})
    mark_as_advanced(GRPCPP_LIBRARY_${name})
    if(GRPCPP_LIBRARY_${name})
      list(APPEND libraries ${GRPCPP_LIBRARY_${name}})
    else()
      list(APPEND libraries ${name})
    endif()
  endif()
endforeach()
# The order of static libraries matters: of several mentions of a library, only the last one may stay.
list(REVERSE libraries)
list(REMOVE_DUPLICATES libraries)
list(REVERSE libraries)
target_compile_options(maxsim_grpc INTERFACE ${GRPCPP_CFLAGS_OTHER})
target_link_libraries(maxsim_grpc INTERFACE ${libraries})
# gRPC encrypts with OpenSSL. The server also calls OpenSSL directly, for example to check certificates.
find_package(OpenSSL REQUIRED)
find_package(absl REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
# Roaring bitmaps hold the documents that a filter matches. Not every distribution's package has a pkg-config file.
find_path(ROARING_INCLUDE_DIR roaring/roaring.h REQUIRED)
find_library(ROARING_LIBRARY roaring REQUIRED)
mark_as_advanced(ROARING_INCLUDE_DIR ROARING_LIBRARY)
add_library(maxsim_roaring INTERFACE)
target_include_directories(maxsim_roaring SYSTEM INTERFACE ${ROARING_INCLUDE_DIR})
target_link_libraries(maxsim_roaring INTERFACE ${ROARING_LIBRARY})
# The log of a live collection.
pkg_check_modules(ROCKSDB REQUIRED IMPORTED_TARGET rocksdb)
# The client of NATS, whose stream orders the writes of several servers (live.log nats).
pkg_check_modules(NATS REQUIRED IMPORTED_TARGET libnats)
# A client of the HTTP port. Distributions compile this library with OpenSSL, zlib and brotli, and its ABI depends on
# the flags that pkg-config gives.
pkg_check_modules(CPP_HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

include(MaxsimSanitizers)
