# MAXSIM_COMMIT: the git commit this tree was configured at, or "unknown" outside a checkout.
set(MAXSIM_COMMIT unknown)
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE MAXSIM_COMMIT_FOUND OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(MAXSIM_COMMIT_FOUND)
    set(MAXSIM_COMMIT ${MAXSIM_COMMIT_FOUND})
  endif()
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/generated/maxsim_version.h)
add_library(maxsim_version INTERFACE)
target_include_directories(maxsim_version INTERFACE ${PROJECT_BINARY_DIR}/generated)
