# weft_add_parity_test: a test that trains a tiny model twice, on one rank and with the plugin, and compares every weight.
#
#   weft_add_parity_test(<name> MODEL config.json DATA text.txt [RANKS 2] [ARGUMENTS flags...] [ONE_RANK flags...] [SAVED file])
#
# Test parity.<name> runs `weft train` for three steps of SGD in fp64, on one rank with the flags ONE_RANK (--strategy none), and on RANKS
# ranks with ARGUMENTS and the plugins of this build. After such steps a weight differs where its gradient does, so all weights of the
# file SAVED (model.safetensors) must be the same up to rounding. The project needs the language C.
include_guard(GLOBAL)

function(weft_add_parity_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MODEL;DATA;RANKS;SAVED" "ARGUMENTS;ONE_RANK")
  foreach(required MODEL DATA)
    if(NOT arg_${required})
      message(FATAL_ERROR "weft_add_parity_test(${name}): ${required} is missing")
    endif()
    cmake_path(ABSOLUTE_PATH arg_${required} BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_add_parity_test(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(default RANKS:2 SAVED:model.safetensors "ONE_RANK:--strategy;none")
    string(REGEX MATCH "^([A-Z_]+):(.*)$" unused "${default}")
    if(NOT arg_${CMAKE_MATCH_1})
      set(arg_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    endif()
  endforeach()
  if(NOT TARGET weft_compare_weights)
    add_executable(weft_compare_weights ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/compare_weights.c)
  endif()
  weft_read_abi_version_()
  # CMake would take the arguments of one list for those of the whole command.
  list(JOIN arg_ONE_RANK "\n" one_rank)
  list(JOIN arg_ARGUMENTS "\n" arguments)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/parity.${name})
  add_test(NAME parity.${name} COMMAND ${CMAKE_COMMAND} -DWEFT=$<TARGET_FILE:weft::command> -DCOMPARE=$<TARGET_FILE:weft_compare_weights>
    -DMODEL=${arg_MODEL} -DDATA=${arg_DATA} -DRANKS=${arg_RANKS} "-DONE_RANK=${one_rank}" "-DARGUMENTS=${arguments}"
    -DSAVED=${arg_SAVED} -DOUTPUT=${folder} -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/WeftParityCheck.cmake)
  set_tests_properties(parity.${name} PROPERTIES LABELS parity TIMEOUT 300 PROCESSORS ${arg_RANKS}
    ENVIRONMENT "OMP_NUM_THREADS=1;WEFT_PLUGIN_ADD_PATH=${CMAKE_BINARY_DIR}/lib/weft/${WEFT_PLUGIN_ABI_MAJOR_}/plugins")
endfunction()
