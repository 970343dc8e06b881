# cmake -DROOT=... -DFACTS=... -DOUTPUT=... -P: writes the build id of the headers below ROOT and of the text of FACTS to
# OUTPUT/weft_build_id.h and OUTPUT/weftBuildId.cmake, and to OUTPUT/headers.d what it read, folders included: a new header changes its
# folder.
file(GLOB_RECURSE entries LIST_DIRECTORIES TRUE ${ROOT}/sdk/include/* ${ROOT}/sdk/kit/include/* ${ROOT}/core/*/include/*)
file(GLOB private ${ROOT}/core/host/*.h)
list(APPEND entries ${private} ${ROOT}/core/host)
list(SORT entries)

file(READ ${FACTS} text)
set(settings "")
string(REGEX MATCHALL "_GLIBCXX_(USE_CXX11_ABI|DEBUG) [^\n]*" values "${text}")
foreach(name _GLIBCXX_USE_CXX11_ABI _GLIBCXX_DEBUG)
  set(condition "defined(${name})")
  set(wanted "no ${name}")
  if(values MATCHES "${name} ([0-9]+)")
    set(condition "!defined(${name}) || ${name} != ${CMAKE_MATCH_1}")
    set(wanted "${name}=${CMAKE_MATCH_1}")
  endif()
  string(APPEND settings "#if ${condition}\n#error \"this Weft was built with ${wanted}: compile libraries of tier native with it\"\n#endif\n")
endforeach()

set(read "")
foreach(entry IN LISTS entries)
  string(APPEND read " \\\n  ${entry}")
  if(entry MATCHES "\\.(h|hpp)$")
    cmake_path(RELATIVE_PATH entry BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE name)
    file(SHA256 ${entry} digest)
    string(APPEND text "${name} ${digest}\n")
  endif()
endforeach()
string(SHA256 id "${text}")
string(SUBSTRING ${id} 0 16 id)

# Each is written only if its text changes, so that what depends on it is not built again.
file(CONFIGURE OUTPUT ${OUTPUT}/weftBuildId.cmake CONTENT "set(WEFT_BUILD_ID \"${id}\")\n" @ONLY)
file(CONFIGURE OUTPUT ${OUTPUT}/weft_build_id.h CONTENT "/* Identifies the C++ API of this build of Weft. */
#define WEFT_BUILD_ID \"${id}\"
#ifdef __cplusplus
#include <cstddef>
${settings}#endif
" @ONLY)
file(WRITE ${OUTPUT}/headers.d "${OUTPUT}/weft_build_id.h:${read}\n")
