# maxsim_test(NAME SOURCES ... DEPENDS ... [LABELS ...] [TIMEOUT seconds]): a GoogleTest binary, one CTest test a binary.
# Labels: unit, service, gpu (needs a GPU; skips itself with a line without one), concurrent (run again under TSan).
function(maxsim_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  maxsim_binary(${name} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  if(MAXSIM_PRECOMPILED_TESTS)
    maxsim_precompile(${name} test.h GTest::gmock GTest::gtest)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                       ENVIRONMENT "${MAXSIM_TEST_ENVIRONMENT}")
endfunction()

# maxsim_concurrent_cases(NAME_test FILTER): those cases of a test once more as NAME_concurrent_test, labelled concurrent,
# where the whole test is not for TSan. Other builds run them in the whole.
function(maxsim_concurrent_cases test filter)
  if(NOT MAXSIM_SANITIZE MATCHES "thread")
    return()
  endif()
  string(REGEX REPLACE "_test$" "_concurrent_test" name ${test})
  add_test(NAME ${name} COMMAND ${test} "--gtest_filter=${filter}" WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS concurrent ENVIRONMENT "${MAXSIM_TEST_ENVIRONMENT}")
endfunction()
