# weft_add_model_family: builds a model family for Weft, in this tree and in yours.
#
#   find_package(weft REQUIRED)
#   weft_add_model_family(my_family CLASSES MyModel MyForCausalLM SOURCES my_config.cpp my_model.cpp [POLICY policy.c])
#
# The folder has plugin.json.in as weft_add_plugin() reads it, the shard policy policy.c (C99, no library; POLICY names
# the file of another family with the same modules, whose policy is called WEFT_PLUGIN_ID), and
# model_plugin.cpp, which makes a model library of SOURCES for CLASSES (names of Hugging Face) with
# WEFT_MODEL_FAMILY() (weft/nn/define_model.hpp). Target weft_<family>_model has the objects of SOURCES, for tests.
include_guard(GLOBAL)
include(WeftPlugin)

function(weft_add_model_family family)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "POLICY" "CLASSES;SOURCES")
  if(NOT arg_POLICY)
    set(arg_POLICY policy.c)
  endif()
  weft_add_plugin(${family})
  weft_plugin_library(${family} KIND shard_policy TIER c SOURCES ${arg_POLICY})
  set(policy weft_plugin_${family}_shard_policy)
  set_target_properties(${policy} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  target_compile_options(${policy} PRIVATE -pedantic-errors)
  target_link_options(${policy} PRIVATE -nostdlib)

  set(model weft_${family}_model)
  add_library(${model} OBJECT ${arg_SOURCES})
  target_link_libraries(${model} PUBLIC weft::core)
  target_include_directories(${model} INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
  if(TARGET weft_warnings)
    target_link_libraries(${model} PRIVATE weft_warnings)
  endif()
  if(TARGET weft_torch_pch)
    # Its flags must be ours.
    target_precompile_headers(${model} REUSE_FROM weft_torch_pch)
    target_compile_options(${model} PRIVATE -fPIC)
    set_target_properties(${model} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  else()
    target_precompile_headers(${model} PRIVATE <weft/nn/encoder_decoder.hpp> <weft/nn/stack_model.hpp>)
    # Without time stamps in it, ccache finds it again.
    target_compile_options(${model} PRIVATE "SHELL:$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Xclang -fno-pch-timestamp>")
    set_target_properties(${model} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  weft_plugin_library(${family} KIND model TIER native
    SOURCES model_plugin.cpp LIBRARIES ${model} PROVIDES ${arg_CLASSES})
endfunction()
