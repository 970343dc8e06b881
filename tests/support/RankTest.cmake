# The precompiled headers of the tests.
weft_add_pch(weft_tests_pch ${PROJECT_SOURCE_DIR}/tests/support/pch.hpp QUICK
  LIBRARIES weft::libtorch nlohmann_json::nlohmann_json GTest::gmock)

# weft_use_tests_pch(TARGET): for tests that use libtorch.
function(weft_use_tests_pch target)
  weft_quick_to_compile(${target})
  weft_use_pch(${target} weft_tests_pch)
endfunction()

# weft_add_rank_test(NAME name SOURCES ... [OF library] [LIBRARIES ...] [LABELS ...] [SECONDS n])
# A test binary that uses libtorch and the engine and may fork ranks (support/launch_ranks.hpp): the test main, the
# precompiled header, and one CTest test for all its cases. OF: it links this library of the engine and those below it alone, and
# the presets `asan` and `tsan` build and run it too. SECONDS: about what a long test takes on two cores. CTest begins with the longest
# tests, and a new build tree has not measured any.
function(weft_add_rank_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;OF;SECONDS" "SOURCES;LIBRARIES;LABELS")
  add_executable(${arg_NAME} ${arg_SOURCES})
  weft_use_tests_pch(${arg_NAME})
  if(arg_OF)
    weft_engine_up_to(${arg_OF} engine)
    list(APPEND arg_LABELS asan tsan)
    add_dependencies(weft_asan_tests ${arg_NAME})
    add_dependencies(weft_tsan_tests ${arg_NAME})
  else()
    set(engine weft::core weft_engine_sources)
  endif()
  target_link_libraries(${arg_NAME} PRIVATE weft_warnings weft_launch_ranks ${engine} ${arg_LIBRARIES} GTest::gtest_main)
  target_include_directories(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
  weft_set_labels(${arg_NAME} ${arg_LABELS})
  set_tests_properties(${arg_NAME} PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1")
  if(arg_SECONDS)
    set_tests_properties(${arg_NAME} PROPERTIES COST ${arg_SECONDS})
  endif()
endfunction()

# weft_add_strategy_test(STRATEGY SOURCES ... [LIBRARIES ...] [SECONDS n])
# plugin_<STRATEGY>: the strategy, found by name, with the models and comparisons of weft_training_support.
function(weft_add_strategy_test strategy)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SECONDS" "SOURCES;LIBRARIES")
  weft_add_rank_test(NAME plugin_${strategy} LABELS parity matrix SECONDS ${arg_SECONDS}
    SOURCES ${arg_SOURCES} LIBRARIES weft_training_support weft_base weft_host ${arg_LIBRARIES})
  add_dependencies(plugin_${strategy} weft_plugin_${strategy} weft_plugin_gpt2)
endfunction()

add_library(weft_launch_ranks STATIC ${CMAKE_CURRENT_LIST_DIR}/launch_ranks.cpp ${CMAKE_CURRENT_LIST_DIR}/small_disk.cpp
  ${CMAKE_CURRENT_LIST_DIR}/random_layout.cpp ${CMAKE_CURRENT_LIST_DIR}/slice.cpp)
weft_use_tests_pch(weft_launch_ranks)
target_include_directories(weft_launch_ranks PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(weft_launch_ranks PUBLIC weft::sdk weft::libtorch GTest::gtest PRIVATE weft_warnings weft_engine_sources)

# Jobs of small models on several ranks, compared with one rank: for the tests of strategies, operations and model families.
set(weft_tests ${PROJECT_SOURCE_DIR}/tests)
add_library(weft_training_support STATIC
  ${weft_tests}/train/training/toy_model.cpp
  ${weft_tests}/plugins/support/broken_plans.cpp
  ${weft_tests}/plugins/support/bytes.cpp
  ${weft_tests}/plugins/support/parity.cpp
  ${weft_tests}/plugins/support/refusals.cpp
  ${weft_tests}/policies/gpt2/gpt2_trial.cpp
  ${weft_tests}/policies/llama/llama_trial.cpp
  ${weft_tests}/policies/tiny_models.cpp)
weft_use_tests_pch(weft_training_support)
target_include_directories(weft_training_support PUBLIC ${weft_tests})
target_link_libraries(weft_training_support
  PUBLIC weft_launch_ranks weft::core weft_engine_sources weft_base PRIVATE weft_warnings nlohmann_json::nlohmann_json)
