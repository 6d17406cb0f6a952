# Precompiled headers. Without them, most of the compile time goes to reading the headers of gRPC, abseil and
# GoogleTest. The preset `debug` does not use them, so that its compiler and clang-tidy find files that miss an
# #include.

# ccache caches a file that uses a precompiled header only if the compiler has these options.
function(maxsim_cache_precompiled target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess> "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# maxsim_precompile(TARGET HEADER LIBRARIES...): the target's files include cmake/precompiled/HEADER first. The header
# is compiled once for all targets with the same options, because compilers accept a precompiled header only with
# equal options. LIBRARIES are the libraries whose headers it includes.
function(maxsim_precompile target header)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  get_directory_property(options COMPILE_OPTIONS)
  get_target_property(type ${target} TYPE)
  string(MD5 key "${options} ${type} ${header}")
  string(SUBSTRING ${key} 0 8 key)
  string(REGEX REPLACE "\\..*" "" name ${header})
  set(shared maxsim_precompiled_${name}_${key})
  if(NOT TARGET ${shared})
    add_library(${shared} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled/nothing.cc)
    set_target_properties(${shared} PROPERTIES UNITY_BUILD OFF)
    if(type STREQUAL EXECUTABLE)
      set_target_properties(${shared} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${shared} PRIVATE -fPIE)
    endif()
    target_precompile_headers(${shared} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/cmake/precompiled/${header}>)
    # Adds only the include folders of the generated headers. Their libraries also have macros, which not all targets
    # have.
    target_include_directories(${shared} PRIVATE ${PROJECT_SOURCE_DIR})
    target_include_directories(${shared} SYSTEM PRIVATE $<TARGET_PROPERTY:maxsim_proto,INTERFACE_INCLUDE_DIRECTORIES>
                               $<TARGET_PROPERTY:maxsim_grpc,INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(${shared} PRIVATE ${ARGN})
    maxsim_cache_precompiled(${shared})
    add_dependencies(${shared} maxsim_proto_sources)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
  maxsim_cache_precompiled(${target})
endfunction()
