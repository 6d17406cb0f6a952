# maxsim_test(NAME SOURCES ... DEPENDS ... [LABELS ...] [TIMEOUT seconds]): a GoogleTest binary, one CTest test a binary.
# Labels: unit, service, gpu (needs a GPU; skips itself with a line without one), concurrent (run again under TSan).
function(maxsim_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  maxsim_binary(${name} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                       ENVIRONMENT "${MAXSIM_TEST_ENVIRONMENT}")
endfunction()
