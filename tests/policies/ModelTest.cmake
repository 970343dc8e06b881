# weft_add_model_test(family SOURCES ... [LIBRARIES ...]): test <family>_model, the tests of a model family with those that all have in common,
# against the oracles in tests/data/oracles/<family>.
function(weft_add_model_test family)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  set(shared ${PROJECT_SOURCE_DIR}/tests/policies)
  weft_add_rank_test(NAME ${family}_model LABELS parity
    SOURCES ${arg_SOURCES} ${shared}/oracle.cpp ${shared}/parity_test.cpp
    LIBRARIES weft_${family}_model weft_hugging_face_format ${arg_LIBRARIES})
  target_compile_definitions(${family}_model PRIVATE
    WEFT_ORACLES="${PROJECT_SOURCE_DIR}/tests/data/oracles/${family}")
endfunction()
