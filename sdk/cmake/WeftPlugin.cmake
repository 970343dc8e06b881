# weft_add_plugin: builds a plugin for Weft, its manifest included, in this tree and in yours.
#
#   find_package(weft REQUIRED)
#   weft_add_plugin(my_policy KIND shard_policy TIER c PROVIDES my_family SOURCES policy.c)
#
# reads plugin.json.in beside the CMakeLists.txt: id, version, description, groups of options that the host performs
# (sdk/options/groups.json), its own options and so on, with @VARIABLES@ replaced. Each must be a variable of CMake.
# A plugin of several libraries names them one by one, each accepted or refused by itself:
#
#   weft_add_plugin(my_family)
#   weft_plugin_library(my_family KIND shard_policy TIER c PROVIDES my_family SOURCES policy.c)
#   weft_plugin_library(my_family KIND model TIER native PROVIDES MyModel MyLMHeadModel SOURCES model.cpp)
#
# weft_add_plugin(<id> [MANIFEST plugin.json.in] [OUTPUT_DIRECTORY dir] [ABI_MINOR_MIN n] [NO_INSTALL] [<library arguments>])
#   ABI_MINOR_MIN is the minor of the oldest host that has what the plugin uses without asking for it with WEFT_HAS; the
#   oldest that the headers describe if it is not given.
#   The result is <dir>/<id>/<version>/ with the libraries and plugin.json (with ABI range, libtorch tag, SHA-256 of each
#   library); <dir> is lib/weft/<abi-major>/plugins of the build tree, and of the prefix after installation. Target
#   weft_plugin_<id> makes all of it. Test plugin.<id>.abi checks what the libraries export and need, test
#   plugin.<id>.conformance loads them and tries them (`weft plugins validate --interface-only`).
# weft_plugin_library(<id> KIND strategy|shard_policy|model|checkpoint_io|operation|device|tokenizer|data|objective|hook TIER c|stable|torch|native SOURCES ...
#                     [TORCH_MIN x.y.0] [PROVIDES names...] [LIBRARIES targets...])
#   TORCH_MIN is the oldest libtorch that a library of tier stable runs with, 2.10.0 if it is not given.
#   PROVIDES are the names by which it is found, <id> if there are none. Call it in the folder of weft_add_plugin.
#   Target weft_plugin_<id>_<kind>. WEFT_PLUGIN_ID and WEFT_PLUGIN_VERSION are defined as strings in its sources; so is
#   WEFT_TORCH_TAG in tiers torch and native, and WEFT_TORCH_MIN in tier stable.
include_guard(GLOBAL)

function(weft_add_plugin id)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "MANIFEST;OUTPUT_DIRECTORY;ABI_MINOR_MIN;KIND;TIER;TORCH_MIN"
    "SOURCES;PROVIDES;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_add_plugin(${id}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT id MATCHES "^[A-Za-z0-9_][A-Za-z0-9_.+-]*$")
    message(FATAL_ERROR "weft_add_plugin(${id}): an id has letters, digits and _ - . + only")
  endif()
  if(TARGET weft_plugin_${id})
    message(FATAL_ERROR "weft_add_plugin(${id}): called twice for this id")
  endif()
  if(NOT arg_MANIFEST)
    set(arg_MANIFEST plugin.json.in)
  endif()
  cmake_path(ABSOLUTE_PATH arg_MANIFEST BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT EXISTS ${arg_MANIFEST})
    message(FATAL_ERROR "weft_add_plugin(${id}): there is no ${arg_MANIFEST}")
  endif()
  weft_read_abi_version_()
  weft_unknown_variables_(${arg_MANIFEST} unknown)
  if(unknown)
    message(FATAL_ERROR "${arg_MANIFEST}: there is no variable ${unknown} here; correct its name, or set it before "
      "weft_add_plugin(${id})")
  endif()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/weft_plugin_${id})
  configure_file(${arg_MANIFEST} ${folder}/plugin.json.base @ONLY)
  file(READ ${folder}/plugin.json.base manifest)
  foreach(key id version)
    string(JSON ${key}_value ERROR_VARIABLE problem GET "${manifest}" ${key})
    if(problem)
      message(FATAL_ERROR "${arg_MANIFEST}: ${problem}; it must be an object with \"id\" and \"version\"")
    endif()
  endforeach()
  if(NOT id_value STREQUAL id)
    message(FATAL_ERROR "${arg_MANIFEST}: \"id\" is ${id_value}, but weft_add_plugin was called for ${id}")
  endif()
  if(NOT version_value MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+([-+][A-Za-z0-9.+-]*)?$")
    message(FATAL_ERROR "${arg_MANIFEST}: \"version\" is \"${version_value}\", must be like 1.2.3")
  endif()
  foreach(key abi libraries manifest_version)
    string(JSON unused ERROR_VARIABLE problem GET "${manifest}" ${key})
    if(NOT problem)
      message(FATAL_ERROR "${arg_MANIFEST}: leave \"${key}\" out, weft_add_plugin writes it")
    endif()
  endforeach()

  if(NOT DEFINED arg_ABI_MINOR_MIN)
    set(arg_ABI_MINOR_MIN ${WEFT_PLUGIN_ABI_MINOR_OLDEST_})
  elseif(NOT arg_ABI_MINOR_MIN MATCHES "^[0-9]+$" OR arg_ABI_MINOR_MIN LESS WEFT_PLUGIN_ABI_MINOR_OLDEST_
         OR arg_ABI_MINOR_MIN GREATER WEFT_PLUGIN_ABI_MINOR_)
    message(FATAL_ERROR "weft_add_plugin(${id}): ABI_MINOR_MIN is \"${arg_ABI_MINOR_MIN}\", must be from "
      "${WEFT_PLUGIN_ABI_MINOR_OLDEST_} to ${WEFT_PLUGIN_ABI_MINOR_}, the minors that these headers describe")
  endif()

  set(below lib/weft/${WEFT_PLUGIN_ABI_MAJOR_}/plugins)
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${below})
  endif()
  set(output ${arg_OUTPUT_DIRECTORY}/${id}/${version_value})
  add_custom_target(weft_plugin_${id} ALL DEPENDS ${output}/plugin.json)
  set_target_properties(weft_plugin_${id} PROPERTIES
    WEFT_VERSION "${version_value}" WEFT_OUTPUT "${output}" WEFT_FOLDER "${folder}" WEFT_LIBRARIES ""
    WEFT_ABI_MINOR_MIN ${arg_ABI_MINOR_MIN})
  if(NOT arg_NO_INSTALL)
    set_target_properties(weft_plugin_${id} PROPERTIES WEFT_INSTALL ${below}/${id}/${version_value})
  endif()
  if(arg_SOURCES)
    weft_plugin_library(${id} KIND ${arg_KIND} TIER ${arg_TIER} TORCH_MIN ${arg_TORCH_MIN}
      SOURCES ${arg_SOURCES} PROVIDES ${arg_PROVIDES} LIBRARIES ${arg_LIBRARIES})
  endif()
  # The manifest needs all libraries, and those come after this call.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL weft_finish_plugin_ [[${id}]])")
endfunction()

# Sets `result` to the names in @NAME@ of a file that are no variables: configure_file would leave them out, and with them
# the options of a group.
function(weft_unknown_variables_ file result)
  file(READ ${file} text)
  string(REGEX MATCHALL "@[A-Za-z0-9_./+-]+@" references "${text}")
  set(unknown "")
  foreach(reference IN LISTS references)
    string(REPLACE "@" "" name ${reference})
    if(NOT DEFINED ${name})
      list(APPEND unknown ${name})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES unknown)
  string(REPLACE ";" ", " unknown "${unknown}")
  set(${result} "${unknown}" PARENT_SCOPE)
endfunction()

function(weft_plugin_library id)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "KIND;TIER;TORCH_MIN" "SOURCES;PROVIDES;LIBRARIES")
  set(who "weft_plugin_library(${id})")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${who}: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TARGET weft_plugin_${id})
    message(FATAL_ERROR "${who}: call weft_add_plugin(${id}) first")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "${who}: SOURCES are missing")
  endif()
  if(NOT arg_KIND MATCHES "^(strategy|shard_policy|model|checkpoint_io|operation|device|tokenizer|data|objective|hook)$")
    message(FATAL_ERROR "${who}: KIND is \"${arg_KIND}\", must be strategy, shard_policy, model, checkpoint_io, operation, device, tokenizer, data, objective or hook")
  endif()
  if(NOT arg_TIER MATCHES "^(c|stable|torch|native)$")
    message(FATAL_ERROR "${who}: TIER is \"${arg_TIER}\", must be c, stable, torch or native")
  endif()
  if(arg_TIER STREQUAL "stable" AND NOT arg_KIND MATCHES "^(strategy|operation)$")
    message(FATAL_ERROR "${who}: TIER stable is for strategies and operations, not for kind ${arg_KIND}")
  endif()
  if(arg_TORCH_MIN AND NOT arg_TIER STREQUAL "stable")
    message(FATAL_ERROR "${who}: TORCH_MIN is for TIER stable; tier ${arg_TIER} needs the libtorch that it is built with, or none")
  endif()
  if(NOT arg_PROVIDES)
    set(arg_PROVIDES ${id})
  endif()
  set(target weft_plugin_${id}_${arg_KIND})
  if(TARGET ${target})
    message(FATAL_ERROR "${who}: it has a library of kind ${arg_KIND} already; let that one provide several names")
  endif()
  get_target_property(version weft_plugin_${id} WEFT_VERSION)
  get_target_property(output weft_plugin_${id} WEFT_OUTPUT)
  weft_read_abi_version_()

  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE weft::sdk ${arg_LIBRARIES})
  if(TARGET weft_warnings)
    target_link_libraries(${target} PRIVATE weft_warnings)
  endif()
  get_target_property(minor_min weft_plugin_${id} WEFT_ABI_MINOR_MIN)
  target_compile_definitions(${target} PRIVATE WEFT_PLUGIN_ID="${id}" WEFT_PLUGIN_VERSION="${version}"
    WEFT_PLUGIN_ABI_MINOR_MIN=${minor_min})
  if(arg_TIER STREQUAL "stable")
    weft_plugin_stable_(${target} "${who}" "${arg_TORCH_MIN}")
  else()
    weft_plugin_tier_(${target} ${arg_TIER})
  endif()
  weft_plugin_note_(${target} ${id} ${version} ${arg_TIER})
  weft_plugin_link_(${target})
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${id}_${arg_KIND} LIBRARY_OUTPUT_DIRECTORY ${output}
    WEFT_KIND ${arg_KIND} WEFT_TIER ${arg_TIER} WEFT_PROVIDES "${arg_PROVIDES}")
  set_property(TARGET weft_plugin_${id} APPEND PROPERTY WEFT_LIBRARIES ${target})
endfunction()

# Tier stable: libtorch's stable ABI as of version `torch_min`, and its headers hide what came later.
function(weft_plugin_stable_ target who torch_min)
  set(oldest 2.10.0) # the first one through which every operator can be called
  if(NOT torch_min)
    set(torch_min ${oldest})
  endif()
  if(NOT TARGET weft::libtorch OR NOT WEFT_TORCH_TAG)
    message(FATAL_ERROR "${who}: tier stable needs weft::libtorch, which find_package(weft) gives when libtorch is there; set "
      "WEFT_LIBTORCH to its folder")
  endif()
  string(REGEX REPLACE "^torch=([0-9.]+).*" "\\1" newest "${WEFT_TORCH_TAG}")
  if(NOT torch_min MATCHES "^([0-9]+)\\.([0-9]+)\\.0$" OR torch_min VERSION_LESS oldest OR torch_min VERSION_GREATER newest)
    message(FATAL_ERROR "${who}: TORCH_MIN is \"${torch_min}\", must be a version X.Y.0 from ${oldest} to ${newest}, whose headers "
      "are used here")
  endif()
  math(EXPR target_version "(${CMAKE_MATCH_1} << 56) | (${CMAKE_MATCH_2} << 48)" OUTPUT_FORMAT HEXADECIMAL)
  set_target_properties(${target} PROPERTIES WEFT_TORCH_MIN ${torch_min}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${target} PRIVATE weft::libtorch)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_definitions(${target} PRIVATE WEFT_TORCH_MIN="${torch_min}" TORCH_TARGET_VERSION=${target_version}ULL)
endfunction()

# What each other tier may use, and the precompiled header where the tree has one.
function(weft_plugin_tier_ target tier)
  set_target_properties(${target} PROPERTIES
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  if(tier STREQUAL "c")
    # C++ may be used inside, but must not show: no runtime of it is asked of the host.
    target_link_options(${target} PRIVATE $<$<LINK_LANGUAGE:CXX>:-static-libstdc++> $<$<LINK_LANGUAGE:CXX>:-static-libgcc>)
    return()
  endif()
  if(NOT TARGET weft::libtorch OR NOT WEFT_TORCH_TAG)
    message(FATAL_ERROR "${target}: tier ${tier} needs weft::libtorch and WEFT_TORCH_TAG, which find_package(weft) gives "
      "when libtorch is there; set WEFT_LIBTORCH to its folder")
  endif()
  string(REPLACE ";" "\\;" tag "${WEFT_TORCH_TAG}")
  target_link_libraries(${target} PRIVATE weft::libtorch)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_property(TARGET ${target} APPEND PROPERTY COMPILE_DEFINITIONS "WEFT_TORCH_TAG=\"${tag}\"")
  if(tier STREQUAL "native")
    target_link_libraries(${target} PRIVATE weft::core)
  endif()
  if(TARGET weft_torch_pch)
    # Its flags must be ours; nothing is exported all the same, the version script sees to that.
    target_precompile_headers(${target} REUSE_FROM weft_torch_pch)
    target_compile_options(${target} PRIVATE -fPIC)
    set_target_properties(${target} PROPERTIES
      CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF POSITION_INDEPENDENT_CODE OFF)
  endif()
endfunction()

function(weft_plugin_note_ target id version tier)
  get_target_property(minor_min weft_plugin_${id} WEFT_ABI_MINOR_MIN)
  set(lines "id=${id}" "version=${version}" "tier=${tier}"
    "abi=${WEFT_PLUGIN_ABI_MAJOR_}.${minor_min}-${WEFT_PLUGIN_ABI_MINOR_}")
  list(JOIN lines "\\n" text)
  if(tier STREQUAL "stable")
    get_target_property(torch_min ${target} WEFT_TORCH_MIN)
    string(APPEND text "\\ntorch_min=${torch_min}")
  elseif(NOT tier STREQUAL "c")
    string(APPEND text "\\ntorch=${WEFT_TORCH_TAG}")
  endif()
  string(APPEND text "\\n")
  set(include "")
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(tier STREQUAL "native")
    # Another id compiles the note again and nothing else. As C++, it also sees whether the settings of the standard library fit.
    string(APPEND text "build=\" WEFT_BUILD_ID \"\\n")
    set(include "#include \"${WEFT_BUILD_ID_DIR}/weft_build_id.h\"\n")
    if(TARGET weft_build_id)
      add_dependencies(${target} weft_build_id)
    endif()
    set(note ${CMAKE_CURRENT_BINARY_DIR}/weft_plugin_${id}/${target}_note.cpp)
  elseif("C" IN_LIST languages)
    set(note ${CMAKE_CURRENT_BINARY_DIR}/weft_plugin_${id}/${target}_note.c)
  else()
    set(note ${CMAKE_CURRENT_BINARY_DIR}/weft_plugin_${id}/${target}_note.cpp)
  endif()
  file(CONFIGURE OUTPUT ${note} CONTENT "#include <weft/note.h>\n${include}\nWEFT_PLUGIN_NOTE(\"${text}\");\n" @ONLY)
  set_source_files_properties(${note} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${note})
endfunction()

# Gates of the build: one exported symbol, nothing undefined, no search path of its own, never unmapped.
function(weft_plugin_link_ target)
  set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/weft_plugin.map)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>>)
  target_link_options(${target} PRIVATE LINKER:--version-script=${script} LINKER:-z,relro,-z,now,-z,nodelete)
  weft_has_sanitizer_(sanitized)
  if(NOT sanitized)  # a sanitizer's runtime is in the executable
    target_link_options(${target} PRIVATE LINKER:--no-undefined LINKER:-z,defs)
  endif()
  set_target_properties(${target} PROPERTIES
    LINK_DEPENDS ${script} NO_SONAME ON SKIP_BUILD_RPATH ON BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "")
endfunction()

function(weft_has_sanitizer_ result)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(flags "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  if(flags MATCHES "-fsanitize")
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Called at the end of the folder: the manifest, the test, the installation.
function(weft_finish_plugin_ id)
  foreach(property LIBRARIES OUTPUT FOLDER INSTALL ABI_MINOR_MIN)
    get_target_property(${property} weft_plugin_${id} WEFT_${property})
  endforeach()
  if(NOT LIBRARIES)
    message(FATAL_ERROR "weft_add_plugin(${id}): it has no library; give SOURCES, or call weft_plugin_library(${id} ...)")
  endif()
  weft_read_abi_version_()
  set(recipe "set(abi [==[{\"major\": ${WEFT_PLUGIN_ABI_MAJOR_}, \"minor_min\": ${ABI_MINOR_MIN}, ")
  string(APPEND recipe "\"minor\": ${WEFT_PLUGIN_ABI_MINOR_}}]==])\n")
  set(checks "")
  set(files "")
  set(build_id "") # the file that says it, if a library needs it
  foreach(library IN LISTS LIBRARIES)
    get_target_property(kind ${library} WEFT_KIND)
    get_target_property(tier ${library} WEFT_TIER)
    get_target_property(provides ${library} WEFT_PROVIDES)
    list(JOIN provides "\", \"" provides)
    set(entry "\"file\": \"${id}_${kind}.so\", \"kind\": \"${kind}\", \"tier\": \"${tier}\", \"provides\": [\"${provides}\"]")
    if(tier STREQUAL "stable")
      get_target_property(torch_min ${library} WEFT_TORCH_MIN)
      string(APPEND entry ", \"torch_min\": \"${torch_min}\"")
    elseif(NOT tier STREQUAL "c")
      string(APPEND entry ", \"torch_tag\": \"${WEFT_TORCH_TAG}\"")
    endif()
    if(tier STREQUAL "native")
      string(APPEND entry ", \"build_id\": \"WEFT_BUILD_ID\"")
      set(build_id ${WEFT_BUILD_ID_DIR}/weftBuildId.cmake)
    endif()
    string(APPEND recipe "weft_library([==[$<TARGET_FILE:${library}>]==] [==[${entry}]==])\n")
    string(APPEND checks "weft_check([==[$<TARGET_FILE:${library}>]==] ${tier})\n")
    list(APPEND files $<TARGET_FILE:${library}>)
  endforeach()
  file(GENERATE OUTPUT ${FOLDER}/manifest.cmake CONTENT "${recipe}")
  file(GENERATE OUTPUT ${FOLDER}/checks.cmake CONTENT "${checks}")

  set(scripts ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  add_custom_command(OUTPUT ${OUTPUT}/plugin.json
    COMMAND ${CMAKE_COMMAND} -DBASE=${FOLDER}/plugin.json.base -DRECIPE=${FOLDER}/manifest.cmake
      "-DBUILD_ID=${build_id}" -DOUTPUT=${OUTPUT}/plugin.json -P ${scripts}/WeftPluginManifest.cmake
    DEPENDS ${LIBRARIES} ${build_id} ${FOLDER}/plugin.json.base ${FOLDER}/manifest.cmake ${scripts}/WeftPluginManifest.cmake
    COMMENT "Manifest of plugin ${id}" VERBATIM)
  weft_has_sanitizer_(sanitized)
  if(NOT sanitized)
    add_test(NAME plugin.${id}.abi COMMAND ${CMAKE_COMMAND} -DCHECKS=${FOLDER}/checks.cmake -DNM=${CMAKE_NM}
      -DREADELF=${CMAKE_READELF} -P ${scripts}/WeftPluginCheck.cmake)
    set_tests_properties(plugin.${id}.abi PROPERTIES LABELS abi)
    add_test(NAME plugin.${id}.conformance COMMAND weft::command plugins validate --interface-only ${OUTPUT})
    set_tests_properties(plugin.${id}.conformance PROPERTIES LABELS conformance TIMEOUT 120)
  endif()
  if(INSTALL)
    # As files: a library that is stripped or edited on the way no longer has the digest in its manifest.
    install(FILES ${files} ${OUTPUT}/plugin.json DESTINATION ${INSTALL})
  endif()
endfunction()

# Sets WEFT_PLUGIN_ABI_MAJOR_, WEFT_PLUGIN_ABI_MINOR_ and WEFT_PLUGIN_ABI_MINOR_OLDEST_ from the header that the plugin is compiled with.
function(weft_read_abi_version_)
  foreach(include ${WEFT_INCLUDE_DIR} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include
          ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../include)
    set(header ${include}/weft/abi_version.h)
    if(EXISTS ${header})
      foreach(part MAJOR MINOR MINOR_OLDEST)
        file(STRINGS ${header} line REGEX "define WEFT_ABI_${part} ")
        string(REGEX REPLACE ".*WEFT_ABI_${part} ([0-9]+).*" "\\1" number "${line}")
        set(WEFT_PLUGIN_ABI_${part}_ ${number} PARENT_SCOPE)
      endforeach()
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "weft/abi_version.h is nowhere near ${CMAKE_CURRENT_FUNCTION_LIST_DIR}; set WEFT_INCLUDE_DIR")
endfunction()
