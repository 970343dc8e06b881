# The build id ties libweft.so, libweft_engine.so and the libraries of tier `native` together. It is a digest of what inlines into their
# users: the installed headers, the private tables of core/host, and facts about the compiler. Sources do not count, so a plugin stays
# valid as long as the C++ API does. Target weft_build_id writes weft_build_id.h and weftBuildId.cmake into WEFT_BUILD_ID_DIR, and only
# when the id changes.
set(WEFT_BUILD_ID_DIR ${CMAKE_BINARY_DIR}/build_id)

# weft_build_facts(RESULT): what decides, beside the headers, whether two builds of the C++ API fit together, one line for each.
function(weft_build_facts result)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(flags "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  separate_arguments(arguments UNIX_COMMAND "${flags}")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${arguments} -std=c++20 -include version -dM -E -x c++ /dev/null
    OUTPUT_VARIABLE defined COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "#define _GLIBCXX_(USE_CXX11_ABI|ASSERTIONS|DEBUG|DEBUG_PEDANTIC|SANITIZE_[A-Z_]+) [^\n]*" settings "${defined}")
  list(SORT settings)
  string(REGEX MATCHALL "-fsanitize=[^ ]+" sanitizers "${flags}")
  string(REGEX REPLACE "\\..*" "" major "${CMAKE_CXX_COMPILER_VERSION}")
  list(JOIN settings "\n" settings)
  set(${result} "weft ${PROJECT_VERSION}\ntorch ${WEFT_TORCH_TAG}\ncompiler ${CMAKE_CXX_COMPILER_ID} ${major}\n\
sanitizers ${sanitizers}\n${settings}\n" PARENT_SCOPE)
endfunction()

weft_build_facts(weft_facts)
file(CONFIGURE OUTPUT ${WEFT_BUILD_ID_DIR}/facts.txt CONTENT "${weft_facts}" @ONLY)
add_custom_command(OUTPUT ${WEFT_BUILD_ID_DIR}/weft_build_id.h ${WEFT_BUILD_ID_DIR}/weftBuildId.cmake
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DFACTS=${WEFT_BUILD_ID_DIR}/facts.txt -DOUTPUT=${WEFT_BUILD_ID_DIR}
    -P ${CMAKE_CURRENT_LIST_DIR}/write-build-id.cmake
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/write-build-id.cmake ${WEFT_BUILD_ID_DIR}/facts.txt
  DEPFILE ${WEFT_BUILD_ID_DIR}/headers.d
  COMMENT "Build id" VERBATIM)
add_custom_target(weft_build_id ALL DEPENDS ${WEFT_BUILD_ID_DIR}/weft_build_id.h)

# weft_use_build_id(TARGET SOURCE): SOURCE, and no other one of the target, includes weft_build_id.h.
function(weft_use_build_id target source)
  add_dependencies(${target} weft_build_id)
  set_property(SOURCE ${source} TARGET_DIRECTORY ${target} APPEND PROPERTY INCLUDE_DIRECTORIES ${WEFT_BUILD_ID_DIR})
endfunction()
