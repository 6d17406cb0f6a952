# maxsim_test(NAME SOURCES ... DEPENDS ... [PROGRAM program] [LABELS ...] [TIMEOUT seconds] [SHARDS count]): adds a
# GoogleTest binary as a CTest test, or with SHARDS as the tests NAME_1, NAME_2 and so on, which each run a share of its
# cases. Tests with the same PROGRAM share one binary, which compiles in a third of the time. The target NAME builds that
# binary, and build/PRESET/tests/NAME is a script that runs only the cases of NAME. The binary takes its compile options
# from the folder that adds its first test. Labels:
#   unit
#   service      runs real servers and programs: runs after the others, and a second time if it fails
#   gpu          needs a GPU, and skips itself without one
#   concurrent   CI runs it again under TSan, and does not run it under ASan
#   asan         runs under ASan although it is concurrent, because it reads bytes from outside
#   machine      depends on real time: is treated like service
#   integration  runs only in `make test-integrations`
#   seeded       depends on MAXSIM_TEST_SEED: `make explore` runs it with new seeds
function(maxsim_test name)
  cmake_parse_arguments(ARG "" "PROGRAM;TIMEOUT;SHARDS" "SOURCES;DEPENDS;LABELS" ${ARGN})
  # TSan also reports use of freed memory, so ASan need not run the tests that TSan runs.
  if(MAXSIM_SANITIZE MATCHES "address" AND "concurrent" IN_LIST ARG_LABELS AND NOT "asan" IN_LIST ARG_LABELS)
    return()
  endif()
  if(ARG_PROGRAM)
    maxsim_add_to_test_program(${ARG_PROGRAM} ${name} "${ARG_SOURCES}" "${ARG_DEPENDS}")
  else()
    maxsim_test_program(${name} "${ARG_SOURCES}" "${ARG_DEPENDS};GTest::gtest_main")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)  # only ends tests that hang, even on a busy machine
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(test ${name})
    set(environment ${MAXSIM_TEST_ENVIRONMENT})
    if(ARG_SHARDS GREATER 1)
      set(test ${name}_${shard})
      math(EXPR index "${shard} - 1")
      list(APPEND environment GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${test} COMMAND ${CMAKE_BINARY_DIR}/tests/${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# Adds an executable that contains test cases.
function(maxsim_test_program name sources depends)
  maxsim_binary(${name} SOURCES ${sources} DEPENDS ${depends} maxsim_no_preallocation GTest::gmock)
  if(MAXSIM_PRECOMPILED_TESTS)
    maxsim_precompile(${name} test.h GTest::gmock GTest::gtest)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# Adds a test to a shared test program. Creates the program on first use.
function(maxsim_add_to_test_program program test sources depends)
  if(NOT TARGET ${program})
    maxsim_test_program(${program} ${PROJECT_SOURCE_DIR}/tests/support/main_by_files.cc absl::strings)
    # Eight source files are compiled together. More would save little, and an edit of one compiles all of them again.
    set_target_properties(${program} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  endif()
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(${program} PRIVATE ${sources})
  target_link_libraries(${program} PRIVATE ${depends})
  set(files)
  foreach(source IN LISTS sources)
    cmake_path(GET source FILENAME file)
    if(file MATCHES "_test\\.cc$")
      list(APPEND files ${file})
    endif()
  endforeach()
  list(JOIN files "," files)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests/${test} @ONLY CONTENT
"#!/bin/sh
# Runs the cases of one test, which is compiled into a shared program.
# program: @program@
exec \"\$(dirname \"\$0\")/@program@\" --files=@files@ \"\$@\"
")
  file(CHMOD ${CMAKE_BINARY_DIR}/tests/${test} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
       WORLD_READ WORLD_EXECUTE)
  add_custom_target(${test} DEPENDS ${program})
endfunction()

# maxsim_concurrent_cases(NAME_test FILTER): in TSan builds, which do not run the whole test, adds the cases that
# match FILTER as NAME_concurrent_test with the label concurrent. Other builds run these cases as part of the whole
# test.
function(maxsim_concurrent_cases test filter)
  if(NOT MAXSIM_SANITIZE MATCHES "thread")
    return()
  endif()
  string(REGEX REPLACE "_test$" "_concurrent_test" name ${test})
  add_test(NAME ${name} COMMAND ${CMAKE_BINARY_DIR}/tests/${test} "--gtest_filter=${filter}" WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS concurrent ENVIRONMENT "${MAXSIM_TEST_ENVIRONMENT}")
endfunction()

# The Python for tests without an ENVIRONMENT. The distribution's Python packages (deploy/apt-packages.txt) work only
# with this Python.
set(MAXSIM_PYTHON /usr/bin/python3 CACHE FILEPATH "Python that has the distribution's grpc, grpc_tools and numpy")

# maxsim_python_environment(NAME REQUIREMENTS [INTEGRATION]): declares a virtual environment of PyPI packages. The test
# environment_NAME creates it before the tests that use it. An environment with INTEGRATION takes gigabytes: only `make
# test-integrations` creates it, and the tests that use it get the label integration.
function(maxsim_python_environment name requirements)
  set(venv ${PROJECT_BINARY_DIR}/tests/environments/${name})
  add_test(NAME environment_${name}
    COMMAND ${PROJECT_SOURCE_DIR}/tests/support/make-environment.sh ${venv} ${requirements}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(labels environment)
  if("INTEGRATION" IN_LIST ARGN)
    list(APPEND labels integration)
  endif()
  # Created first, because the download needs no processor.
  set_tests_properties(environment_${name} PROPERTIES
    FIXTURES_SETUP environment_${name} LABELS "${labels}" TIMEOUT 900 COST 1000)
  set_property(GLOBAL PROPERTY maxsim_labels_of_${name} ${labels})
endfunction()

# maxsim_python_test(NAME PROGRAM [ENVIRONMENT NAME] [ARGUMENTS ...] [LABELS ...] [TIMEOUT seconds]): runs a Python program
# as a test, in a virtual environment or with MAXSIM_PYTHON.
function(maxsim_python_test name program)
  cmake_parse_arguments(ARG "" "ENVIRONMENT;TIMEOUT" "ARGUMENTS;LABELS" ${ARGN})
  set(modified)
  if(ARG_ENVIRONMENT)
    set(venv ${PROJECT_BINARY_DIR}/tests/environments/${ARG_ENVIRONMENT})
    # CTest looks up a test's program long before the environment is created. It finds /usr/bin/env, which runs the
    # environment's Python later.
    set(python /usr/bin/env ${venv}/bin/python)
    # Compiling PyTorch to bytecode takes longer than most tests, so test processes share the compiled files.
    set(modified PYTHONDONTWRITEBYTECODE=unset: PYTHONPYCACHEPREFIX=set:${venv}/compiled)
    get_property(labels GLOBAL PROPERTY maxsim_labels_of_${ARG_ENVIRONMENT})
    if("integration" IN_LIST labels)
      list(APPEND ARG_LABELS integration)
    endif()
  else()
    set(python ${MAXSIM_PYTHON} -B)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)  # only ends tests that hang, even on a busy machine
  endif()
  add_test(NAME ${name} COMMAND ${python} ${program} ${ARG_ARGUMENTS} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "${MAXSIM_TEST_ENVIRONMENT};MAXSIM_PYTHON=${MAXSIM_PYTHON}" ENVIRONMENT_MODIFICATION "${modified}")
  if(ARG_ENVIRONMENT)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED environment_${ARG_ENVIRONMENT})
  endif()
endfunction()
