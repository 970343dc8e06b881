# weft_add_model_test(FAMILY SOURCES ...): test <family>_model, the tests of a model family with those that all have in common,
# against the oracles in tests/oracles/<family>. With a policy_test.cpp among them the family's policy is compiled in.
function(weft_add_model_test family)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  set(shared ${PROJECT_SOURCE_DIR}/tests/policies)
  set(libraries weft_${family}_model weft_hugging_face_format weft_base)
  if("policy_test.cpp" IN_LIST arg_SOURCES)
    get_target_property(policy weft_plugin_${family}_shard_policy SOURCES)
    cmake_path(ABSOLUTE_PATH policy BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/policies/${family} NORMALIZE)
    set_source_files_properties(${policy} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
      COMPILE_DEFINITIONS "WEFT_PLUGIN_ID=\"${family}\";WEFT_PLUGIN_VERSION=\"${PROJECT_VERSION}\"")
    list(APPEND arg_SOURCES ${policy})
    list(APPEND libraries weft_core_plans)
  endif()
  weft_add_rank_test(NAME ${family}_model LABELS parity
    SOURCES ${arg_SOURCES} ${shared}/oracle.cpp ${shared}/packed_documents_test.cpp ${shared}/parity_test.cpp ${shared}/noise_test.cpp
    LIBRARIES ${libraries})
  get_target_property(classes weft_plugin_${family}_model WEFT_PROVIDES)
  list(JOIN classes " " classes)
  target_compile_definitions(${family}_model PRIVATE
    WEFT_FAMILY=${family} WEFT_CLASSES="${classes}" WEFT_ORACLES="${PROJECT_SOURCE_DIR}/tests/oracles/${family}")
endfunction()

# Every class of a family in every way to train it, and these cases on the simulated accelerator.
add_library(weft_class_cases OBJECT ${CMAKE_CURRENT_LIST_DIR}/class_cases.cpp)
add_library(weft_family_sim OBJECT ${PROJECT_SOURCE_DIR}/tests/sim/training/class_test.cpp)
foreach(part weft_class_cases weft_family_sim)
  weft_use_tests_pch(${part})
  target_link_libraries(${part} PRIVATE weft_warnings weft_training_support weft_base)
endforeach()

# What every family has in common in training.
add_library(weft_family_training OBJECT
  ${CMAKE_CURRENT_LIST_DIR}/broken_plan_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/class_table_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/flags_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/generated_ids.cpp
  ${CMAKE_CURRENT_LIST_DIR}/generation_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/oracle.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tensor_oracle_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/training_test.cpp
  ${PROJECT_SOURCE_DIR}/tests/api/samples.cpp)
weft_use_tests_pch(weft_family_training)
target_link_libraries(weft_family_training
  PUBLIC weft_training_support weft_base weft_hugging_face_format nlohmann_json::nlohmann_json PRIVATE weft_warnings)
get_property(weft_families GLOBAL PROPERTY WEFT_FAMILIES)
list(JOIN weft_families " " weft_families)
target_compile_definitions(weft_family_training PRIVATE WEFT_ORACLES="${PROJECT_SOURCE_DIR}/tests/oracles"
  WEFT_CLASS_PAGE="${PROJECT_SOURCE_DIR}/sdk/docs/models.md" WEFT_FAMILIES="${weft_families}")

# weft_add_training_test(FAMILY [TRIALS ...] [SOURCES ...]): two tests that train the models of the family's trials.cpp
# (trials.hpp) in every way (class_cases.hpp). TRIALS: what trials.cpp needs. SOURCES: more tests, of <family>_training.
# - <family>_training compares them with one rank, and with what sdk/docs/models.md says of classes.
# - <family>_sim trains them on the simulated accelerator.
function(weft_add_training_test family)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "TRIALS;SOURCES")
  set(trials weft_${family}_trials)
  add_library(${trials} OBJECT trials.cpp ${arg_TRIALS})
  weft_use_tests_pch(${trials})
  target_link_libraries(${trials} PUBLIC weft_training_support weft_base PRIVATE weft_warnings nlohmann_json::nlohmann_json)
  weft_add_rank_test(NAME ${family}_training LABELS parity matrix SOURCES ${arg_SOURCES}
    LIBRARIES ${trials} weft_class_cases weft_family_training weft_host)
  weft_add_rank_test(NAME ${family}_sim LABELS sim SOURCES
    LIBRARIES ${trials} weft_class_cases weft_family_sim weft_sim_ranks weft_host)
  foreach(test ${family}_training ${family}_sim)
    add_dependencies(${test} weft_plugin_${family} weft_plugin_hugging_face weft_plugin_gemini
      weft_plugin_hybrid_parallel weft_plugin_low_level_zero weft_plugin_torch_ddp weft_plugin_torch_fsdp)
  endforeach()
endfunction()
