# MAXSIM_COMMIT is the git commit of this tree when it was configured, or "unknown" outside of a checkout. A build
# without git, such as that of an image, sets it with -DMAXSIM_COMMIT=...
set(MAXSIM_BUILD_COMMIT ${MAXSIM_COMMIT})
find_package(Git QUIET)
if(NOT MAXSIM_BUILD_COMMIT AND GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE MAXSIM_BUILD_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT MAXSIM_BUILD_COMMIT)
  set(MAXSIM_BUILD_COMMIT unknown)
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/generated/maxsim_version.h)
add_library(maxsim_version INTERFACE)
target_include_directories(maxsim_version INTERFACE ${PROJECT_BINARY_DIR}/generated)
