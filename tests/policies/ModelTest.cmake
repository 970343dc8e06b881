# weft_add_model_test(FAMILY SOURCES ...): test <family>_model, the tests of a model family with those that all have in common,
# against the oracles in tests/data/oracles/<family>. With a policy_test.cpp among them the family's policy is compiled in.
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
    list(APPEND libraries weft_plan)
  endif()
  weft_add_rank_test(NAME ${family}_model LABELS parity
    SOURCES ${arg_SOURCES} ${shared}/oracle.cpp ${shared}/parity_test.cpp LIBRARIES ${libraries})
  get_target_property(classes weft_plugin_${family}_model WEFT_PROVIDES)
  list(JOIN classes " " classes)
  target_compile_definitions(${family}_model PRIVATE
    WEFT_CLASSES="${classes}" WEFT_ORACLES="${PROJECT_SOURCE_DIR}/tests/data/oracles/${family}")
endfunction()
